//! URLs of webhooks, parsed as by the real server.

use std::fmt;

/// A parsed URL. Empty parts are absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) scheme: String,
    pub(super) user: Option<String>,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) fragment: String,
}

impl Endpoint {
    /// Parses a URL. The error has the wording of the message to clients.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let failed = |why: &str| Err(format!("parse {url:?}: {why}"));
        if url.chars().any(|c| c.is_ascii_control()) {
            return failed("net/url: invalid control character in URL");
        }
        let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some(("", _)) => return failed("missing protocol scheme"),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), rest),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            None => ("", rest),
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => (Some(user.to_owned()), address),
            None => (None, authority),
        };
        if let Some(bad) = address.chars().find(|c| " \"<>^`{|}\\".contains(*c)) {
            return failed(&format!(
                "invalid character {:?} in host name",
                bad.to_string()
            ));
        }
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, port)) => (host, port),
                None => return failed("missing ']' in host"),
            },
            None => address.split_at(address.find(':').unwrap_or(address.len())),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                match digits.parse() {
                    Ok(port) => Some(port),
                    Err(_) => return failed(&format!("invalid port {port:?} after host")),
                }
            }
            _ => return failed(&format!("invalid port {port:?} after host")),
        };
        if let Some(escape) = broken_escape(path) {
            return failed(&format!("invalid URL escape {escape:?}"));
        }
        Ok(Self {
            scheme,
            user,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
        })
    }

    /// Returns the host, and the port if there is one, as in the URL.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// Returns the path of requests: without empty segments and without a trailing slash.
    pub(super) fn clean_path(&self) -> String {
        clean(&self.path)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            self.scheme,
            self.authority(),
            self.clean_path()
        )
    }
}

/// Removes empty segments and the trailing slash. The result begins with a slash.
pub(super) fn clean(path: &str) -> String {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    format!("/{}", segments.join("/"))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns the rest of the path from the first `%` that is not followed by two hexadecimal digits.
fn broken_escape(path: &str) -> Option<&str> {
    path.match_indices('%').find_map(|(at, _)| {
        let escape: &str = path.get(at..).unwrap_or_default();
        let end = escape
            .char_indices()
            .nth(3)
            .map_or(escape.len(), |(end, _)| end);
        let escape = escape.get(..end).unwrap_or_default();
        let good = escape.len() == 3 && escape.bytes().skip(1).all(|b| b.is_ascii_hexdigit());
        (!good).then_some(escape)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_are_parsed_into_parts() {
        let url = Endpoint::parse("https://u:p@[::1]:8443/a//b/?x=y#z").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host.as_str(), url.port),
            ("https", "::1", Some(8443))
        );
        assert_eq!(
            (url.user.as_deref(), url.query.as_str()),
            (Some("u:p"), "x=y")
        );
        assert_eq!(url.fragment, "z");
        assert_eq!(url.to_string(), "https://[::1]:8443/a/b");
        assert_eq!(
            Endpoint::parse("https://host").unwrap().to_string(),
            "https://host/"
        );
        assert_eq!(Endpoint::parse("https:///b").unwrap().host, "");
        assert_eq!(Endpoint::parse("foo").unwrap().scheme, "");
    }

    #[test]
    fn malformed_urls_have_messages() {
        for (url, text) in [
            (
                "https://a b/%zz",
                r#"parse "https://a b/%zz": invalid character " " in host name"#,
            ),
            (
                "https://a/x%zzé",
                r#"parse "https://a/x%zzé": invalid URL escape "%zz""#,
            ),
            (
                "https://a b/",
                r#"parse "https://a b/": invalid character " " in host name"#,
            ),
            (
                "https://a/%4",
                r#"parse "https://a/%4": invalid URL escape "%4""#,
            ),
            (
                "https://a:x/",
                r#"parse "https://a:x/": invalid port ":x" after host"#,
            ),
            (
                "https://a:99999/",
                r#"parse "https://a:99999/": invalid port ":99999" after host"#,
            ),
            (
                "https://[::1/",
                r#"parse "https://[::1/": missing ']' in host"#,
            ),
            ("://a", r#"parse "://a": missing protocol scheme"#),
            (
                "https://a\n/",
                "parse \"https://a\\n/\": net/url: invalid control character in URL",
            ),
        ] {
            assert_eq!(Endpoint::parse(url).unwrap_err(), text);
        }
    }

    proptest! {
        #[test]
        fn parsing_random_urls_never_panics(text in "\\PC*", tail in "https://[%a-z:/@\\[\\]#?é]*") {
            let _ = Endpoint::parse(&text);
            let _ = Endpoint::parse(&tail).map(|url| url.to_string());
        }
    }
}
