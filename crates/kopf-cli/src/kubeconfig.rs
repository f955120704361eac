//! The kubeconfig file of a running sandbox: where it is, and that it goes away with the sandbox if
//! its place was our choice. How it is written is the sandbox's business.

use std::fs;
use std::path::{Path, PathBuf};

use kopf_sandbox::Listening;

use crate::failure::Failure;

/// A file that exists now. Removed on drop, unless the user has named it.
#[derive(Debug)]
pub(crate) struct KubeconfigFile {
    path: PathBuf,
    ours: bool,
}

impl KubeconfigFile {
    /// Writes the file to the chosen place, or to one of our choice. Files of others stay as they are.
    pub(crate) fn write(chosen: Option<&Path>, listening: &Listening) -> Result<Self, Failure> {
        let (path, ours) = match chosen {
            Some(path) => (path.to_owned(), false),
            None => (default_path(listening.local_addr().port()), true),
        };
        let what = format!("the kubeconfig {} is not written", path.display());
        let advice = "name another file with --kubeconfig";
        // A relative path would be wrong in another folder's terminal.
        let path = std::path::absolute(path)
            .map_err(|error| Failure::new(what.clone(), error).advise(advice))?;
        listening
            .write_kubeconfig(&path)
            .map_err(|error| Failure::new(what, error).advise(advice))?;
        Ok(Self { path, ours })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_removed_at_the_end(&self) -> bool {
        self.ours
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if self.ours {
            // It may be gone already, which is fine.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file in a folder of this user if the system has one, else in the one for temporary files.
fn default_path(port: u16) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = runtime
        .filter(|path| path.is_dir())
        .unwrap_or_else(std::env::temp_dir);
    folder.join(format!("kopf-sandbox-{port}.kubeconfig"))
}
