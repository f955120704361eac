//! Request paths: the root path of webhooks and the ids of handlers.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::rejection::Rejection;
use crate::Error;

/// Characters to encode in URL paths. Percent signs are kept: the path may be encoded already.
const ODD: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Root path of all webhooks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// Path in URLs: empty, or with a leading slash.
    encoded: String,
    /// Decoded path without trailing slashes.
    decoded: Vec<u8>,
}

impl Route {
    /// Normalises a path.
    ///
    /// # Errors
    ///
    /// If it has segments `.` or `..`: URL normalisation drops them.
    pub(crate) fn new(path: Option<&str>) -> Result<Self, Error> {
        let path = path.unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        if parts.iter().any(|part| matches!(*part, "." | "..")) {
            return Err(Error::Naming {
                option: "path",
                given: path.to_owned(),
                reason: "segments must not be `.` or `..`",
            });
        }
        let mut whole = String::new();
        for part in parts {
            whole.push('/');
            whole.push_str(part);
        }
        if path.ends_with('/') {
            whole.push('/');
        }
        let encoded = utf8_percent_encode(&whole, ODD).to_string();
        let decoded = percent_decode_str(encoded.trim_end_matches('/')).collect();
        Ok(Self { encoded, decoded })
    }

    /// Returns the path for URLs.
    pub(crate) fn as_str(&self) -> &str {
        &self.encoded
    }

    /// Returns the handler id in a request path: everything after the root path and a slash.
    /// `None` if the path is the root itself, which calls all handlers.
    pub(super) fn webhook(&self, path: &str) -> Result<Option<String>, Rejection> {
        if !path.starts_with('/') {
            return Err(Rejection::NotFound);
        }
        let decoded: Cow<'_, [u8]> = percent_decode_str(path).into();
        let rest = decoded.strip_prefix(self.decoded.as_slice());
        match rest.ok_or(Rejection::NotFound)? {
            b"" | b"/" => Ok(None),
            rest => {
                let id = rest.strip_prefix(b"/").ok_or(Rejection::NotFound)?;
                let id = String::from_utf8(id.to_vec()).map_err(|_| Rejection::Path)?;
                Ok(Some(id))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_rest_of_the_path() {
        for (root, path, id) in [
            (None, "/check", Some("check")),
            (None, "/a/b/spec.field", Some("a/b/spec.field")),
            (
                None,
                "/some/id_with:odd%20chars/x",
                Some("some/id_with:odd chars/x"),
            ),
            (None, "/a%2Fb", Some("a/b")),
            (None, "/a+b", Some("a+b")),
            (None, "/%C3%BC", Some("ü")),
            (None, "/100%", Some("100%")),
            (None, "//x", Some("/x")),
            (Some(""), "/x", Some("x")),
            (Some("/"), "/x", Some("x")),
            (Some("/hooks"), "/hooks/x", Some("x")),
            (Some("/hooks/"), "/hooks/x/", Some("x/")),
            (Some("hooks"), "/hooks/x", Some("x")),
            (Some("/a b"), "/a%20b/x", Some("x")),
            (Some("/a%20b"), "/a%20b/x", Some("x")),
            (Some("/ü"), "/%C3%BC/x", Some("x")),
        ] {
            let seen = Route::new(root).unwrap().webhook(path).unwrap();
            assert_eq!(seen.as_deref(), id, "{root:?} {path}");
        }
    }

    #[test]
    fn root_paths_have_no_id() {
        for (root, path) in [
            (None, "/"),
            (Some("/"), "/"),
            (Some("/hooks"), "/hooks"),
            (Some("/hooks"), "/hooks/"),
            (Some("/hooks/"), "/hooks"),
        ] {
            let seen = Route::new(root).unwrap().webhook(path).unwrap();
            assert_eq!(seen, None, "{root:?} {path}");
        }
    }

    #[test]
    fn paths_outside_of_the_root_are_not_found() {
        for (root, path) in [
            (Some("/hooks"), "/hooksx/y"),
            (Some("/hooks"), "/other/x"),
            (Some("/hooks"), "/"),
            (None, "*"),
            (None, ""),
        ] {
            let refused = Route::new(root).unwrap().webhook(path);
            assert!(
                matches!(refused, Err(Rejection::NotFound)),
                "{root:?} {path}"
            );
        }
    }

    #[test]
    fn ids_that_are_not_utf8_are_rejected() {
        let refused = Route::new(None).unwrap().webhook("/%FF");
        assert!(matches!(refused, Err(Rejection::Path)));
    }

    #[test]
    fn root_paths_are_encoded_for_urls() {
        for (given, expected) in [
            (None, ""),
            (Some(""), ""),
            (Some("/"), "/"),
            (Some("hooks/"), "/hooks/"),
            (Some("//a//b//"), "/a/b/"),
            (Some("/a%20b/c d?#ü"), "/a%20b/c%20d%3F%23%C3%BC"),
        ] {
            let route = Route::new(given).unwrap();
            assert_eq!(route.as_str(), expected, "{given:?}");
        }
        for given in ["/../x", "x/.", ".."] {
            let error = Route::new(Some(given)).unwrap_err().to_string();
            assert!(error.contains("path") && error.contains(given), "{error}");
        }
    }
}
