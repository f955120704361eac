//! Fuzz targets: bytes become requests to a sandbox in this process.
//!
//! Every input gets a new sandbox. A target fails if the sandbox panics, if it responds with an internal error or with
//! a body that is not JSON, or if a rejected write changes anything.

use std::cell::RefCell;
use std::str::FromStr;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use kopf_sandbox::{Sandbox, Service};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/test.dev/v1/namespaces/default/things";

/// Collections for bodies; the first byte of an input chooses one.
const COLLECTIONS: [&str; 6] = [
    CONFIG_MAPS,
    DEPLOYMENTS,
    CRDS,
    "/api/v1/namespaces/default/pods",
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
];

/// Parts of the messages of errors that a real server does not classify either: its responses have
/// the code 500 and no reason.
const UNCLASSIFIED: [&str; 16] = [
    "resourceVersion should not be set on objects to be created",
    "etcdserver: request is too large",
    "invalid shard selector: ",
    "failed to create typed patch object (",
    // Strategic merge patches.
    "cannot merge lists without merge key for ",
    "merging lists cannot yet be specified in the patch",
    " does not contain declared merge key: ",
    "expected a ",
    "no elements in any of the given slices",
    "list element types are not identical: ",
    "merging an object in json but data type is not struct, instead is: ",
    "unable to find api field in struct ",
    "expected slice or array type, but got: ",
    "unexpected slice of slice",
    "unknown patch type: ",
    "value for key ",
];

/// A part of requests to be fuzzed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Bodies in JSON.
    Json,
    /// Bodies in YAML.
    Yaml,
    /// Bodies in protobuf.
    Protobuf,
    /// JSON patches, merge patches and strategic merge patches.
    Patch,
    /// Server-side apply.
    Apply,
    /// Selectors of labels, fields and shards.
    Selectors,
    /// Rules of custom resources in CEL.
    Cel,
    /// Schemas of custom resources.
    Schema,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 8] = [
        Self::Json,
        Self::Yaml,
        Self::Protobuf,
        Self::Patch,
        Self::Apply,
        Self::Selectors,
        Self::Cel,
        Self::Schema,
    ];

    /// Returns the name of the target and of its corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "protobuf",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Selectors => "selectors",
            Self::Cel => "cel",
            Self::Schema => "schema",
        }
    }

    /// Sends an input to a new sandbox.
    ///
    /// # Panics
    ///
    /// The sandbox misbehaves.
    pub fn run(self, data: &[u8]) {
        thread_local! {
            static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
        }
        RUNTIME.with_borrow_mut(|runtime| {
            let runtime = runtime.get_or_insert_with(|| {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                builder.enable_time().build().expect("a runtime")
            });
            runtime.block_on(async {
                let sandbox = Sandbox::builder()
                    .seed(1)
                    .starting_at(1_794_700_800)
                    .build();
                let sandbox = sandbox.expect("a sandbox");
                let api = Api(sandbox.service());
                self.request(&api, data).await;
                sandbox.shutdown().await;
            });
        });
    }

    async fn request(self, api: &Api, data: &[u8]) {
        match self {
            Self::Json => api.post_body(data, "application/json").await,
            Self::Yaml => api.post_body(data, "application/yaml").await,
            Self::Protobuf => {
                api.post_body(data, "application/vnd.kubernetes.protobuf")
                    .await
            }
            Self::Patch => patch(api, data).await,
            Self::Apply => {
                api.prepare(DEPLOYMENTS, &deployment()).await;
                let path = format!("{DEPLOYMENTS}/web?fieldManager=fuzz&force=true");
                let kind = "application/apply-patch+yaml";
                api.write(DEPLOYMENTS, Method::PATCH, &path, kind, data)
                    .await;
            }
            Self::Selectors => selectors(api, data).await,
            Self::Cel => {
                let Ok(rule) = std::str::from_utf8(data) else {
                    return;
                };
                let schema = json!({
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "x-kubernetes-validations": [{ "rule": rule }],
                            "properties": {
                                "size": { "type": "integer", "maximum": 100 },
                                "names": { "type": "array", "maxItems": 9, "items": { "type": "string", "maxLength": 9 } },
                                "name": { "type": "string", "maxLength": 20 },
                            },
                        },
                    },
                });
                define(api, &schema).await;
            }
            Self::Schema => {
                if let Ok(schema) = serde_json::from_slice(data) {
                    define(api, &schema).await;
                }
            }
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|target| target.name() == name)
            .ok_or_else(|| format!("unknown target {name:?}"))
    }
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "web", "env": [{ "name": "A", "value": "1" }] }] },
            },
        },
    })
}

async fn patch(api: &Api, data: &[u8]) {
    api.prepare(DEPLOYMENTS, &deployment()).await;
    let Some((choice, patch)) = data.split_first() else {
        return;
    };
    let kind = match choice % 3 {
        0 => "application/json-patch+json",
        1 => "application/merge-patch+json",
        _ => "application/strategic-merge-patch+json",
    };
    let path = format!("{DEPLOYMENTS}/web");
    api.write(DEPLOYMENTS, Method::PATCH, &path, kind, patch)
        .await;
}

async fn selectors(api: &Api, data: &[u8]) {
    api.prepare(DEPLOYMENTS, &deployment()).await;
    let Some((choice, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let parameter = match choice % 3 {
        0 => "labelSelector",
        1 => "fieldSelector",
        _ => "shardSelector",
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(parameter, text);
    let path = format!("{DEPLOYMENTS}?{}", query.finish());
    api.send(Method::GET, &path, "", &[]).await;
}

/// Defines custom resources with a schema, creates one and changes it.
async fn define(api: &Api, schema: &Value) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.test.dev" },
        "spec": {
            "group": "test.dev",
            "scope": "Namespaced",
            "names": { "plural": "things", "kind": "Thing" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    let body = crd.to_string();
    let created = api
        .write(
            CRDS,
            Method::POST,
            CRDS,
            "application/json",
            body.as_bytes(),
        )
        .await;
    if created != 201 {
        return;
    }
    let thing = json!({
        "apiVersion": "test.dev/v1", "kind": "Thing", "metadata": { "name": "one" },
        "spec": { "size": 3, "names": ["a", "b"], "name": "x" },
    });
    let body = thing.to_string();
    api.write(
        THINGS,
        Method::POST,
        THINGS,
        "application/json",
        body.as_bytes(),
    )
    .await;
    let path = format!("{THINGS}/one");
    let change = br#"{"spec":{"size":4,"other":[1,null]}}"#;
    api.write(
        THINGS,
        Method::PATCH,
        &path,
        "application/merge-patch+json",
        change,
    )
    .await;
}

struct Api(Service);

struct Response {
    code: u16,
    body: Value,
}

impl Api {
    async fn post_body(&self, data: &[u8], kind: &str) {
        let Some((choice, body)) = data.split_first() else {
            return;
        };
        let path = COLLECTIONS[usize::from(*choice) % COLLECTIONS.len()];
        self.write(path, Method::POST, path, kind, body).await;
    }

    async fn prepare(&self, path: &str, object: &Value) {
        let body = object.to_string();
        let response = self
            .send(Method::POST, path, "application/json", body.as_bytes())
            .await;
        assert_eq!(response.code, 201, "{}", response.body);
    }

    /// Sends a write; checks that nothing changes if it is rejected. Returns the code.
    async fn write(
        &self,
        collection: &str,
        method: Method,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> u16 {
        let before = self.send(Method::GET, collection, "", &[]).await;
        let response = self.send(method, path, kind, body).await;
        if response.code >= 400 {
            let after = self.send(Method::GET, collection, "", &[]).await;
            assert_eq!(
                before.body, after.body,
                "a rejected write has an effect: {}",
                response.body
            );
        }
        response.code
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &[u8]) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind);
        let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else {
            return Response {
                code: 0,
                body: Value::Null,
            };
        };
        let response = self
            .0
            .clone()
            .oneshot(request)
            .await
            .expect("no faults are injected");
        let code = response.status().as_u16();
        let bytes = response
            .into_body()
            .collect()
            .await
            .expect("a whole body")
            .to_bytes();
        let body: Value = serde_json::from_slice(&bytes).expect("responses are JSON");
        let message = body["message"].as_str().unwrap_or_default();
        let unclassified =
            body["reason"].is_null() && UNCLASSIFIED.iter().any(|part| message.contains(part));
        assert!(code != 500 || unclassified, "internal error: {body}");
        Response { code, body }
    }
}
