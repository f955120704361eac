//! Files of charts and projects.

use std::io;
use std::path::{Path, PathBuf};

/// A file to write, with its path in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path in the folder, with slashes.
    pub path: String,
    /// The content.
    pub content: String,
}

impl File {
    pub(crate) fn new(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            content: content.into(),
        }
    }
}

/// Error for files that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder is not empty. Existing content is never replaced.
    #[error("the folder {} exists and is not empty: choose another one", .0.display())]
    Exists(PathBuf),
    /// The path is a file.
    #[error("{} is not a folder: choose another path", .0.display())]
    NotFolder(PathBuf),
    /// The file or folder cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Copies a file, and creates the folder of the copy.
pub(crate) fn copy(source: &Path, path: &Path) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(path);
    let copied = std::fs::create_dir_all(folder).and_then(|()| std::fs::copy(source, path));
    copied.map(drop).map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })
}

/// Creates a folder, and writes files into it. An existing folder must be empty.
pub fn write_new(folder: &Path, files: &[File]) -> Result<(), Error> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(Error::Exists(folder.to_owned()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::NotFolder(folder.to_owned()));
        }
        Err(source) => {
            let path = folder.to_owned();
            return Err(Error::Io { path, source });
        }
    }
    for file in files {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        let written =
            std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, &file.content));
        written.map_err(|source| Error::Io {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_content_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let files = [File::new("a/b.txt", "new")];
        let fresh = folder.path().join("fresh");
        write_new(&fresh, &files).unwrap();
        assert_eq!(
            std::fs::read_to_string(fresh.join("a/b.txt")).unwrap(),
            "new"
        );
        let error = write_new(&fresh, &files).unwrap_err();
        assert!(matches!(error, Error::Exists(_)), "{error}");
        let error = write_new(&fresh.join("a/b.txt"), &files).unwrap_err();
        assert!(matches!(error, Error::NotFolder(_)), "{error}");
        let empty = folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        write_new(&empty, &files).unwrap();
    }
}
