//! The kubeconfig of a sandbox for kubectl and other clients.
//!
//! A file is overwritten only if it was written here.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_sandbox_api::certificates::Identity;
use serde_json::Value;

/// The name of the cluster, the user and the context. It also identifies files written here.
pub(crate) const NAME: &str = "kopf-sandbox";

/// Maximum size of a file that is read. Files written here have a few kilobytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// The reason why a kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{} exists and is not a kubeconfig of a sandbox: \
             choose another file", .0.display())]
    NotOurs(PathBuf),
    #[error("{} cannot be written", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The credentials of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Credentials<'a> {
    Certificate(&'a Identity),
    Token(&'a str),
}

/// Returns the content of a kubeconfig for the server at this URL.
pub(crate) fn render(server: &str, authority_pem: &str, credentials: Credentials<'_>) -> String {
    let user = match credentials {
        Credentials::Certificate(identity) => format!(
            "client-certificate-data: {}\n    client-key-data: {}",
            STANDARD.encode(identity.certificate_pem()),
            STANDARD.encode(identity.key_pem()),
        ),
        Credentials::Token(token) => format!("token: {}", quoted(token)),
    };
    format!(
        "\
apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    server: {}
    certificate-authority-data: {}
users:
- name: {NAME}
  user:
    {user}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
    namespace: default
current-context: {NAME}
preferences: {{}}
",
        quoted(server),
        STANDARD.encode(authority_pem),
    )
}

/// Quotes a YAML string; JSON strings are a subset.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Writes a kubeconfig with the mode 0600, atomically, and creates missing folders.
///
/// Blocks on file system operations.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    // Links are followed: the target is replaced, not the link.
    let resolved = fs::canonicalize(path);
    let path = match (&resolved, fs::symlink_metadata(path)) {
        (Ok(resolved), _) => resolved.as_path(),
        (Err(_), Ok(_)) => return Err(Error::NotOurs(path.to_owned())), // a dangling link
        (Err(_), Err(error)) if error.kind() == io::ErrorKind::NotFound => path,
        (Err(_), Err(error)) => return Err(failed(error)),
    };
    match fs::metadata(path) {
        Ok(metadata) if is_replaceable(path, &metadata).map_err(failed)? => {}
        Ok(_) => return Err(Error::NotOurs(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // In the same folder: a rename does not work across file systems.
    let mut name = std::ffi::OsString::from(".");
    name.push(
        path.file_name()
            .ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?,
    );
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let written = write_new(&new, text).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // The first error is returned; failing to remove the temporary file does not matter.
        let _ = fs::remove_file(&new);
        return Err(failed(error));
    }
    Ok(())
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // Left by a process with the same id that was killed.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Returns `true` for a regular file that is empty or was written here. Devices and pipes are not
/// opened.
fn is_replaceable(path: &Path, metadata: &fs::Metadata) -> io::Result<bool> {
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Ok(false);
    }
    let content = fs::read(path)?;
    Ok(std::str::from_utf8(&content).is_ok_and(is_ours))
}

/// Returns `true` if a kubeconfig is empty, or contains only the entries of a sandbox.
fn is_ours(content: &str) -> bool {
    if content.trim().is_empty() {
        return true;
    }
    let Ok(config) = serde_saphyr::from_str::<Value>(content) else {
        return false;
    };
    ["clusters", "users", "contexts"].into_iter().all(|list| {
        let entries = config.get(list).and_then(Value::as_array);
        matches!(
            entries.map(Vec::as_slice),
            Some([one]) if one.get("name").and_then(Value::as_str) == Some(NAME)
        )
    })
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_api::certificates::Authority;

    use super::*;

    /// A temporary folder, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("{NAME}-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn token_config() -> String {
        render("https://[::1]:6443", "CA", Credentials::Token("a\"b: c"))
    }

    #[test]
    fn kubeconfig_is_yaml_with_embedded_credentials() {
        let authority = Authority::generate("2026-11-15T00:00:00Z".parse().unwrap()).unwrap();
        let admin = authority.admin().unwrap();
        let text = render(
            "https://127.0.0.1:6443",
            authority.pem(),
            Credentials::Certificate(&admin),
        );
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            "https://127.0.0.1:6443"
        );
        assert_eq!(config["current-context"], config["contexts"][0]["name"]);
        let decoded = |value: &Value| {
            String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
        };
        let user = &config["users"][0]["user"];
        assert_eq!(decoded(&user["client-key-data"]), admin.key_pem());
        assert_eq!(
            decoded(&user["client-certificate-data"]),
            admin.certificate_pem()
        );
        let cluster = &config["clusters"][0]["cluster"];
        assert_eq!(
            decoded(&cluster["certificate-authority-data"]),
            authority.pem()
        );
    }

    #[test]
    fn tokens_are_quoted() {
        let config: Value = serde_saphyr::from_str(&token_config()).unwrap();
        assert_eq!(config["users"][0]["user"]["token"], "a\"b: c");
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            "https://[::1]:6443"
        );
    }

    #[test]
    fn only_own_kubeconfig_is_replaced() {
        let folder = Folder::new("replacing");
        let path = folder.0.join("deep/er/config");
        write(&path, &token_config()).unwrap();
        write(&path, &token_config()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), token_config());
        for foreign in [
            "clusters:\n- name: production\n",
            "clusters:\n- name: kopf-sandbox\n- name: production\n",
            "not a kubeconfig",
            "{",
        ] {
            fs::write(&path, foreign).unwrap();
            let error = write(&path, &token_config()).unwrap_err();
            assert!(matches!(error, Error::NotOurs(_)), "{foreign:?}: {error:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(matches!(write(&path, "x"), Err(Error::NotOurs(_))));
        fs::write(&path, "\n").unwrap();
        write(&path, &token_config()).unwrap();
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no leftovers"
        );
    }

    #[cfg(unix)]
    #[test]
    fn kubeconfig_is_readable_by_the_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("mode");
        let path = folder.0.join("config");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, &token_config()).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn folder_is_not_replaced() {
        let folder = Folder::new("folder");
        assert!(matches!(write(&folder.0, "x"), Err(Error::NotOurs(_))));
    }

    #[test]
    fn kubeconfig_with_other_entries_is_not_replaced() {
        let folder = Folder::new("foreign");
        let path = folder.0.join("config");
        let mixed = token_config().replace(
            "users:\n",
            "users:\n- name: prod-admin\n  user: {token: secret}\n",
        );
        for content in [
            mixed.as_str(),
            "apiVersion: v1\nkind: Config\n",
            "just words",
        ] {
            fs::write(&path, content).unwrap();
            assert!(matches!(
                write(&path, &token_config()),
                Err(Error::NotOurs(_))
            ));
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_links_are_followed() {
        let folder = Folder::new("links");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        write(&link, &token_config()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), token_config());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        fs::remove_file(&file).unwrap();
        assert!(matches!(
            write(&link, &token_config()),
            Err(Error::NotOurs(_))
        ));
    }

    #[cfg(unix)]
    #[test]
    fn special_files_are_not_replaced() {
        let folder = Folder::new("socket");
        let path = folder.0.join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(matches!(
            write(&path, &token_config()),
            Err(Error::NotOurs(_))
        ));
        assert!(!fs::metadata(&path).unwrap().is_file());
    }
}
