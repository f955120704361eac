//! The kubeconfig file of a running sandbox: where it is, and that it goes away with the sandbox if
//! its place was our choice. How it is written is the sandbox's business.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use kopf_sandbox::Listening;

use crate::failure::Failure;

/// A file that exists now. Removed on drop, unless the user has named it or somebody else has
/// written another one to its place.
#[derive(Debug)]
pub(crate) struct KubeconfigFile {
    path: PathBuf,
    /// Of the server that it leads to.
    url: String,
    ours: bool,
}

/// What becomes of the file at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Removed,
    /// The user has named it.
    Left,
    /// It leads to another server by now: it is not ours any more.
    Replaced,
}

impl KubeconfigFile {
    /// Writes the file to the chosen place, or to one of our choice. Files of others stay as they are.
    pub(crate) fn write(chosen: Option<&Path>, listening: &Listening) -> Result<Self, Failure> {
        let (path, ours) = match chosen {
            Some(path) => (path.to_owned(), false),
            None => (default_path(listening.local_addr()), true),
        };
        let what = format!("the kubeconfig {} is not written", path.display());
        let advice = "name another file with --kubeconfig";
        // A relative path would be wrong in another folder's terminal.
        let path = std::path::absolute(path)
            .map_err(|error| Failure::new(what.clone(), error).advise(advice))?;
        listening
            .write_kubeconfig(&path)
            .map_err(|error| Failure::new(what, error).advise(advice))?;
        let url = listening.url().to_owned();
        Ok(Self { path, url, ours })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fate(&self) -> Fate {
        match fs::read_to_string(&self.path) {
            Ok(content) if !leads_to(&content, &self.url) => Fate::Replaced,
            _ if self.ours => Fate::Removed,
            _ => Fate::Left,
        }
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if self.fate() == Fate::Removed {
            // It may be gone already, which is fine.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file in a folder of this user if the system has one, else in the one for temporary files.
fn default_path(address: SocketAddr) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = runtime
        .filter(|path| path.is_dir())
        .unwrap_or_else(std::env::temp_dir);
    folder.join(default_name(address))
}

/// One port can be in use on several addresses, by several sandboxes.
fn default_name(address: SocketAddr) -> String {
    let port = address.port();
    if address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return format!("kopf-sandbox-{port}.kubeconfig");
    }
    // Colons separate the files in $KUBECONFIG.
    let ip = address.ip().to_string().replace([':', '%'], "_");
    format!("kopf-sandbox-{ip}-{port}.kubeconfig")
}

/// Whether a kubeconfig has this server, quoted (as it is written) or not (after `kubectl config`).
fn leads_to(kubeconfig: &str, url: &str) -> bool {
    kubeconfig.lines().any(|line| {
        let server = line.trim().strip_prefix("server:");
        server.is_some_and(|server| server.trim().trim_matches('"') == url)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: &str) -> String {
        default_name(address.parse().unwrap())
    }

    #[test]
    fn sandboxes_on_other_addresses_have_other_files() {
        assert_eq!(name("127.0.0.1:6443"), "kopf-sandbox-6443.kubeconfig");
        assert_eq!(
            name("127.0.0.2:6443"),
            "kopf-sandbox-127.0.0.2-6443.kubeconfig"
        );
        assert_eq!(name("[::1]:6443"), "kopf-sandbox-__1-6443.kubeconfig");
    }

    #[test]
    fn a_file_of_another_server_is_not_ours() {
        let file = |server: &str| format!("clusters:\n- cluster:\n    server: {server}\n");
        let url = "https://127.0.0.1:6443";
        assert!(leads_to(&file("\"https://127.0.0.1:6443\""), url));
        assert!(leads_to(&file("https://127.0.0.1:6443"), url));
        assert!(!leads_to(&file("https://127.0.0.1:64430"), url));
        assert!(!leads_to("", url));
    }
}
