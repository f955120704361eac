//! The addresses of `--liveness` and `--metrics`.

use std::fmt;
use std::str::FromStr;

/// An address such as `http://localhost:8080/healthz`.
///
/// ```
/// use kopf_engine::probing::Endpoint;
///
/// let endpoint: Endpoint = "http://0.0.0.0:8080/healthz".parse()?;
/// assert_eq!((endpoint.host(), endpoint.port(), endpoint.path()), ("0.0.0.0", 8080, "/healthz"));
///
/// // Only the scheme is required.
/// let endpoint: Endpoint = "http://".parse()?;
/// assert_eq!((endpoint.host(), endpoint.port(), endpoint.path()), ("localhost", 80, "/"));
/// # Ok::<(), kopf_engine::probing::EndpointError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

/// The error of an invalid address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {text:?}: {problem}; use an address such as http://0.0.0.0:8080/healthz")]
pub struct EndpointError {
    text: String,
    problem: &'static str,
}

impl Endpoint {
    /// Returns the host to listen at.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port to listen at; 0 is any free port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        parse(text).map_err(|problem| EndpointError {
            text: text.to_owned(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<Endpoint, &'static str> {
    let scheme = "http://";
    let rest = match text.get(..scheme.len()) {
        Some(start) if start.eq_ignore_ascii_case(scheme) => text.get(scheme.len()..),
        _ => None,
    };
    let rest = rest.ok_or("only http:// is supported")?;
    if rest.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err("it contains spaces");
    }
    if rest.contains(['?', '#']) {
        return Err("it must end with the path");
    }
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    };
    if authority.contains('@') {
        return Err("credentials are not supported");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed
            .split_once(']')
            .ok_or("the bracket is not closed")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => 80,
        Some("") => 80,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits
            .parse()
            .map_err(|_| "the port must be a number up to 65535")?,
        _ => return Err("the port must be a number up to 65535"),
    };
    let host = if host.is_empty() { "localhost" } else { host };
    Ok(Endpoint {
        host: host.to_owned(),
        port,
        path: path.to_owned(),
    })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, path } = self;
        if host.contains(':') {
            write!(f, "http://[{host}]:{port}{path}")
        } else {
            write!(f, "http://{host}:{port}{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        for (text, expected) in [
            ("http://example.com:8080/a/b", "http://example.com:8080/a/b"),
            ("HTTP://:8080/", "http://localhost:8080/"),
            ("http://0.0.0.0", "http://0.0.0.0:80/"),
            ("http://host:", "http://host:80/"),
            ("http://[::1]:81/x", "http://[::1]:81/x"),
            ("http:///x", "http://localhost:80/x"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_addresses_are_rejected_with_the_reason() {
        for (text, problem) in [
            ("", "only http://"),
            ("localhost:8080", "only http://"),
            ("https://localhost/", "only http://"),
            ("http:/localhost", "only http://"),
            ("http://host:x/", "the port"),
            ("http://host:99999/", "the port"),
            ("http://host:+80/", "the port"),
            ("http://[::1/", "the bracket"),
            ("http://[::1]x/", "the port"),
            ("http://u@host/", "credentials"),
            ("http://host/?q", "must end with the path"),
            ("http://ho st/", "spaces"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
