//! The lifetime of the kubeconfig file of a running sandbox. Its content is written by
//! `server::kubeconfig`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::sandbox::{Error, Listening};

/// The kubeconfig file of a running sandbox. It is removed on drop, unless the caller chose its
/// path or the file was replaced by that of another server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
/// let listening = sandbox.listen(kopf_sandbox::Listen::default()).await?;
/// let kubeconfig = kopf_sandbox::KubeconfigFile::write(None, &listening)?;
/// let path = kubeconfig.path().to_owned(); // for kubectl
/// assert!(path.exists());
/// drop(kubeconfig);
/// assert!(!path.exists());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct KubeconfigFile {
    path: PathBuf,
    /// The URL of the server in it.
    url: String,
    ours: bool,
}

/// The effect of dropping a [`KubeconfigFile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cleanup {
    /// The file is removed with the sandbox.
    Removed,
    /// The file is kept, because the caller chose its path.
    Kept,
    /// The file is kept, because it now contains another server.
    Replaced,
}

impl KubeconfigFile {
    /// Returns the default path: in the runtime folder of the user if the system has one, else in
    /// the folder of temporary files.
    pub fn default_path(listening: &Listening) -> PathBuf {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let folder = runtime
            .filter(|path| path.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        folder.join(default_name(listening.local_addr()))
    }

    /// Writes the file to the chosen path, or to the default one. Files of other users are not
    /// overwritten.
    pub fn write(chosen: Option<&Path>, listening: &Listening) -> Result<Self, Error> {
        let (path, ours) = match chosen {
            Some(path) => (path.to_owned(), false),
            None => (Self::default_path(listening), true),
        };
        // A relative path would be wrong in a terminal with another working folder.
        let path = std::path::absolute(path).map_err(|error| Error::Kubeconfig(Box::new(error)))?;
        listening.write_kubeconfig(&path)?;
        let url = listening.url().to_owned();
        Ok(Self { path, url, ours })
    }

    /// Returns the absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path quoted for a shell, to be pasted after `export KUBECONFIG=`.
    pub fn quoted_path(&self) -> String {
        quoted(&self.path.display().to_string())
    }

    /// Returns the effect of dropping this now.
    pub fn cleanup(&self) -> Cleanup {
        match fs::read_to_string(&self.path) {
            Ok(content) if !leads_to(&content, &self.url) => Cleanup::Replaced,
            _ if self.ours => Cleanup::Removed,
            _ => Cleanup::Kept,
        }
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if self.cleanup() == Cleanup::Removed {
            // The file may already be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the default file name. It contains the address, because one port can be in use on
/// several addresses.
fn default_name(address: SocketAddr) -> String {
    let port = address.port();
    if address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return format!("kopf-sandbox-{port}.kubeconfig");
    }
    // Colons separate the files in $KUBECONFIG.
    let ip = address.ip().to_string().replace([':', '%'], "_");
    format!("kopf-sandbox-{ip}-{port}.kubeconfig")
}

fn quoted(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(harmless) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns `true` if a kubeconfig contains this server, quoted (as written here) or not (after
/// `kubectl config`).
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
    fn default_file_names_contain_the_address() {
        assert_eq!(name("127.0.0.1:6443"), "kopf-sandbox-6443.kubeconfig");
        assert_eq!(
            name("127.0.0.2:6443"),
            "kopf-sandbox-127.0.0.2-6443.kubeconfig"
        );
        assert_eq!(name("[::1]:6443"), "kopf-sandbox-__1-6443.kubeconfig");
    }

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        assert_eq!(
            quoted("/run/user/1/kopf.kubeconfig"),
            "/run/user/1/kopf.kubeconfig"
        );
        assert_eq!(quoted("/my files/it's"), r"'/my files/it'\''s'");
    }

    #[test]
    fn file_of_another_server_is_detected() {
        let file = |server: &str| format!("clusters:\n- cluster:\n    server: {server}\n");
        let url = "https://127.0.0.1:6443";
        assert!(leads_to(&file("\"https://127.0.0.1:6443\""), url));
        assert!(leads_to(&file("https://127.0.0.1:6443"), url));
        assert!(!leads_to(&file("https://127.0.0.1:64430"), url));
        assert!(!leads_to("", url));
    }
}
