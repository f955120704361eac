//! The files of a server's certificates, read together and compared by a digest.

use std::path::Path;
use std::time::Duration;

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest as _};

use super::{Options, Verify};
use crate::Error;

/// Maximum number of reads of files that are being replaced.
const ATTEMPTS: usize = 5;

/// The content of the files.
#[derive(Default)]
pub(super) struct Files {
    pub(super) cafile: Option<Vec<u8>>,
    pub(super) certfile: Option<Vec<u8>>,
    pub(super) pkeyfile: Option<Vec<u8>>,
    pub(super) verify_cafile: Option<Vec<u8>>,
    /// The concatenated files of the folder.
    pub(super) verify_capath: Option<Vec<u8>>,
    /// A digest of all files, for comparisons without keeping keys in memory.
    pub(super) digest: [u8; 32],
}

impl Files {
    /// Reads all files in the options that are used.
    pub(super) async fn read(options: &Options) -> Result<Self, Error> {
        let mut hasher = Blake2b::new();
        let mut files = Self::default();
        for (option, path, text) in [
            ("cafile", &options.cafile, &mut files.cafile),
            ("certfile", &options.certfile, &mut files.certfile),
            ("pkeyfile", &options.pkeyfile, &mut files.pkeyfile),
            (
                "verify_cafile",
                &options.verify_cafile,
                &mut files.verify_cafile,
            ),
        ] {
            if let Some(path) = path {
                *text = Some(read(option, path, &mut hasher).await?);
            }
        }
        if let Some(path) = &options.verify_capath
            && options.verify() != Verify::None
        {
            files.verify_capath = Some(read_all("verify_capath", path, &mut hasher).await?);
        }
        files.digest = hasher.finalize().into();
        Ok(files)
    }

    /// Reads the files until two reads are equal. Otherwise they could be from before and after a
    /// replacement.
    pub(super) async fn settled(self, options: &Options, pause: Duration) -> Result<Self, Error> {
        let mut files = self;
        for _ in 0..ATTEMPTS {
            tokio::time::sleep(pause).await;
            let again = Self::read(options).await?;
            if again.digest == files.digest {
                return Ok(again);
            }
            files = again;
        }
        Ok(files)
    }
}

async fn read(
    option: &'static str,
    path: &Path,
    hasher: &mut Blake2b<U32>,
) -> Result<Vec<u8>, Error> {
    let text = tokio::fs::read(path).await.map_err(|source| Error::File {
        option,
        path: path.to_owned(),
        source,
    })?;
    // The option is part of the digest, so that content that moves between files changes it.
    hasher.update(option);
    hasher.update(text.len().to_be_bytes());
    hasher.update(&text);
    Ok(text)
}

/// Returns the concatenated files of a folder, ordered by name.
async fn read_all(
    option: &'static str,
    path: &Path,
    hasher: &mut Blake2b<U32>,
) -> Result<Vec<u8>, Error> {
    let error = |source| Error::File {
        option,
        path: path.to_owned(),
        source,
    };
    let mut entries = tokio::fs::read_dir(path).await.map_err(error)?;
    let mut paths = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(error)? {
        // Links are followed: mounted secrets and hashed names consist of links.
        let metadata = tokio::fs::metadata(entry.path()).await.map_err(error)?;
        if metadata.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend(read(option, &path, hasher).await?);
        all.push(b'\n');
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn files_that_are_being_replaced_are_read_again() {
        let folder = tempfile::TempDir::new().unwrap();
        let (ca, certificate) = (folder.path().join("ca"), folder.path().join("crt"));
        let options = Options {
            cafile: Some(ca.clone()),
            certfile: Some(certificate.clone()),
            ..Options::default()
        };
        let write = |text: &str| {
            std::fs::write(&ca, text).unwrap();
            std::fs::write(&certificate, text).unwrap();
        };
        write("old");
        let mut mixed = Files::read(&options).await.unwrap();
        write("new");
        mixed.certfile = Some(b"new".to_vec());
        let settled = mixed.settled(&options, Duration::ZERO).await.unwrap();
        assert_eq!(settled.cafile.as_deref(), Some(&b"new"[..]));
        assert_eq!(settled.certfile.as_deref(), Some(&b"new"[..]));
    }
}
