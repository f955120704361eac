//! Host names and addresses: in URLs, and in certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;

/// Maximum lengths of a DNS name and of one of its labels.
const LENGTHS: (usize, usize) = (253, 63);

/// Parses an option with the host name or address of a machine. Addresses can be in brackets, as in
/// URLs. Returns `None` if it is empty.
pub(crate) fn name(option: &'static str, given: &str) -> Result<Option<String>, Error> {
    let text = unbracketed(given);
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Some(address.to_string()));
    }
    // Certificates and their verifiers do not support a trailing dot.
    let text = text.strip_suffix('.').unwrap_or(text);
    match trouble(text) {
        None => Ok(Some(text.to_owned())),
        Some(reason) => Err(naming(option, given, reason)),
    }
}

/// Parses an additional name for a certificate, which can start with a wildcard label.
pub(crate) fn alternative(given: &str) -> Result<Option<String>, Error> {
    match given.strip_prefix("*.") {
        Some(rest) => Ok(name("extra_sans", rest)?.map(|rest| format!("*.{rest}"))),
        None => name("extra_sans", given),
    }
}

/// Parses the option with the listening address. Returns `None` (all interfaces) if it is empty.
pub(crate) fn listened(given: Option<&str>) -> Result<Option<&str>, Error> {
    let Some(given) = given else {
        return Ok(None);
    };
    let text = unbracketed(given);
    if text.matches(':').count() == 1 {
        return Err(naming("addr", given, PORTS));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

const PORTS: &str = "must not contain a port; use the option `port`";

fn naming(option: &'static str, given: &str, reason: &'static str) -> Error {
    let given = given.to_owned();
    Error::Naming {
        option,
        given,
        reason,
    }
}

fn unbracketed(text: &str) -> &str {
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    inner
        .filter(|inner| inner.parse::<Ipv6Addr>().is_ok())
        .unwrap_or(text)
}

/// Returns the reason why a string is not a host name, or `None` if it is one.
fn trouble(name: &str) -> Option<&'static str> {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.contains("://") {
        Some("must be a host name or an address instead of a URL")
    } else if name.contains('/') {
        Some("must not contain a path; use the option `path`")
    } else if name.contains(':') {
        Some(PORTS)
    } else if name.contains('*') {
        Some("wildcards are supported only by `extra_sans`, as in *.example.com")
    } else if !name.is_ascii() {
        Some("must be ASCII; encode international names as in xn--bcher-kva.example (Punycode)")
    } else if name.len() > LENGTHS.0 || name.split('.').any(|part| part.len() > LENGTHS.1) {
        Some("too long: at most 253 characters, 63 between dots")
    } else if name.split('.').any(str::is_empty)
        || !name.split('.').all(|p| p.chars().all(is_usual))
    {
        Some("must consist of letters, digits and dashes, separated by dots")
    } else {
        None
    }
}

/// Returns the host by which a listening server can be reached: unspecified addresses become
/// loopback.
pub(crate) fn accessible(addr: Option<&str>) -> String {
    let Some(addr) = addr else {
        return "localhost".to_owned();
    };
    match addr.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
        _ => addr.to_owned(),
    }
}

/// Returns the URL of a server. The path is already validated.
pub(crate) fn url(scheme: &str, host: &str, port: u16, path: &str) -> String {
    let host = match host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]"),
        Err(_) => host.to_owned(),
    };
    match (scheme, port) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{host}{path}"),
        _ => format!("{scheme}://{host}:{port}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_addresses_become_loopback() {
        for (addr, expected) in [
            (None, "localhost"),
            (Some("0.0.0.0"), "127.0.0.1"),
            (Some("::"), "::1"),
            (Some("0:0:0:0:0:0:0:0"), "::1"),
            (Some("127.0.0.1"), "127.0.0.1"),
            (Some("::1"), "::1"),
            (Some("10.1.2.3"), "10.1.2.3"),
            (Some("fe80::1"), "fe80::1"),
            (Some("host.example"), "host.example"),
        ] {
            assert_eq!(accessible(addr), expected, "{addr:?}");
        }
    }

    #[test]
    fn names_and_addresses_are_checked() {
        for (given, expected) in [
            ("a.b", Some("a.b")),
            ("my_host-1.Example.com", Some("my_host-1.Example.com")),
            ("example.com.", Some("example.com")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("", None),
        ] {
            assert_eq!(name("host", given).unwrap().as_deref(), expected, "{given}");
        }
        for (given, reason) in [
            ("https://a.b", "a URL"),
            ("a.b/c", "`path`"),
            ("a.b:9443", "`port`"),
            ("[::1]:9443", "`port`"),
            ("*.a.b", "`extra_sans`"),
            ("bücher.example", "xn--"),
            ("a b", "letters, digits"),
            ("a..b", "letters, digits"),
            (".", "letters, digits"),
            (&*"x".repeat(64), "too long"),
            (&*"x.".repeat(128), "too long"),
        ] {
            let error = name("host", given).unwrap_err().to_string();
            let expected = format!("invalid host {given:?} of the webhook server: ");
            assert!(error.starts_with(&expected), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(alternative("*.a.b").unwrap().as_deref(), Some("*.a.b"));
        assert_eq!(alternative("::").unwrap().as_deref(), Some("::"));
        assert_eq!(alternative("").unwrap(), None);
        let error = alternative("a*.b").unwrap_err().to_string();
        assert!(
            error.starts_with("invalid extra_sans \"a*.b\" of"),
            "{error}"
        );
    }

    #[test]
    fn listening_addresses_with_ports_are_rejected() {
        for (given, expected) in [
            (None, None),
            (Some(""), None),
            (Some("[::1]"), Some("::1")),
            (Some("fe80::1%eth0"), Some("fe80::1%eth0")),
            (Some("localhost"), Some("localhost")),
        ] {
            assert_eq!(listened(given).unwrap(), expected, "{given:?}");
        }
        let error = listened(Some("127.0.0.1:9443")).unwrap_err().to_string();
        assert!(
            error.contains("addr") && error.contains("`port`"),
            "{error}"
        );
    }

    #[test]
    fn urls_are_short_and_valid() {
        for (scheme, host, port, path, expected) in [
            ("https", "a.b", 443, "", "https://a.b"),
            ("https", "a.b", 80, "", "https://a.b:80"),
            ("http", "a.b", 80, "/x", "http://a.b/x"),
            ("http", "a.b", 443, "/x", "http://a.b:443/x"),
            ("https", "::1", 9443, "/x/", "https://[::1]:9443/x/"),
            ("https", "FE80:0::1", 443, "", "https://[fe80::1]"),
            ("https", "10.0.0.1", 1, "", "https://10.0.0.1:1"),
        ] {
            assert_eq!(url(scheme, host, port, path), expected);
        }
    }
}
