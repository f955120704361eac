//! Names of projects.

use super::Language;
use crate::naming::Identity;

/// Error for an invalid name of a project.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not valid for packages and Kubernetes objects.
    #[error(transparent)]
    Invalid(#[from] crate::naming::Error),
    /// The name is a keyword or a module in the language.
    #[error("invalid name {name:?}: it is reserved in {language}; choose another one")]
    Reserved {
        /// The name.
        name: String,
        /// The language.
        language: &'static str,
    },
}

/// Keywords, standard crates, the crates of the project, and folders of Cargo.
const RUST: &str = "abstract alloc as async await become box break build const continue core crate deps do \
    dyn else enum examples extern false final fn for gen if impl in incremental k8s-openapi kopf \
    kopf-testing kube let loop macro match mod move mut override priv proc-macro pub ref return schemars \
    self serde serde-json static std struct super test tokio trait true try type typeof union unsafe \
    unsized use virtual where while yield";

/// Keywords, imported modules, and modules of the project.
const PYTHON: &str = "and as asserts assert async await break class click conftest continue def del elif else \
    except finally for from global handlers if import in is kopf lambda match nonlocal not or pass pytest \
    raise return sys test tests try type typing while with yaml yield";

/// Checks the name of a project.
pub(super) fn check(name: &str, language: Language) -> Result<(), Error> {
    Identity::new(name, "default")?;
    let (reserved, language) = match language {
        Language::Rust => (RUST, "Rust"),
        Language::Python => (PYTHON, "Python"),
    };
    if reserved.split_whitespace().any(|word| word == name) {
        let name = name.to_owned();
        return Err(Error::Reserved { name, language });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_depend_on_the_language() {
        assert!(check("my-operator", Language::Rust).is_ok());
        for (name, language) in [
            ("kopf", Language::Rust),
            ("async", Language::Rust),
            ("test", Language::Rust),
            ("lambda", Language::Python),
        ] {
            let error = check(name, language).unwrap_err();
            assert!(matches!(error, Error::Reserved { .. }), "{error}");
        }
        assert!(check("lambda", Language::Rust).is_ok());
        for name in ["", "My", "a_b", "1st", "a/b", "../x"] {
            let error = check(name, Language::Python).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
    }
}
