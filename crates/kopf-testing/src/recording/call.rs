//! A recorded write with its response.

use http::Method;
use serde_json::Value;

/// A write to the API, as it was sent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// The Kubernetes verb: `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    /// The path of the URL, without the query.
    pub path: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The namespace, if the path has one.
    pub namespace: Option<String>,
    /// The name of the object, if the path has one.
    pub name: Option<String>,
    /// The content type, which determines the type of a patch.
    pub content_type: String,
    /// The body of the request: for patches, an object is a merge-patch, a list is a JSON-patch.
    pub body: Value,
    /// The HTTP status of the response; `None` without a response.
    pub status: Option<u16>,
    /// The body of the response; null if it is absent or not JSON.
    pub response: Value,
}

impl Call {
    pub(super) fn new(verb: &'static str, path: &str, content_type: &str, body: &[u8]) -> Self {
        let parts = PathParts::of(path);
        Self {
            verb,
            path: path.to_owned(),
            group: parts.group.to_owned(),
            resource: parts.resource.to_owned(),
            subresource: parts.subresource.map(str::to_owned),
            namespace: parts.namespace.map(str::to_owned),
            name: parts.name.map(str::to_owned),
            content_type: content_type.to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
            status: None,
            response: Value::Null,
        }
    }

    /// Returns `true` if the server accepted the request.
    pub fn is_accepted(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }

    /// Returns `true` for k8s-events, by which an operator reports.
    pub fn is_event(&self) -> bool {
        self.resource == "events" && matches!(&*self.group, "" | "events.k8s.io")
    }

    /// Returns the resource version in the response, if any.
    pub fn resource_version(&self) -> Option<&str> {
        self.response["metadata"]["resourceVersion"].as_str()
    }
}

/// Returns the verb of a write; `None` for other requests.
pub(super) fn verb(method: &Method) -> Option<&'static str> {
    match method.as_str() {
        "POST" => Some("create"),
        "PUT" => Some("update"),
        "PATCH" => Some("patch"),
        "DELETE" => Some("delete"),
        _ => None,
    }
}

/// The parts of a path.
#[derive(Debug, Default, PartialEq, Eq)]
struct PathParts<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    subresource: Option<&'a str>,
}

impl<'a> PathParts<'a> {
    fn of(path: &'a str) -> Self {
        let mut steps = path.split('/').filter(|step| !step.is_empty()).peekable();
        let group = match steps.next() {
            Some("api") => "",
            Some("apis") => steps.next().unwrap_or_default(),
            _ => return Self::default(),
        };
        let _version = steps.next();
        let mut parts = Self {
            group,
            resource: steps.next().unwrap_or_default(),
            name: steps.next(),
            ..Self::default()
        };
        // `namespaces/<name>/<resource>`, but `namespaces/<name>/status` belongs to the namespace.
        if parts.resource == "namespaces"
            && steps
                .peek()
                .is_some_and(|step| !matches!(*step, "status" | "finalize"))
        {
            parts.namespace = parts.name;
            parts.resource = steps.next().unwrap_or_default();
            parts.name = steps.next();
        }
        parts.subresource = steps.next();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed() {
        let parts = PathParts::of("/apis/kopf.dev/v1/namespaces/ns/kopfexamples/obj/status");
        assert_eq!(
            parts,
            PathParts {
                group: "kopf.dev",
                resource: "kopfexamples",
                namespace: Some("ns"),
                name: Some("obj"),
                subresource: Some("status"),
            }
        );
        let parts = PathParts::of("/api/v1/namespaces/ns/events");
        assert_eq!((parts.resource, parts.namespace), ("events", Some("ns")));
        let parts = PathParts::of("/api/v1/namespaces/ns");
        assert_eq!((parts.resource, parts.name), ("namespaces", Some("ns")));
        let parts = PathParts::of("/api/v1/namespaces/ns/status");
        assert_eq!(
            (parts.name, parts.subresource),
            (Some("ns"), Some("status"))
        );
        assert_eq!(PathParts::of("/version"), PathParts::default());
    }

    #[test]
    fn events_are_recognised() {
        let call = |path| Call::new("create", path, "", b"{}");
        assert!(call("/api/v1/namespaces/ns/events").is_event());
        assert!(!call("/apis/example.com/v1/namespaces/ns/events").is_event());
    }
}
