//! Addresses as others know them: in URLs, and in certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Error;

/// The longest name, and the longest part of one, that DNS knows.
const LENGTHS: (usize, usize) = (253, 63);

/// What a machine is called by others, as an option says it: a name or an address. In brackets, as in
/// URLs, addresses are the same. An empty one is none.
pub(crate) fn name(option: &'static str, given: &str) -> Result<Option<String>, Error> {
    let text = unbracketed(given);
    if text.is_empty() {
        return Ok(None);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(Some(address.to_string()));
    }
    // Certificates and those who verify them do not know names with a dot in the end.
    let text = text.strip_suffix('.').unwrap_or(text);
    match trouble(text) {
        None => Ok(Some(text.to_owned())),
        Some(reason) => Err(naming(option, given, reason)),
    }
}

/// One of the other names that a certificate is good for: there, it can be for all parts in one place.
pub(crate) fn alternative(given: &str) -> Result<Option<String>, Error> {
    match given.strip_prefix("*.") {
        Some(rest) => Ok(name("extra_sans", rest)?.map(|rest| format!("*.{rest}"))),
        None => name("extra_sans", given),
    }
}

/// Where to listen, as an option says it; everywhere if it is empty.
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

const PORTS: &str = "ports are said by the option `port`, for the server and for those who call it";

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

/// Why it cannot be the name of a machine, if it cannot.
fn trouble(name: &str) -> Option<&'static str> {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.contains("://") {
        Some("it is a URL, of which only the name of the machine is wanted")
    } else if name.contains('/') {
        Some("paths are said by the option `path`")
    } else if name.contains(':') {
        Some(PORTS)
    } else if name.contains('*') {
        Some(
            "there is no machine of that name; wildcards are for `extra_sans`, as in *.example.com",
        )
    } else if !name.is_ascii() {
        Some("letters of other alphabets are written as in xn--bcher-kva.example (Punycode)")
    } else if name.len() > LENGTHS.0 || name.split('.').any(|part| part.len() > LENGTHS.1) {
        Some("it is too long: names have up to 253 characters, 63 between dots")
    } else if name.split('.').any(str::is_empty)
        || !name.split('.').all(|p| p.chars().all(is_usual))
    {
        Some("names consist of letters, digits and dashes, with dots in between")
    } else {
        None
    }
}

/// Where a server can be reached that listens there: one can listen everywhere, but not go there.
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

/// The URL of a server. The path is valid already.
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
    fn catch_all_addresses_become_those_of_this_machine() {
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
            let expected = format!("host of the webhook server cannot be {given:?}: ");
            assert!(error.starts_with(&expected), "{error}");
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(alternative("*.a.b").unwrap().as_deref(), Some("*.a.b"));
        assert_eq!(alternative("::").unwrap().as_deref(), Some("::"));
        assert_eq!(alternative("").unwrap(), None);
        let error = alternative("a*.b").unwrap_err().to_string();
        assert!(error.starts_with("extra_sans of"), "{error}");
    }

    #[test]
    fn places_to_listen_at_have_no_ports() {
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
