//! Data folders that cannot be used.

use std::io;
use std::path::PathBuf;

/// Why a data folder cannot be used. The texts name the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Another process, or another sandbox of this one, uses the folder.
    #[error("another sandbox uses it: stop that one or name another folder")]
    InUse,
    /// The folder was written in another format.
    #[error(
        "its format is {found} and this version reads format {expected}: export it with the version of kopf that \
         has written it (kopf sandbox export), and import the dump into a new folder (kopf sandbox import)"
    )]
    Format {
        /// The format of the folder.
        found: String,
        /// The format that this version reads and writes.
        expected: u32,
    },
    /// The folder has files, but not those of a sandbox.
    #[error("it is not empty and not a data folder of a sandbox: name another folder")]
    Foreign,
    /// A part of the log that was on disk has changed since.
    #[error(
        "{} is damaged at byte {at}: restore it from a backup, or remove the folder and import a dump",
        file.display()
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where the damage begins.
        at: u64,
    },
    /// The operating system refuses an operation.
    #[error(transparent)]
    Io(#[from] io::Error),
}
