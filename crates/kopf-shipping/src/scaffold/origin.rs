//! The source of the framework for a new project.

use std::path::{Path, PathBuf};

use super::{Language, VERSION};

/// The source of the framework.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A released version, from a registry.
    #[default]
    Released,
    /// The sources in this folder, for projects in Rust.
    Sources(PathBuf),
    /// This wheel, for projects in Python.
    Wheel(PathBuf),
}

/// Error for a path that is not a source of the framework.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path does not exist.
    #[error("cannot find {}: {source}", .path.display())]
    Missing {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The path is something else.
    #[error("{} cannot be used: a project in Rust needs the folder with the sources of Kopf", .0.display())]
    NotSources(PathBuf),
    /// The path is something else.
    #[error("{} cannot be used: a project in Python needs a wheel of Kopf (kopf_rs-….whl)", .0.display())]
    NotWheel(PathBuf),
}

impl Origin {
    /// Returns the source at a path: the folder of a clone for Rust, a wheel for Python.
    pub fn at(path: &Path, language: Language) -> Result<Self, Error> {
        let found = std::fs::canonicalize(path).map_err(|source| Error::Missing {
            path: path.to_owned(),
            source,
        })?;
        match language {
            Language::Rust if found.join("crates/kopf/Cargo.toml").is_file() => {
                Ok(Self::Sources(found))
            }
            Language::Rust => Err(Error::NotSources(found)),
            Language::Python => {
                let name = found.file_name().unwrap_or_default().to_string_lossy();
                let is_wheel = name.starts_with("kopf_rs-") && name.ends_with(".whl");
                if is_wheel && found.is_file() {
                    Ok(Self::Wheel(found))
                } else {
                    Err(Error::NotWheel(found))
                }
            }
        }
    }

    /// Returns the source of a crate, as in a manifest of Cargo.
    pub(super) fn dependency(&self, package: &str) -> String {
        match self {
            Self::Sources(root) => {
                let path = root.join("crates").join(package);
                format!("path = {:?}", path.display().to_string())
            }
            Self::Released | Self::Wheel(_) => format!("version = {VERSION:?}"),
        }
    }

    /// Returns the path of the wheel in the project.
    pub(super) fn copied(&self) -> Option<String> {
        match self {
            Self::Wheel(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                Some(format!("wheels/{name}"))
            }
            Self::Released | Self::Sources(_) => None,
        }
    }

    /// Returns the requirement of pip.
    pub(super) fn requirement(&self) -> String {
        match self.copied() {
            Some(path) => format!("./{path}"),
            None => format!("kopf-rs>={VERSION}"),
        }
    }

    /// Returns the line of a Dockerfile by which the image gets the source.
    pub(super) fn copy_instruction(&self) -> String {
        match self {
            Self::Released => String::new(),
            Self::Sources(root) => format!("COPY --from=kopf . {}\n", root.display()),
            Self::Wheel(_) => "COPY wheels wheels\n".to_owned(),
        }
    }

    /// Returns the option of `docker build` by which the Dockerfile gets the source, with a space.
    pub(super) fn build_context(&self) -> String {
        match self {
            Self::Sources(root) => format!("--build-context kopf={} ", root.display()),
            Self::Released | Self::Wheel(_) => String::new(),
        }
    }

    /// Returns the source as the end of a sentence.
    pub(super) fn description(&self, language: Language) -> String {
        match (self, language) {
            (Self::Released, Language::Rust) => "from crates.io".to_owned(),
            (Self::Released, Language::Python) => "from PyPI".to_owned(),
            (Self::Sources(root), _) => format!("from the sources in {}", root.display()),
            (Self::Wheel(_), _) => "of the wheel in wheels/".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_paths_are_rejected_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let error = Origin::at(&folder.path().join("absent"), Language::Rust).unwrap_err();
        assert!(error.to_string().starts_with("cannot find "), "{error}");
        let error = Origin::at(folder.path(), Language::Rust).unwrap_err();
        assert!(
            error.to_string().contains("the folder with the sources"),
            "{error}"
        );
        let other = folder.path().join("other-1.0.whl");
        std::fs::write(&other, "").unwrap();
        for path in [folder.path(), &other] {
            let error = Origin::at(path, Language::Python).unwrap_err();
            assert!(
                error.to_string().contains("needs a wheel of Kopf"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_folder_of_a_clone_is_accepted() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let origin = Origin::at(&root, Language::Rust).unwrap();
        assert_eq!(origin, Origin::Sources(root.canonicalize().unwrap()));
    }
}
