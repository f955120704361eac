//! Credentials as plain values, for custom login handlers.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderValue};
use jiff::Timestamp;
use kube::config::AuthInfo;

use super::error::Error;
use super::proxy::Proxy;
use super::stack::{Target, address, certificates};

/// The address of a server, and the credentials for it.
///
/// Files are read when the client is created. Data is PEM, or base64 of PEM as in kubeconfigs.
///
/// ```
/// use kopf_client::connection::ConnectionInfo;
///
/// let mut info = ConnectionInfo::new("https://10.0.0.1:6443");
/// info.token = Some("secret".into());
/// info.insecure = true;
/// assert!(!format!("{info:?}").contains("secret"));
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The URL of the server, with an optional path.
    pub server: String,
    /// A file with the CA certificates for the server. By default, those of the system are used.
    pub ca_path: Option<PathBuf>,
    /// The same as inline data.
    pub ca_data: Option<String>,
    /// Disables the verification of the server's certificate.
    pub insecure: bool,
    /// The username for HTTP Basic authentication, together with the password.
    pub username: Option<String>,
    /// The password for HTTP Basic authentication, together with the username.
    pub password: Option<String>,
    /// The scheme of the `Authorization` header; default: `Bearer` if there is a token.
    pub scheme: Option<String>,
    /// The token.
    pub token: Option<String>,
    /// A file with the client certificate; used together with the private key.
    pub certificate_path: Option<PathBuf>,
    /// The same as inline data.
    pub certificate_data: Option<String>,
    /// A file with the private key of the client certificate.
    pub private_key_path: Option<PathBuf>,
    /// The same as inline data.
    pub private_key_data: Option<String>,
    /// The namespace for requests without one, such as the events of cluster-scoped objects.
    pub default_namespace: Option<String>,
    /// The URL of a proxy: `http`, `https` or `socks5`.
    pub proxy_url: Option<String>,
    /// Uses the proxies of the environment (`HTTPS_PROXY`, `NO_PROXY`…) if none is given.
    pub trust_env: bool,
    /// The priority among several credentials: the highest is used.
    pub priority: i32,
    /// The expiration of the credentials.
    pub expiration: Option<Timestamp>,
}

impl ConnectionInfo {
    /// Returns the address of a server, without credentials.
    ///
    /// ```
    /// use kopf_client::connection::ConnectionInfo;
    ///
    /// let info = ConnectionInfo::new("https://10.0.0.1:6443");
    /// assert_eq!(info.token, None);
    /// ```
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            ..Self::default()
        }
    }

    pub(crate) fn target(&self) -> Result<Target, Error> {
        let mut config = kube::Config::new(address(&self.server)?);
        config.accept_invalid_certs = self.insecure;
        config.root_cert = match one("CA", self.ca_path.as_deref(), self.ca_data.as_deref())? {
            Some(bundle) => Some(certificates("CA", &bundle)?),
            None => None,
        };
        config.default_namespace = self.default_namespace.clone().unwrap_or_default();

        let certificate = one(
            "certificate",
            self.certificate_path.as_deref(),
            self.certificate_data.as_deref(),
        )?;
        let key = one(
            "private key",
            self.private_key_path.as_deref(),
            self.private_key_data.as_deref(),
        )?;
        if let (Some(certificate), Some(key)) = (certificate, key) {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(key).into());
        }
        match (&self.username, &self.password) {
            (Some(_), Some(_)) if self.scheme.is_some() || self.token.is_some() => {
                return Err(Error::Invalid {
                    what: "authentication",
                    problem: "both a token and a password, expected one of them".to_owned(),
                });
            }
            (Some(username), Some(password)) => {
                config.auth_info = AuthInfo {
                    username: Some(username.clone()),
                    password: Some(password.clone().into()),
                    ..config.auth_info
                };
            }
            _ => {}
        }
        match (&self.scheme, &self.token) {
            (None, None) => {}
            (None, Some(token)) => config
                .headers
                .push(authorization(&format!("Bearer {token}"))?),
            (Some(scheme), None) => config.headers.push(authorization(scheme)?),
            (Some(scheme), Some(token)) => {
                config
                    .headers
                    .push(authorization(&format!("{scheme} {token}"))?);
            }
        }

        let proxy = Proxy::find(
            self.proxy_url.as_deref(),
            self.trust_env,
            &config.cluster_url,
        )?;
        Ok(Target::new(config, proxy))
    }
}

pub(super) fn authorization(value: &str) -> Result<(http::HeaderName, HeaderValue), Error> {
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| Error::Invalid {
        what: "token",
        problem: "characters that are not allowed in HTTP headers".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok((AUTHORIZATION, value))
}

/// Reads PEM from a path or from inline data, if either is given.
fn one(
    what: &'static str,
    path: Option<&Path>,
    data: Option<&str>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut pem = match (path, data) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(Error::Both { what }),
        (Some(path), None) => std::fs::read(path).map_err(|source| Error::File {
            what,
            path: path.to_owned(),
            source,
        })?,
        (None, Some(data)) if data.contains("-----BEGIN ") => data.as_bytes().to_vec(),
        (None, Some(data)) => {
            let compact: String = data.split_ascii_whitespace().collect();
            STANDARD.decode(compact).map_err(|_| Error::Invalid {
                what,
                problem: "neither PEM nor base64".to_owned(),
            })?
        }
    };
    // The certificate and the key are concatenated later.
    if pem.last().is_some_and(|last| *last != b'\n') {
        pem.push(b'\n');
    }
    Ok(Some(pem))
}

impl fmt::Debug for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| "…");
        f.debug_struct("ConnectionInfo")
            .field("server", &super::stack::public(&self.server))
            .field("ca_path", &self.ca_path)
            .field("ca_data", &hidden(&self.ca_data))
            .field("insecure", &self.insecure)
            .field("username", &self.username)
            .field("password", &hidden(&self.password))
            .field("scheme", &self.scheme)
            .field("token", &hidden(&self.token))
            .field("certificate_path", &self.certificate_path)
            .field("certificate_data", &hidden(&self.certificate_data))
            .field("private_key_path", &self.private_key_path)
            .field("private_key_data", &hidden(&self.private_key_data))
            .field("default_namespace", &self.default_namespace)
            .field("proxy_url", &hidden(&self.proxy_url))
            .field("trust_env", &self.trust_env)
            .field("priority", &self.priority)
            .field("expiration", &self.expiration)
            .finish()
    }
}
