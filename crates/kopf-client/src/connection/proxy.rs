//! Proxies.

use std::fmt;

use http::Uri;
use http::header::HeaderValue;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::error::Error;

/// The address of a proxy, and the credentials for it.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) address: Uri,
    /// The header for HTTP proxies.
    pub(super) authorization: Option<HeaderValue>,
    /// The username and password for SOCKS proxies.
    pub(super) login: Option<(String, String)>,
}

// The output contains no secrets.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").finish_non_exhaustive()
    }
}

impl Proxy {
    /// Returns the given proxy, or the one of the environment for this server if `trust_env` is set.
    ///
    /// kube always reads the environment, and applies `NO_PROXY` to the address of the proxy instead
    /// of the server's.
    pub(super) fn find(
        given: Option<&str>,
        trust_env: bool,
        server: &Uri,
    ) -> Result<Option<Self>, Error> {
        let matcher = match given.map(str::trim).filter(|given| !given.is_empty()) {
            Some(given) => Matcher::builder().all(given).build(),
            None if trust_env => Matcher::from_env(),
            None => return Ok(None),
        };
        match matcher.intercept(server) {
            Some(found) => Self::from(&found).map(Some),
            None if given.is_some() => Err(invalid("not a URL")),
            None => Ok(None),
        }
    }

    fn from(found: &Intercept) -> Result<Self, Error> {
        match found.uri().scheme_str() {
            Some("http" | "https" | "socks5" | "socks5h") => Ok(Self {
                address: found.uri().clone(),
                authorization: found.basic_auth().cloned(),
                login: found
                    .raw_auth()
                    .map(|(user, password)| (user.to_owned(), password.to_owned())),
            }),
            _ => Err(invalid(
                "only http, https, and socks5 proxies are supported",
            )),
        }
    }

    pub(super) fn is_socks(&self) -> bool {
        matches!(self.address.scheme_str(), Some("socks5" | "socks5h"))
    }

    /// Returns `true` if the proxy resolves names (`socks5h`), `false` if the client does (`socks5`).
    pub(super) fn resolves_names(&self) -> bool {
        self.address.scheme_str() == Some("socks5h")
    }
}

fn invalid(problem: &str) -> Error {
    Error::Invalid {
        what: "proxy URL",
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(given: Option<&str>) -> Result<Option<Proxy>, Error> {
        Proxy::find(given, false, &Uri::from_static("https://10.0.0.1:6443"))
    }

    #[test]
    fn credentials_are_parsed() {
        let proxy = find(Some("http://user:pa%40ss@proxy:3128"))
            .unwrap()
            .unwrap();
        assert_eq!(proxy.address.host(), Some("proxy"));
        assert_eq!(proxy.address.port_u16(), Some(3128));
        // user:pa@ss
        assert_eq!(proxy.authorization.unwrap(), "Basic dXNlcjpwYUBzcw==");

        let proxy = find(Some("socks5h://user:pass@proxy:1080"))
            .unwrap()
            .unwrap();
        assert!(proxy.is_socks() && proxy.resolves_names());
        assert_eq!(proxy.login, Some(("user".into(), "pass".into())));
    }

    #[test]
    fn no_proxy_by_default() {
        assert!(find(None).unwrap().is_none());
        assert!(find(Some("  ")).unwrap().is_none());
    }

    #[test]
    fn other_proxies_are_rejected() {
        for given in ["ftp://proxy:21", "socks4://proxy:1080", ":::"] {
            let error = find(Some(given)).unwrap_err().to_string();
            assert!(
                error.starts_with("the proxy URL is invalid"),
                "{given}: {error}"
            );
        }
    }
}
