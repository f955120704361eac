//! `url()`, `isURL()` and the methods of URLs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;

use super::evaluate::Outcome;
use super::opaque::list;

/// A URL.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Url {
    scheme: String,
    /// With the port.
    host: String,
    path: String,
    query: String,
}

impl Opaque for Url {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.URL"
    }
}

/// Calls a function of URLs. Returns `None` for other functions.
pub(super) fn call(name: &str, all: &[&Value]) -> Option<Outcome> {
    let text = |text: &str| Ok(Value::String(Arc::new(text.to_owned())));
    let url = match (name, all) {
        ("url", [Value::String(source)]) => {
            return Some(match parse(source) {
                Ok(url) => Ok(Value::Opaque(Arc::new(url))),
                Err(why) => Err(format!(
                    "URL parse error during conversion from string: parse {source:?}: {why}"
                )),
            });
        }
        ("isURL", [Value::String(source)]) => return Some(Ok(Value::Bool(parse(source).is_ok()))),
        (_, [Value::Opaque(opaque)]) => opaque.downcast_ref::<Url>()?,
        _ => return None,
    };
    Some(match name {
        "getScheme" => text(&url.scheme),
        "getHost" => text(&url.host),
        "getHostname" => text(split_port(&url.host).0),
        "getPort" => text(split_port(&url.host).1),
        "getEscapedPath" => text(&escaped(&url.path)),
        "getQuery" => Ok(query(&url.query)),
        _ => return None,
    })
}

/// Parses an absolute URL, or an absolute path.
fn parse(source: &str) -> Result<Url, &'static str> {
    let invalid = "invalid URI for request";
    if source.is_empty() {
        return Err("empty url");
    }
    if source.chars().any(char::is_control) {
        return Err("net/url: invalid control character in URL");
    }
    let (before, after) = match source.find([':', '/']) {
        Some(at) if source[at..].starts_with(':') => (&source[..at], &source[at + 1..]),
        _ => ("", source),
    };
    let valid_scheme = before.chars().enumerate().all(|(index, it)| {
        it.is_ascii_alphabetic() || index > 0 && (it.is_ascii_digit() || "+-.".contains(it))
    });
    if !valid_scheme {
        return Err("first path segment in URL cannot contain colon");
    }
    // A fragment is not part of the URL of a request.
    let (after, fragment) = after.split_once('#').unwrap_or((after, ""));
    let (rest, query) = after.split_once('?').unwrap_or((after, ""));
    let mut url = Url {
        scheme: before.to_ascii_lowercase(),
        host: String::new(),
        path: rest.to_owned(),
        query: query.to_owned(),
    };
    if source == "*" {
        return Ok(url);
    }
    if !rest.starts_with('/') {
        // Opaque, such as `mailto:x`.
        if url.scheme.is_empty() {
            return Err(invalid);
        }
        url.path.clear();
        return Ok(url);
    }
    if let Some(rest) = rest.strip_prefix("//") {
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !fragment.is_empty() && path.is_empty() && query.is_empty() {
            return Err("invalid character \"#\" in host name");
        }
        let host = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
        check_host(host)?;
        host.clone_into(&mut url.host);
        path.clone_into(&mut url.path);
    }
    if !is_escaped_properly(&url.path) {
        return Err("invalid URL escape");
    }
    Ok(url)
}

fn check_host(host: &str) -> Result<(), &'static str> {
    if host.starts_with('[') && !host.contains(']') {
        return Err("missing ']' in host");
    }
    let (name, port) = split_port(host);
    if !port.chars().all(|it| it.is_ascii_digit()) {
        return Err("invalid port after host");
    }
    if name.contains(' ') {
        return Err("invalid character \" \" in host name");
    }
    if name.contains(['^', '`', '{', '}', '|', '\\']) {
        return Err("invalid character in host name");
    }
    if !is_escaped_properly(name) {
        return Err("invalid URL escape");
    }
    Ok(())
}

fn is_escaped_properly(path: &str) -> bool {
    path.split('%').skip(1).all(|part| {
        let digits = part.chars().take(2);
        digits.filter(char::is_ascii_hexdigit).count() == 2
    })
}

/// Splits a host into its name and its port.
fn split_port(host: &str) -> (&str, &str) {
    if let Some(rest) = host.strip_prefix('[') {
        let (name, after) = rest.split_once(']').unwrap_or((rest, ""));
        return (name, after.strip_prefix(':').unwrap_or_default());
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

/// Escapes characters that are not allowed in a path, and keeps escapes.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!*'()%".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn query(text: &str) -> Value {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    // Malformed parts are dropped.
    let parts = text
        .split('&')
        .filter(|part| !part.contains(';') && is_escaped_properly(part));
    let text = parts.collect::<Vec<_>>().join("&");
    for (key, value) in form_urlencoded::parse(text.as_bytes()) {
        let value = Value::String(Arc::new(value.into_owned()));
        found.entry(key.into_owned()).or_default().push(value);
    }
    super::map(found.into_iter().map(|(key, values)| (key, list(values))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_urls_are_valid() {
        for (text, valid) in [
            ("https://a.b/c", true),
            ("https://[::1]:80/", true),
            ("mailto:x", true),
            ("/path", true),
            ("../x", false),
            ("x y", false),
            ("", false),
            ("https://a.b:port/", false),
            ("https://a.b/%zz", false),
            ("https://a.b/c?d#e", true),
            ("https://a.b#e", false),
            ("http://[::1", false),
            ("http://ho^st/", false),
            ("http://a%zz/", false),
            ("*", true),
        ] {
            assert_eq!(parse(text).is_ok(), valid, "{text}");
        }
    }
}
