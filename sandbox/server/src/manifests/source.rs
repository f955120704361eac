//! Sources of manifests: files, folders, stdin.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Error;

/// Maximum depth of folders. Symbolic links can form cycles.
const MAX_DEPTH: usize = 32;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    Stdin,
    File(PathBuf),
}

/// Replaces folders by the manifests in them.
pub(super) fn expand(names: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    for name in names {
        if name == Path::new("-") {
            if sources.contains(&Source::Stdin) {
                return Err(Error::new("stdin is given twice").advise("give `-f -` only once"));
            }
            sources.push(Source::Stdin);
        } else if is_url(name) {
            let url = name.display();
            return Err(Error::new(format!("URLs are not supported: {url}"))
                .because("manifests are read from files, folders and stdin, not from URLs")
                .advise(format!("curl -fsSL {url} | … -f -")));
        } else if name.is_dir() {
            let before = sources.len();
            walk(name, 0, &mut sources)?;
            if sources.len() == before {
                return Err(Error::new(format!("{} has no manifests", name.display()))
                    .because("no *.yaml, *.yml or *.json in it or below")
                    .advise("check the path, or give a file"));
            }
        } else {
            sources.push(Source::File(name.clone()));
        }
    }
    reject_duplicates(&sources)?;
    Ok(sources)
}

/// Rejects files that are given twice, instead of reporting each of their objects as repeated.
fn reject_duplicates(sources: &[Source]) -> Result<(), Error> {
    let mut seen = BTreeMap::new();
    for source in sources {
        let Source::File(path) = source else { continue };
        // A missing path is reported when it is read.
        let Ok(real) = path.canonicalize() else {
            continue;
        };
        if let Some(first) = seen.insert(real, path) {
            let mut error = Error::new(format!("{} is given twice", path.display()));
            if first != path {
                error = error.because(format!("also as {}", first.display()));
            }
            return Err(error.advise("give it once; a folder has all files in it"));
        }
    }
    Ok(())
}

fn is_url(name: &Path) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    name.starts_with("https://") || name.starts_with("http://")
}

fn walk(folder: &Path, depth: usize, sources: &mut Vec<Source>) -> Result<(), Error> {
    let unreadable_folder = |error: io::Error| unreadable(&folder.display().to_string(), &error);
    if depth > MAX_DEPTH {
        return Err(
            Error::new(format!("{} is nested too deeply", folder.display()))
                .because(format!("folders are read to a depth of {MAX_DEPTH}"))
                .advise("check for links that lead back to a folder above"),
        );
    }
    let entries = fs::read_dir(folder).map_err(unreadable_folder)?;
    let mut paths: Vec<_> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(unreadable_folder)?;
    // The order of a folder depends on the file system; the order of loading must not.
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, depth + 1, sources)?;
        } else if is_manifest(&path) {
            sources.push(Source::File(path));
        }
    }
    Ok(())
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::new(format!("cannot read {name}")).because(error.to_string())
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

impl Source {
    /// Returns the name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stdin => "stdin".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    pub(super) fn read(&self) -> Result<String, Error> {
        let bytes = match self {
            Self::Stdin => {
                let mut bytes = Vec::new();
                io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
            }
            Self::File(path) => fs::read(path),
        };
        let bytes = bytes.map_err(|error| {
            unreadable(&self.name(), &error)
                .advise("check the path and the permissions; for stdin, use `-f -`")
        })?;
        String::from_utf8(bytes).map_err(|error| {
            Error::new(format!("{} is not UTF-8", self.name()))
                .because(error.utf8_error().to_string())
                .advise("manifests are YAML or JSON in UTF-8")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_recursively_in_the_order_of_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        for name in ["c.yml", "a.yaml", "b/x.json", "readme.md"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let sources = expand(&[folder.path().to_owned()]).unwrap();
        let expected = ["a.yaml", "b/x.json", "c.yml"];
        let expected: Vec<_> = expected
            .iter()
            .map(|name| Source::File(folder.path().join(name)))
            .collect();
        assert_eq!(sources, expected);
    }

    #[test]
    fn folder_without_manifests_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = expand(&[folder.path().to_owned()]).unwrap_err();
        assert!(error.what().ends_with("has no manifests"), "{error:?}");
    }

    #[test]
    fn stdin_given_twice_is_rejected() {
        assert!(expand(&["-".into()]).is_ok());
        assert!(expand(&["-".into(), "-".into()]).is_err());
    }

    #[test]
    fn file_given_twice_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        fs::write(&file, "").unwrap();
        let error = expand(&[file.clone(), file.clone()]).unwrap_err();
        assert_eq!(error.what(), format!("{} is given twice", file.display()));
        assert!(error.causes().is_empty());
        let other = folder.path().join("./a.yaml");
        assert!(expand(&[folder.path().to_owned(), other]).is_err());
        assert!(expand(&[file]).is_ok());
    }

    #[test]
    fn urls_are_rejected_with_an_alternative() {
        let error = expand(&["https://example.com/a.yaml".into()]).unwrap_err();
        assert_eq!(
            error.advice(),
            Some("curl -fsSL https://example.com/a.yaml | … -f -")
        );
    }

    #[cfg(unix)]
    #[test]
    fn cyclic_links_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path(), folder.path().join("again")).unwrap();
        assert!(expand(&[folder.path().to_owned()]).is_err());
    }
}
