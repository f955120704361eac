//! Headers of requests for handlers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use http::header::{COOKIE, HOST};
use http::request::Parts;

/// Returns the headers of a request.
///
/// Names are in canonical form (`User-Agent`): HTTP/2 has lower case only, and HTTP/1.1 any case. Values of
/// repeated headers are joined by commas, and cookies by semicolons.
pub(super) fn headers(head: &Parts) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    for (name, value) in &head.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        match headers.entry(canonical(name.as_str())) {
            Entry::Vacant(entry) => {
                entry.insert(value.into_owned());
            }
            Entry::Occupied(mut entry) => {
                let all = entry.get_mut();
                all.push_str(if name == COOKIE { "; " } else { ", " });
                all.push_str(&value);
            }
        }
    }
    // HTTP/2 has it in the URI.
    if let Some(authority) = head.uri.authority()
        && !head.headers.contains_key(HOST)
    {
        headers.insert("Host".to_owned(), authority.as_str().to_owned());
    }
    headers
}

/// Converts `user-agent` to `User-Agent`.
fn canonical(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    for part in name.split_inclusive('-') {
        let start = written.len();
        written.push_str(part);
        if let Some(first) = written.get_mut(start..=start) {
            first.make_ascii_uppercase();
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn seen(request: http::request::Builder) -> Vec<(String, String)> {
        let (head, ()) = request.body(()).unwrap().into_parts();
        headers(&head).into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |text: &str| text.to_owned();
        pairs
            .iter()
            .map(|(name, value)| (owned(name), owned(value)))
            .collect()
    }

    #[test]
    fn header_names_are_canonical() {
        let request = Request::post("/")
            .header("user-AGENT", "kube-apiserver-admission")
            .header("x-1-b--c", "")
            .header("content-type", "application/json");
        assert_eq!(
            seen(request),
            pairs(&[
                ("Content-Type", "application/json"),
                ("User-Agent", "kube-apiserver-admission"),
                ("X-1-B--C", ""),
            ])
        );
    }

    #[test]
    fn repeated_headers_are_joined() {
        let request = Request::post("/")
            .header("x-a", "1")
            .header("cookie", "a=b")
            .header("x-a", "2")
            .header("cookie", "c=d")
            .header("x-b", &b"caf\xE9"[..]);
        assert_eq!(
            seen(request),
            pairs(&[
                ("Cookie", "a=b; c=d"),
                ("X-A", "1, 2"),
                ("X-B", "caf\u{FFFD}")
            ])
        );
    }

    #[test]
    fn host_header_is_set_for_http2() {
        let request = Request::post("https://a.example:8443/x");
        assert_eq!(seen(request), pairs(&[("Host", "a.example:8443")]));
        let request = Request::post("https://a.example/x").header("host", "b.example");
        assert_eq!(seen(request), pairs(&[("Host", "b.example")]));
    }
}
