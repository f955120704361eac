//! A webhook server, and requests that pass through its webhooks.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::*;
use super::{attributes, kind};

/// A server certificate with its key, and the CA bundle for clients.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) bundle: String,
}

impl Identity {
    pub(super) fn new(certificate: &rcgen::Certificate, key: &KeyPair, bundle: String) -> Self {
        Self {
            chain: vec![certificate.der().clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            bundle,
        }
    }

    /// Returns a certificate that is signed by its own CA.
    pub(super) fn signed(names: &[&str]) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::<String>::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let bundle = ca.self_signed(&ca_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let certificate = params(names)
            .signed_by(&key, &Issuer::new(ca, ca_key))
            .unwrap();
        Self::new(&certificate, &key, bundle)
    }

    /// Returns a CA certificate that a server uses directly.
    pub(super) fn authority(names: &[&str]) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self::new(&certificate, &key, certificate.pem())
    }
}

pub(super) fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// A webhook server. The path selects the response.
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) bundle: String,
    pub(super) seen: Arc<Mutex<Vec<(String, Value)>>>,
    pub(super) connections: Arc<Mutex<usize>>,
    pub(super) tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn start(identity: Identity) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(identity.chain, identity.key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (log, count) = (Arc::clone(&seen), Arc::clone(&connections));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
                *count.lock().unwrap() += 1;
                open.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = hyper::service::service_fn(move |request| {
                        let log = Arc::clone(&log);
                        async move { Ok::<_, Infallible>(answer(request, &log).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            port,
            bundle: identity.bundle,
            seen,
            connections,
            tasks,
        }
    }

    pub(super) async fn good() -> Self {
        Self::start(Identity::signed(&["127.0.0.1", "localhost"])).await
    }

    pub(super) fn webhook(&self, name: &str, path: &str) -> Value {
        json!({
            "name": name,
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/{path}", self.port),
                "caBundle": STANDARD.encode(&self.bundle),
            },
            "rules": [{
                "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
            }],
            "sideEffects": "None",
            "timeoutSeconds": 5,
            "admissionReviewVersions": ["v1"],
        })
    }

    /// Stops the server and closes its connections.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|(path, _)| path.clone())
            .collect()
    }
}

async fn answer(
    request: http::Request<hyper::body::Incoming>,
    log: &Mutex<Vec<(String, Value)>>,
) -> http::Response<Full<Bytes>> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
    log.lock().unwrap().push((path.clone(), review));
    let mut close = false;
    let mut change = |operations: Value| {
        response["patch"] = json!(STANDARD.encode(operations.to_string()));
        response["patchType"] = json!("JSONPatch");
    };
    match path.as_str() {
        "append" => change(json!([{ "op": "add", "path": "/log/-", "value": "x" }])),
        "broken-patch" => change(json!([{ "op": "remove", "path": "/nope" }])),
        "no-patch" => change(json!({})),
        "empty-patch" => change(json!([])),
        "deny" => {
            response["allowed"] = json!(false);
            response["status"] = json!({ "message": "no way", "code": 403 });
            response["warnings"] = json!(["denied with care"]);
        }
        "warn" => response["warnings"] = json!(["careful"]),
        "close" => close = true,
        "slow" => tokio::time::sleep(Duration::from_secs(3600)).await,
        "garbage" => return http::Response::new(Full::from("hello")),
        "huge" => return http::Response::new(Full::from(vec![b' '; 9 << 20])),
        _ => {}
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    });
    let mut answer = http::Response::new(Full::from(review.to_string()));
    if close {
        answer
            .headers_mut()
            .insert("connection", http::HeaderValue::from_static("close"));
    }
    answer
}

pub(super) fn caller() -> Caller {
    Caller::new(Vec::new())
}

pub(super) fn chain<'a>(
    webhooks: &'a Webhooks,
    caller: &'a Caller,
    attributes: &'a Attributes<'a>,
) -> Chain<'a> {
    Chain {
        webhooks,
        caller,
        attributes,
        convert: &|object, version| convert(object, &version),
        new_uid: &|| "4711".to_owned(),
        find_service: &|_, _| None,
    }
}

pub(super) fn apply(object: &Value, patch: &[u8]) -> Result<Value, String> {
    let patch: json_patch::Patch = serde_json::from_slice(patch).map_err(|e| e.to_string())?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).map_err(|e| e.to_string())?;
    Ok(object)
}

pub(super) fn convert(
    mut object: Value,
    version: &str,
) -> BoxFuture<'static, crate::status::Result<Value>> {
    object["apiVersion"] = json!(version);
    Box::pin(std::future::ready(Ok(object)))
}

pub(super) fn webhooks(hooks: &[Value]) -> Webhooks {
    let configuration = json!({ "metadata": { "name": "c" }, "webhooks": hooks });
    Webhooks::read(
        std::slice::from_ref(&configuration),
        std::slice::from_ref(&configuration),
        super::super::Policies::default(),
    )
}

pub(super) async fn mutated(hooks: &[Value]) -> Result<Value, String> {
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Create);
    let object = json!({ "apiVersion": "v1", "log": [] });
    chain(&webhooks(hooks), &caller(), &request)
        .mutate(Some(object), None, &apply, &mut Vec::new())
        .await
        .map(Option::unwrap)
        .map_err(|error| format!("{}: {}", error.code(), error.message()))
}

pub(super) async fn validated(hooks: &[Value]) -> Result<(), String> {
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Create);
    let object = json!({ "apiVersion": "v1" });
    chain(&webhooks(hooks), &caller(), &request)
        .validate(Some(&object), None, &mut Vec::new())
        .await
        .map_err(|error| format!("{}: {}", error.code(), error.message()))
}

pub(super) fn with(mut webhook: Value, fields: &Value) -> Value {
    let Value::Object(fields) = fields else {
        return webhook;
    };
    for (key, value) in fields {
        webhook[key] = value.clone();
    }
    webhook
}
