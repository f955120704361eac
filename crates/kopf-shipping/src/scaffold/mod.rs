//! Templates of new projects. The generated operators compile, pass their tests and can be
//! deployed.

mod naming;
mod origin;
mod templates;

use std::path::Path;

use crate::files::{self, File};

pub use naming::Error;
pub use origin::{Error as OriginError, Origin};

/// The language of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Rust, with Cargo.
    Rust,
    /// Python, with pytest.
    Python,
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

    /// Creates the project in a folder, which must be empty or absent.
    pub fn create(&self, folder: &Path) -> Result<(), CreationError> {
        files::write_new(folder, &self.files()?)?;
        if let Origin::Wheel(wheel) = &self.origin {
            files::copy(
                wheel,
                &folder.join(self.origin.copied().unwrap_or_default()),
            )?;
        }
        Ok(())
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
        let (folder, source) = (folder.display(), self.origin.description(self.language));
        format!(
            "The project is in {folder}. It uses Kopf {VERSION} {source}. Next steps:\n  cd {folder}\n{steps}"
        )
    }

    /// Replaces the placeholders of a template.
    fn filled(&self, template: &str) -> String {
        let module = self.name.replace('-', "_");
        let origin = &self.origin;
        template
            .replace("@NAME@", &self.name)
            .replace("@MODULE@", &module)
            .replace("@VERSION@", VERSION)
            .replace("@KOPF@", &origin.dependency("kopf"))
            .replace("@KOPF_TESTING@", &origin.dependency("kopf-testing"))
            .replace("@REQUIREMENT@", &origin.requirement())
            .replace("@KOPF_COPY@\n", &origin.copy_instruction())
            .replace("@KOPF_CONTEXT@", &origin.build_context())
    }
}

/// The version of the framework.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Error for a project that cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreationError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] Error),
    /// A file cannot be written.
    #[error(transparent)]
    Files(#[from] files::Error),
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

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
            assert!(has_placeholder("a @NAME@ b") && !has_placeholder("actions/checkout@v4"));
            for file in &files {
                assert!(!has_placeholder(&file.content), "{}", file.path);
                assert!(file.content.ends_with('\n'), "{}", file.path);
            }
        }
    }

    fn has_placeholder(text: &str) -> bool {
        let capitals = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        text.split('@').skip(1).any(capitals)
    }

    #[test]
    fn wheels_become_a_part_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder
            .path()
            .join("kopf_rs-0.1.0-cp311-abi3-linux_x86_64.whl");
        std::fs::write(&wheel, [0, 159, 146, 150]).unwrap();
        let mut project = project(Language::Python);
        project.origin = Origin::at(&wheel, Language::Python).unwrap();
        let created = folder.path().join("created");
        project.create(&created).unwrap();
        let copy = "wheels/kopf_rs-0.1.0-cp311-abi3-linux_x86_64.whl";
        assert_eq!(
            std::fs::read(created.join(copy)).unwrap(),
            [0, 159, 146, 150]
        );
        let read = |name: &str| std::fs::read_to_string(created.join(name)).unwrap();
        assert_eq!(read("requirements.txt"), format!("./{copy}\n"));
        assert!(read("Dockerfile").contains("\nCOPY wheels wheels\n"));
        let steps = project.next_steps(&created);
        assert!(
            steps.contains("It uses Kopf 0.1.0 of the wheel in wheels/."),
            "{steps}"
        );
    }

    #[test]
    fn sources_become_path_dependencies() {
        let mut project = project(Language::Rust);
        project.origin = Origin::Sources(PathBuf::from("/src/kopf"));
        let files = project.files().unwrap();
        let manifest = files.iter().find(|file| file.path == "Cargo.toml").unwrap();
        let expected = "kopf = { path = \"/src/kopf/crates/kopf\", features = [\"latest\"] }";
        assert!(manifest.content.contains(expected), "{}", manifest.content);
        let image = files.iter().find(|file| file.path == "Dockerfile").unwrap();
        assert!(
            image.content.contains("COPY --from=kopf . /src/kopf\n"),
            "{}",
            image.content
        );
        let steps = project.next_steps(Path::new("x"));
        assert!(steps.contains("the sources in /src/kopf"), "{steps}");
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
