//! The files of a server's certificates: read together, and known again by a fingerprint.

use std::path::Path;
use std::time::Duration;

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest as _};

use super::{Options, Verify};
use crate::Error;

/// How often files are read again that are being replaced.
const ATTEMPTS: usize = 5;

/// What is in the files.
#[derive(Default)]
pub(super) struct Files {
    pub(super) cafile: Option<Vec<u8>>,
    pub(super) certfile: Option<Vec<u8>>,
    pub(super) pkeyfile: Option<Vec<u8>>,
    pub(super) verify_cafile: Option<Vec<u8>>,
    /// All files of the folder, one after another.
    pub(super) verify_capath: Option<Vec<u8>>,
    /// A fingerprint of all of them, which can be kept: keys do not stay in memory for this.
    pub(super) digest: [u8; 32],
}

impl Files {
    /// Reads everything that the options name and that is of use.
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

    /// Reads them until they are the same twice. One after another, they could be from before and
    /// from after a replacement.
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
    // Each file with its name: what moves from one to another is not the same.
    hasher.update(option);
    hasher.update(text.len().to_be_bytes());
    hasher.update(&text);
    Ok(text)
}

/// All files of a folder, one after another in the order of their names.
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
        // Links are followed: mounted secrets are made of them, and so are hashed names.
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
