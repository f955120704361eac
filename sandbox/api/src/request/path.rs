//! Parsing of URL paths.

use std::borrow::Cow;

/// A path below `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The deprecated `/watch/` prefix.
    pub watch: bool,
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// `/api`
    Api,
    /// `/apis`
    Apis,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    GroupVersion {
        group: String,
        version: String,
    },
    Resource(ResourcePath),
    /// Anything else, e.g. `/version`.
    Other(String),
}

/// Parses a path. `None` if it cannot be decoded, or is too long for a resource.
pub fn parse(path: &str) -> Option<Path> {
    let mut segments = Vec::new();
    for part in path.strip_prefix('/').unwrap_or(path).split('/') {
        segments.push(decoded(part)?);
    }
    if segments.last().is_some_and(|last| last.is_empty()) {
        segments.pop(); // a trailing slash is ignored
    }
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return Some(Path::Other(path.to_owned()));
    }
    match segments.as_slice() {
        ["api"] => Some(Path::Api),
        ["apis"] => Some(Path::Apis),
        ["api", version] => Some(Path::GroupVersion {
            group: String::new(),
            version: (*version).to_owned(),
        }),
        ["apis", group] => Some(Path::Group((*group).to_owned())),
        ["apis", group, version] => Some(Path::GroupVersion {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
        }),
        ["api", version, rest @ ..] => resource("", version, rest).map(Path::Resource),
        ["apis", group, version, rest @ ..] => resource(group, version, rest).map(Path::Resource),
        _ => Some(Path::Other(path.to_owned())),
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Option<ResourcePath> {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, rest) = match rest {
        // The subresources of a namespace have the form of resources in it.
        ["namespaces", _, "status" | "finalize"] if group.is_empty() => (None, rest),
        ["namespaces", namespace, _, ..] => (Some(*namespace), rest.get(2..)?),
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(*name), None),
        [plural, name, subresource] => (plural, Some(*name), Some(*subresource)),
        _ => return None,
    };
    Some(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.map(str::to_owned),
        plural: (*plural).to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
    })
}

/// Returns `true` if every `%` of a path is followed by two hexadecimal digits.
pub(crate) fn is_well_encoded(path: &str) -> bool {
    path.split('%').skip(1).all(|after| {
        let digits = after.as_bytes();
        digits.len() >= 2 && digits.iter().take(2).all(u8::is_ascii_hexdigit)
    })
}

/// Decodes a percent-encoded segment. `None` if the result is not UTF-8.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    percent_encoding::percent_decode_str(segment)
        .decode_utf8()
        .ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resource_path(path: &str) -> ResourcePath {
        match parse(path) {
            Some(Path::Resource(resource)) => resource,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn resources_and_namespaces_are_distinguished() {
        let pods = resource_path("/api/v1/namespaces/ns/pods/p/status");
        assert_eq!(pods.namespace.as_deref(), Some("ns"));
        assert_eq!((&*pods.plural, pods.name.as_deref()), ("pods", Some("p")));
        assert_eq!(pods.subresource.as_deref(), Some("status"));

        let namespace = resource_path("/api/v1/namespaces/ns/finalize");
        assert_eq!(
            (namespace.namespace, &*namespace.plural),
            (None, "namespaces")
        );
        assert_eq!(namespace.subresource.as_deref(), Some("finalize"));

        let named_so = resource_path("/apis/x.io/v1/namespaces/ns/status");
        assert_eq!(
            (named_so.namespace.as_deref(), &*named_so.plural),
            (Some("ns"), "status")
        );
    }

    #[test]
    fn other_paths_are_distinguished() {
        assert_eq!(parse("/api"), Some(Path::Api));
        assert_eq!(parse("/apis/"), Some(Path::Apis));
        assert_eq!(parse("/apis/apps"), Some(Path::Group("apps".to_owned())));
        assert_eq!(parse("/healthz"), Some(Path::Other("/healthz".to_owned())));
        assert_eq!(parse("/api/v1/namespaces/a/pods/b/c/d"), None);
        assert!(resource_path("/api/v1/watch/pods").watch);
        assert!(is_well_encoded("/a%2Fb") && !is_well_encoded("/a%2") && !is_well_encoded("/%zz"));
        assert_eq!(
            resource_path("/api/v1/nodes/a%2Db").name.as_deref(),
            Some("a-b")
        );
    }

    proptest! {
        #[test]
        fn parsing_random_paths_never_panics(path in "(/|%|[a-z0-9]|%2f|%ff|api|apis|v1){0,30}") {
            let _ = parse(&path);
        }
    }
}
