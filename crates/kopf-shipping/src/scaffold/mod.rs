//! Templates of new projects. The generated operators compile, pass their tests and can be
//! deployed.

mod naming;
mod templates;

use std::path::{Path, PathBuf};

use crate::files::File;

pub use naming::Error;

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust, with Cargo.
    Rust,
    /// Python, with pytest.
    Python,
}

/// The source of the framework.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A released version.
    #[default]
    Released,
    /// The sources in this folder.
    Sources(PathBuf),
}

/// A project to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The name.
    pub name: String,
    /// The language.
    pub language: Language,
    /// The source of the framework.
    pub origin: Origin,
}

impl Project {
    /// Returns the files of the project.
    ///
    /// ```
    /// use kopf_shipping::scaffold::{Language, Origin, Project};
    ///
    /// let project = Project {
    ///     name: "my-operator".to_owned(),
    ///     language: Language::Rust,
    ///     origin: Origin::Released,
    /// };
    /// let files = project.files()?;
    /// assert!(files.iter().any(|file| file.path == "src/lib.rs"));
    /// # Ok::<(), kopf_shipping::scaffold::Error>(())
    /// ```
    pub fn files(&self) -> Result<Vec<File>, Error> {
        naming::check(&self.name, self.language)?;
        let templates = templates::of(self.language).iter();
        let files =
            templates.map(|(path, content)| File::new(self.filled(path), self.filled(content)));
        Ok(files.collect())
    }

    /// Returns the next steps in the folder of the project, as text for the user.
    pub fn next_steps(&self, folder: &Path) -> String {
        let steps = match self.language {
            Language::Rust => {
                "  cargo test\n  cargo run -- crd > crd.yaml\n  \
                 cargo run -- run --sandbox -f crd.yaml -f deploy/example.yaml\n"
            }
            Language::Python => {
                "  pip install --requirement requirements.txt pytest\n  pytest\n  \
                 kopf crd handlers.py > crd.yaml\n  \
                 kopf run --sandbox -f crd.yaml -f deploy/example.yaml handlers.py\n"
            }
        };
        let folder = folder.display();
        format!("The project is in {folder}. Next steps:\n  cd {folder}\n{steps}")
    }

    /// Replaces the placeholders of a template.
    fn filled(&self, template: &str) -> String {
        let module = self.name.replace('-', "_");
        let version = env!("CARGO_PKG_VERSION");
        let source = |package: &str| match &self.origin {
            Origin::Released => format!("version = {version:?}"),
            Origin::Sources(root) => {
                let path = root.join("crates").join(package);
                format!("path = {:?}", path.display().to_string())
            }
        };
        template
            .replace("@NAME@", &self.name)
            .replace("@MODULE@", &module)
            .replace("@VERSION@", version)
            .replace("@KOPF@", &source("kopf"))
            .replace("@KOPF_TESTING@", &source("kopf-testing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(language: Language) -> Project {
        Project {
            name: "my-operator".to_owned(),
            language,
            origin: Origin::Released,
        }
    }

    #[test]
    fn all_placeholders_are_replaced() {
        for language in [Language::Rust, Language::Python] {
            let files = project(language).files().unwrap();
            let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
            for expected in ["Dockerfile", "README.md", "deploy/operator.yaml"] {
                assert!(paths.contains(&expected), "{paths:?}");
            }
            for file in &files {
                assert!(!has_placeholder(&file.content), "{}", file.path);
                assert!(file.content.ends_with('\n'), "{}", file.path);
            }
        }
    }

    fn has_placeholder(text: &str) -> bool {
        [
            "@NAME@",
            "@MODULE@",
            "@VERSION@",
            "@KOPF@",
            "@KOPF_TESTING@",
        ]
        .iter()
        .any(|placeholder| text.contains(placeholder))
    }

    #[test]
    fn sources_become_path_dependencies() {
        let mut project = project(Language::Rust);
        project.origin = Origin::Sources(PathBuf::from("/src/kopf"));
        let files = project.files().unwrap();
        let manifest = files.iter().find(|file| file.path == "Cargo.toml").unwrap();
        let expected = "kopf = { path = \"/src/kopf/crates/kopf\", features = [\"latest\"] }";
        assert!(manifest.content.contains(expected), "{}", manifest.content);
    }

    #[test]
    fn manifests_contain_the_crd_and_the_deployment() {
        for language in [Language::Rust, Language::Python] {
            let files = project(language).files().unwrap();
            let manifest = files
                .iter()
                .find(|file| file.path == "deploy/operator.yaml");
            let objects: Vec<serde_json::Value> =
                serde_saphyr::from_multiple(&manifest.unwrap().content).unwrap();
            let kinds: Vec<_> = objects
                .iter()
                .filter_map(|one| one["kind"].as_str())
                .collect();
            assert!(kinds.contains(&"Deployment") && kinds.contains(&"CustomResourceDefinition"));
            let deployment = objects.iter().find(|one| one["kind"] == "Deployment");
            let container = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0];
            for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
                assert_eq!(container[probe]["httpGet"]["path"], path);
            }
        }
    }
}
