//! Addresses as others know them: in URLs, and in certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
