//! Generators of malformed requests.

mod bodies;

use std::fmt;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use proptest::prelude::*;
use serde_json::Value;

use self::bodies::{bodies, odd_values, spoiled, templates};

/// An unvalidated request.
#[derive(Clone)]
pub(crate) struct Rough {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        writeln!(f, "{} {}?{}", self.method, self.path, self.query)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {}", text(value))?;
        }
        let body: String = text(&self.body).chars().take(2000).collect();
        writeln!(f, "{body:?}")
    }
}

impl Rough {
    /// Returns `None` if HTTP does not allow the request.
    pub(crate) fn request(&self) -> Option<Request<Full<Bytes>>> {
        let mut uri = self.path.clone();
        if !self.query.is_empty() {
            uri = format!("{uri}?{}", self.query);
        }
        let mut builder = Request::builder()
            .method(Method::from_bytes(self.method.as_bytes()).ok()?)
            .uri(uri);
        for (name, value) in &self.headers {
            let name = HeaderName::from_static(name);
            builder = builder.header(name, HeaderValue::from_bytes(value).ok()?);
        }
        builder.body(Full::new(self.body.clone().into())).ok()
    }
}

fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn methods() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&[
        "GET", "GET", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "HEAD",
        "OPTIONS", "TRACE", "CONNECT", "BREW",
    ])
}

fn paths() -> impl Strategy<Value = String> {
    let known = one_of(&[
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/one",
        "/api/v1/namespaces/default/pods/one",
        "/api/v1/namespaces/default/pods/one/status",
        "/api/v1/namespaces/default/pods/one/eviction",
        "/api/v1/namespaces/default/pods/one/binding",
        "/api/v1/namespaces/default/pods/one/log",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/api/v1/namespaces/default/events",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/finalize",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/one",
        "/apis/apps/v1/namespaces/default/deployments/one/scale",
        "/apis/test.dev/v1/namespaces/default/things",
        "/apis/test.dev/v1/namespaces/default/things/one",
        "/apis/test.dev/v1/namespaces/default/things/one/status",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.test.dev",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
    ]);
    let segment = prop_oneof![
        4 => one_of(&[
            "api", "apis", "v1", "apps", "namespaces", "default", "configmaps", "pods", "one",
            "status", "scale", "watch", "test.dev", "things", "openapi", "v2", "v3", "version",
            "healthz", "readyz", "", ".", "..", "%2e%2e", "%2f", "%00", "%ff", "%zz", "%",
            "a%20b", "UPPER", "~", "*", "0", "-",
        ]),
        1 => "[a-z0-9.%-]{0,12}",
        1 => "[a-z]{250,260}",
    ];
    let random = prop::collection::vec(segment, 0..8).prop_map(|all| format!("/{}", all.join("/")));
    prop_oneof![2 => known, 1 => random]
}

fn queries() -> impl Strategy<Value = String> {
    let key = one_of(&[
        "limit",
        "continue",
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "resourceVersionMatch",
        "timeoutSeconds",
        "watch",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "dryRun",
        "fieldValidation",
        "fieldManager",
        "propagationPolicy",
        "gracePeriodSeconds",
        "orphanDependents",
        "includeObject",
        "pretty",
        "timeout",
        "force",
        "x",
    ]);
    let value = prop_oneof![
        3 => one_of(&[
            "", "0", "1", "-1", "true", "false", "All", "Strict", "Exact", "NotOlderThan",
            "99999999999999999999", "1e3", "NaN", "a=b", "a%3Db", "a%20in%20(b", "a%20in%20(b)",
            "!!", "a,,b", "metadata.name%3Done", "metadata.name!%3Done", "spec.x%3D1",
            "Foreground", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIvIn0", "%00", "%ff",
            "%", "+", "Object", "None",
        ]),
        1 => "[ -~&&[^#]]{0,20}",
        1 => "[a-z%0-9=,()!]{0,300}",
    ];
    let pair = (key, value).prop_map(|(key, value)| format!("{key}={value}"));
    prop::collection::vec(pair, 0..4).prop_map(|pairs| pairs.join("&"))
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let content_type = one_of(&[
        "application/json",
        "application/json",
        "application/json; charset=utf-8",
        "application/yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
        ";;;",
    ]);
    let accept = one_of(&[
        "*/*",
        "application/json",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=Nothing;v=v0;g=",
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "application/json;q=2;q=,,,",
        ";",
    ]);
    let text = |name: &'static str| move |value: String| (name, value.into_bytes());
    let name = prop::sample::select(&[
        "impersonate-user",
        "impersonate-group",
        "impersonate-uid",
        "impersonate-extra-%zz",
        "authorization",
        "accept-encoding",
        "content-length",
        "transfer-encoding",
        "if-match",
    ]);
    let strange = (name, prop::collection::vec(any::<u8>(), 0..20));
    (
        content_type.prop_map(text("content-type")),
        prop::option::weighted(0.3, accept.prop_map(text("accept"))),
        prop::option::weighted(0.1, strange),
    )
        .prop_map(|(first, second, third)| {
            let mut all = vec![first];
            all.extend(second);
            all.extend(third);
            all
        })
}

/// Returns the method, path and content type of a document of `templates`.
fn place(document: &Value) -> (&'static str, &'static str, &'static str) {
    const JSON: &str = "application/json";
    match document["kind"].as_str() {
        Some("ConfigMap") if document["metadata"]["name"] == "one" => {
            ("PUT", "/api/v1/namespaces/default/configmaps/one", JSON)
        }
        Some("ConfigMap") => ("POST", "/api/v1/namespaces/default/configmaps", JSON),
        Some("Pod") => ("POST", "/api/v1/namespaces/default/pods", JSON),
        Some("Secret") => ("POST", "/api/v1/namespaces/default/secrets", JSON),
        Some("Namespace") => ("POST", "/api/v1/namespaces", JSON),
        Some("Deployment") => ("POST", "/apis/apps/v1/namespaces/default/deployments", JSON),
        Some("Thing") => ("POST", "/apis/test.dev/v1/namespaces/default/things", JSON),
        Some("CustomResourceDefinition") => ("POST", crate::support::DEFINITIONS, JSON),
        Some("Scale") => (
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/one/scale",
            JSON,
        ),
        Some(_) => (
            "DELETE",
            "/apis/test.dev/v1/namespaces/default/things/one",
            JSON,
        ),
        None if document.is_array() => (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/one",
            "application/json-patch+json",
        ),
        None if document.get("spec").is_some() => (
            "PATCH",
            "/apis/apps/v1/namespaces/default/deployments/one",
            "application/strategic-merge-patch+json",
        ),
        None => (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/one",
            "application/merge-patch+json",
        ),
    }
}

/// Valid requests with at most one mutation of their documents.
fn nearly_good() -> impl Strategy<Value = Rough> {
    let change = (any::<prop::sample::Index>(), odd_values());
    let changes = prop::collection::vec(change, 0..3);
    let queries = prop_oneof![
        5 => Just(String::new()),
        1 => one_of(&["dryRun=All", "fieldValidation=Strict", "fieldManager=x"]),
        1 => queries(),
    ];
    (templates(), changes, queries).prop_map(|(good, changes, query)| {
        let (method, path, media) = place(&good);
        Rough {
            method,
            path: path.to_owned(),
            query,
            headers: vec![("content-type", media.into())],
            body: spoiled(good, changes).into_bytes(),
        }
    })
}

/// Arbitrary requests.
pub(crate) fn requests() -> impl Strategy<Value = Rough> {
    let wild = (methods(), paths(), queries(), headers(), bodies()).prop_map(
        |(method, path, query, headers, body)| Rough {
            method,
            path,
            query,
            headers,
            body,
        },
    );
    prop_oneof![2 => nearly_good(), 1 => wild]
}
