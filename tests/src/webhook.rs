//! An HTTPS admission webhook inside the test process, scripted by a closure.
//!
//! It listens on a real loopback socket with its own CA, for any server under test. It records all
//! reviews without validating them: that is up to the case.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{Api, eventually};

/// The response of the webhook to one review.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// A well-formed `AdmissionReview` with this `response`; the `uid` is added.
    Review(Value),
    /// This body with this HTTP status, valid or not.
    Raw(StatusCode, String),
    /// No response: the request stays open until the caller times out.
    Silence,
}

impl Verdict {
    /// Allows the request.
    pub fn allow() -> Self {
        Self::Review(json!({"allowed": true}))
    }

    /// Denies the request with this message, without a code.
    pub fn deny(message: &str) -> Self {
        Self::Review(json!({"allowed": false, "status": {"message": message}}))
    }

    /// Allows the request with this JSON patch.
    pub fn patch(operations: &Value) -> Self {
        Self::Review(json!({
            "allowed": true,
            "patchType": "JSONPatch",
            "patch": STANDARD.encode(operations.to_string()),
        }))
    }

    /// Adds a field to the `response` of a well-formed review.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        if let Self::Review(Value::Object(response)) = &mut self {
            response.insert(field.to_owned(), value);
        }
        self
    }
}

/// A recorded call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The path of the URL, which identifies one of several webhooks.
    pub path: String,
    /// The query of the URL with the timeout.
    pub query: String,
    /// The whole `AdmissionReview`.
    pub review: Value,
}

impl Call {
    /// Returns the `request` of the review.
    pub fn request(&self) -> &Value {
        &self.review["request"]
    }
}

/// The path of calls that only show that a configuration is in force.
const READY: &str = "/ready-probe";

type Script = dyn Fn(&Call) -> Verdict + Send + Sync;

struct Shared {
    script: Box<Script>,
    calls: Mutex<Vec<Call>>,
}

/// A running webhook server. It stops on drop.
pub struct Webhook {
    address: SocketAddr,
    ca_bundle: String,
    shared: Arc<Shared>,
    // Owns the accepting task, which owns the connections.
    _tasks: JoinSet<()>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// Starts a server on a free loopback port. The script responds to each review.
    pub async fn start(script: impl Fn(&Call) -> Verdict + Send + Sync + 'static) -> Self {
        Self::start_as("127.0.0.1", script).await
    }

    /// Starts a server whose certificate is for this name or address.
    pub async fn start_as(
        name: &str,
        script: impl Fn(&Call) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let (acceptor, authority) = tls(name);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("the loopback interface always has a free port");
        let address = listener
            .local_addr()
            .expect("a bound listener has an address");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            calls: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Self {
            address,
            ca_bundle: STANDARD.encode(authority),
            shared,
            _tasks: tasks,
        }
    }

    /// Returns a `clientConfig` of this server with this path.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.ca_bundle})
    }

    /// Returns a `clientConfig` of this server behind a Service of the test's namespace, which leads to
    /// this machine.
    pub fn client_config_by_service(&self, api: &Api, service: &str, path: &str) -> Value {
        let (namespace, port) = (api.namespace(), self.address.port());
        let service = json!({"namespace": namespace, "name": service, "path": path, "port": port});
        json!({"service": service, "caBundle": self.ca_bundle})
    }

    /// Returns one entry of a configuration: calls this path for matching requests in the
    /// namespace.
    ///
    /// It is limited to the test's namespace, because other tests run on the same server.
    pub fn hook(&self, api: &Api, name: &str, path: &str, rules: &[Value]) -> Value {
        json!({
            "name": name,
            "clientConfig": self.client_config(path),
            "rules": rules,
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": api.namespace()},
            },
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    }

    /// Creates a `ValidatingWebhookConfiguration` and waits until it is in force.
    pub async fn validate_with(&self, api: &Api, name: &str, hooks: &[Value]) {
        self.configure(api, "Validating", name, hooks).await;
    }

    /// Creates a `MutatingWebhookConfiguration` and waits until it is in force.
    pub async fn mutate_with(&self, api: &Api, name: &str, hooks: &[Value]) {
        self.configure(api, "Mutating", name, hooks).await;
    }

    // A server applies a new configuration with a delay. An additional hook in the same
    // configuration detects it: it matches leases, which no case writes.
    async fn configure(&self, api: &Api, kind: &str, name: &str, hooks: &[Value]) {
        let name = api.unique(name);
        let seen = format!("{READY}/{kind}/{name}");
        let leases = rule("coordination.k8s.io", "v1", &["leases"], &["CREATE"]);
        let mut hooks = hooks.to_vec();
        hooks.push(self.hook(api, "ready.example.com", &seen, &[leases]));
        let path = configurations(kind);
        let configuration = configuration(kind, &name, &hooks);
        api.create(&path, &configuration).await.expect_code(201);
        api.delete_at_end(format!("{path}/{name}"));

        let leases = api.group_path("coordination.k8s.io/v1", "leases?dryRun=All");
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "probe"},
        });
        eventually("a webhook configuration to be in force", async || {
            api.create(&leases, &lease).await.expect_code(201);
            self.all_calls()
                .iter()
                .any(|call| call.path == seen)
                .then_some(())
        })
        .await;
    }

    /// Returns all calls so far, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = self.all_calls();
        calls.retain(|call| !call.path.starts_with(READY));
        calls
    }

    /// Clears the recorded calls.
    pub fn forget(&self) {
        self.shared
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Returns the paths of the calls so far, in the order of arrival.
    pub fn paths(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.path).collect()
    }

    /// Returns the paths called since the last call of this method or of `forget`, sorted.
    pub fn called(&self) -> Vec<String> {
        let mut paths = self.paths();
        self.forget();
        paths.sort();
        paths
    }

    fn all_calls(&self) -> Vec<Call> {
        self.shared
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the calls with this path so far.
    pub fn calls_to(&self, path: &str) -> Vec<Call> {
        self.calls()
            .into_iter()
            .filter(|call| call.path == path)
            .collect()
    }
}

/// Returns a rule of a webhook for these resources and operations, in any scope.
pub fn rule(group: &str, version: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": resources,
        "operations": operations,
    })
}

/// Returns the path of the configurations of this kind: `Validating` or `Mutating`.
pub fn configurations(kind: &str) -> String {
    let kind = kind.to_lowercase();
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
}

/// Returns a configuration of this kind, not yet created.
pub fn configuration(kind: &str, name: &str, hooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": name},
        "webhooks": hooks,
    })
}

/// Returns a `clientConfig` with a closed port.
pub async fn unreachable_client_config() -> Value {
    // A port that was free and is closed again; only the system knows which ports are free.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("the loopback interface always has a free port");
    let address = listener
        .local_addr()
        .expect("a bound listener has an address");
    json!({"url": format!("https://{address}/")})
}

fn tls(name: &str) -> (TlsAcceptor, String) {
    let named = |name: &str| {
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CommonName, name);
        subject
    };
    let made = || -> Result<_, rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = named("webhook-test-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let mut leaf = CertificateParams::new(vec![name.to_owned()])?;
        leaf.distinguished_name = named("webhook-test");
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let leaf_key = KeyPair::generate()?;
        let leaf = leaf.signed_by(&leaf_key, &issuer)?;
        Ok((authority_pem, leaf, leaf_key))
    };
    let (authority, leaf, key) = made().expect("the parameters are fixed and valid");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .expect("the key belongs to the certificate");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(config)), authority)
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    // A failed accept ends the server; later calls fail and show it.
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, acceptor.clone(), Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    // A caller that rejects the certificate ends the handshake.
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
    let builder = auto::Builder::new(TokioExecutor::new());
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Ok(response(StatusCode::BAD_REQUEST, String::new()));
    };
    let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let call = Call {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        review,
    };
    let answer = if call.path.starts_with(READY) {
        Verdict::allow()
    } else {
        (shared.script)(&call)
    };
    let uid = call.request()["uid"].clone();
    shared
        .calls
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(call);
    Ok(match answer {
        Verdict::Review(mut answer) => {
            answer["uid"] = uid;
            let review = json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": answer,
            });
            response(StatusCode::OK, review.to_string())
        }
        Verdict::Raw(status, body) => response(status, body),
        Verdict::Silence => std::future::pending().await,
    })
}

fn response(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}
