//! Errors of data folders.

use std::io;
use std::path::PathBuf;

/// The reason why a data folder cannot be used. Messages include the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Another process, or another sandbox of this one, uses the folder.
    #[error("in use by another sandbox: stop that one or choose another folder")]
    InUse,
    /// The folder was written in another format.
    #[error(
        "its format is {found:?}, but this version reads format {expected}: export it with the version of kopf that \
         has written it (kopf sandbox export), and import the dump into a new folder (kopf sandbox import)"
    )]
    Format {
        /// The format of the folder.
        found: String,
        /// The format that this version reads and writes.
        expected: u32,
    },
    /// The folder contains files, but not those of a sandbox.
    #[error("neither empty nor a data folder of a sandbox: choose another folder")]
    Foreign,
    /// A part of the log that was durable has changed.
    #[error(
        "{} is damaged at byte {at}: restore it from a backup, or remove the folder and import a dump",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The offset of the damage, in bytes.
        at: u64,
    },
    /// An operation of the operating system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
