//! Webhook servers: the provided ones are native, those of users are iterated by the event loop.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::admission::{
    ClientConfig, Incoming, InvalidService, Refusal, SERVER_PORT, ServerError, ServiceReference,
    Serving, Shutdown, WebhookServer,
};
use kopf_core::sync::Mutex;
use kopf_webhooks::{AutoTunnel, NgrokTunnel, Server, Verify};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::front::Front;
use crate::front::convert::{from_python, from_python_in_order, to_python, to_python_in_order};
use crate::front::queue::Entry;
use crate::front::raised::Raised;
use crate::front::reading::{duration, get, need};
use crate::front::resolving::{Failure, resolve};

/// Returns the server in the settings.
pub(crate) fn server(
    front: &Arc<Front>,
    server: &Bound<'_, PyAny>,
) -> PyResult<Arc<dyn WebhookServer>> {
    let bridge = front.bridge.bind(server.py());
    let described = bridge.call_method1("describe_webhook_server", (server,))?;
    if described.is_none() {
        return Ok(Arc::new(PyServer {
            front: Arc::clone(front),
            server: Arc::new(server.clone().unbind()),
        }));
    }
    let options = described.cast::<PyDict>()?;
    let kind: String = need(options, "kind")?;
    Ok(match &*kind {
        "ngrok" => Arc::new(ngrok(options)?),
        "auto_tunnel" => Arc::new(auto_tunnel(options)?),
        _ => Arc::new(native(&kind, options)?),
    })
}

/// Creates a native server.
pub(crate) fn native(kind: &str, options: &Bound<'_, PyDict>) -> PyResult<Server> {
    let mut server = match (kind, get::<(String, u16)>(options, "service")?) {
        (_, Some((name, port))) => Server::service(name, port),
        ("auto", None) => Server::auto(),
        _ => Server::new(),
    };
    if let Some(host) = get::<String>(options, "default_host")? {
        server = server.default_host(host);
    }
    macro_rules! set {
        ($($name:ident: $type:ty),* $(,)?) => {$(
            if let Some(value) = get::<$type>(options, stringify!($name))? {
                server = server.$name(value);
            }
        )*};
    }
    set!(
        addr: String, port: u16, path: String, host: String, cadata: Vec<u8>, cafile: String,
        cadump: String, certfile: String, pkeyfile: String, password: String, insecure: bool,
        extra_sans: Vec<String>, verify_cafile: String, verify_capath: String, verify_cadata: Vec<u8>,
    );
    if let Some(mode) = get::<String>(options, "verify_mode")? {
        server = server.verify_mode(match &*mode {
            "required" => Verify::Required,
            "optional" => Verify::Optional,
            _ => Verify::None,
        });
    }
    if let Some(interval) = get::<Bound<'_, PyAny>>(options, "file_check_interval")? {
        server = server.file_check_interval(duration(&interval)?);
    }
    Ok(server)
}

fn ngrok(options: &Bound<'_, PyDict>) -> PyResult<NgrokTunnel> {
    let mut tunnel = NgrokTunnel::new();
    macro_rules! set {
        ($($name:ident: $type:ty),* $(,)?) => {$(
            if let Some(value) = get::<$type>(options, stringify!($name))? {
                tunnel = tunnel.$name(value);
            }
        )*};
    }
    set!(addr: String, port: u16, path: String, token: String, region: String, binary: String);
    Ok(tunnel)
}

fn auto_tunnel(options: &Bound<'_, PyDict>) -> PyResult<AutoTunnel> {
    let mut tunnel = AutoTunnel::new();
    if let Some(addr) = get::<String>(options, "addr")? {
        tunnel = tunnel.addr(addr);
    }
    if let Some(port) = get(options, "port")? {
        tunnel = tunnel.port(port);
    }
    if let Some(path) = get::<String>(options, "path")? {
        tunnel = tunnel.path(path);
    }
    Ok(tunnel)
}

/// A server of a user: an async generator of client configs.
struct PyServer {
    front: Arc<Front>,
    server: Arc<Py<PyAny>>,
}

impl WebhookServer for PyServer {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> BoxFuture<'static, Result<(), ServerError>> {
        async move {
            let (sender, mut receiver) = oneshot::channel();
            let task = Arc::new(Mutex::new(None::<Py<PyAny>>));
            let (front, server, started) = (
                Arc::clone(&self.front),
                Arc::clone(&self.server),
                Arc::clone(&task),
            );
            let serving = PyServing {
                front: Arc::clone(&front),
                operator,
                done: Mutex::new(Some(sender)),
            };
            self.front.queue.push(Entry::Run(Box::new(move |py| {
                let bridge = front.bridge.bind(py);
                match bridge.call_method1("serve", (&*server, serving)) {
                    Ok(running) => *started.lock() = Some(running.unbind()),
                    // Dropping the serving part also ends the server.
                    Err(error) => error.write_unraisable(py, None),
                }
            })));
            let ended = tokio::select! {
                ended = &mut receiver => ended,
                () = shutdown => {
                    self.front.queue.push(Entry::Run(Box::new(move |py| {
                        if let Some(task) = task.lock().take() {
                            let _ = task.call_method0(py, "cancel");
                        }
                    })));
                    let _ = receiver.await;
                    return Ok(());
                }
            };
            match ended {
                Ok(None) => Ok(()),
                Ok(Some(error)) => Err(error),
                Err(_) => Err("the webhook server could not be started".into()),
            }
        }
        .boxed()
    }
}

impl fmt::Debug for PyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyServer")
    }
}

/// The interface of the operator for a server of a user.
#[pyclass(frozen, name = "Serving", module = "kopf._kopf")]
pub(crate) struct PyServing {
    front: Arc<Front>,
    operator: Arc<dyn Serving>,
    done: Mutex<Option<oneshot::Sender<Option<ServerError>>>>,
}

#[pymethods]
impl PyServing {
    /// Reviews a request and resolves the future.
    fn review(
        &self,
        review: &Bound<'_, PyAny>,
        webhook: Option<String>,
        headers: &Bound<'_, PyAny>,
        sslpeer: &Bound<'_, PyAny>,
        future: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (review, order) = from_python_in_order(review)?;
        let mut incoming = Incoming::new(review);
        incoming.order = order;
        incoming.webhook = webhook;
        if !headers.is_none() {
            for pair in headers.call_method0("items")?.try_iter()? {
                let (name, value): (String, String) = pair?.extract()?;
                incoming.headers.insert(name, value);
            }
        }
        if !sslpeer.is_none() {
            incoming.sslpeer = Some(from_python(sslpeer)?);
        }
        let (operator, front) = (Arc::clone(&self.operator), Arc::clone(&self.front));
        let (py, future) = (future.py(), future.unbind());
        let awaited = future.clone_ref(py);
        self.front.host_for(py, &awaited, async move {
            let result = operator.review(incoming).await;
            let result = result.map_err(|refusal| {
                let kind = match refusal {
                    Refusal::Ambiguous(_) => "ambiguous",
                    Refusal::Unknown(_) | Refusal::UnknownHandler(_) => "unknown",
                    Refusal::Missing(_) => "missing",
                    _ => "internal",
                };
                Failure::Other(kind, refusal.to_string())
            });
            resolve(&front, &future, result);
        })
    }

    /// Detects a local cluster. Resolves the future with the name of this machine in it.
    fn guess_host(&self, py: Python<'_>, future: Py<PyAny>) -> PyResult<()> {
        let (operator, front) = (Arc::clone(&self.operator), Arc::clone(&self.front));
        let awaited = future.clone_ref(py);
        self.front.host_for(py, &awaited, async move {
            let host = kopf_webhooks::guess_host(&*operator).await;
            resolve(&front, &future, Ok(host.into()));
        })
    }

    /// Resolves the future with the namespace of the operator, or `None`.
    fn namespace(&self, future: Py<PyAny>) {
        let (operator, front) = (Arc::clone(&self.operator), Arc::clone(&self.front));
        self.front.host(async move {
            let namespace = operator.namespace().await;
            resolve(&front, &future, Ok(namespace.into()));
        });
    }

    /// `True` if servers without an address must listen on the loopback interface only.
    #[getter]
    fn is_loopback(&self) -> bool {
        self.operator.is_loopback()
    }

    /// Announces a client config.
    fn announce(&self, config: &Bound<'_, PyAny>) -> PyResult<()> {
        let config: ClientConfig = serde_json::from_value(from_python(config)?)
            .map_err(|error| PyValueError::new_err(format!("invalid client config: {error}")))?;
        self.operator.announce(config);
        Ok(())
    }

    /// Ends the server, with an error unless it was cancelled, and with its exception if it raised
    /// one.
    #[pyo3(signature = (error, exception=None))]
    fn finish(&self, error: Option<String>, exception: Option<Py<PyAny>>) {
        let error: Option<ServerError> = error.map(|text| match exception {
            Some(exception) => Raised::of(exception, text).into(),
            None => text.into(),
        });
        if let Some(done) = self.done.lock().take() {
            let _ = done.send(error);
        }
    }
}

/// A native server inside a server of a user.
#[pyclass(frozen, name = "NativeWebhookServer", module = "kopf._kopf")]
pub(crate) struct NativeServer {
    server: Mutex<Option<Server>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    ended: Arc<Mutex<Option<Py<PyAny>>>>,
}

#[pymethods]
impl NativeServer {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Self {
            server: Mutex::new(Some(native("server", options)?)),
            stop: Mutex::default(),
            ended: Arc::default(),
        })
    }

    /// Starts the server for the operator. Returns a future of the client config.
    #[pyo3(signature = (function, serving=None))]
    fn start(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        serving: Option<&Bound<'_, PyServing>>,
    ) -> PyResult<Py<PyAny>> {
        let front = Front::current(py)?;
        let new_future = || front.bridge.call_method0(py, "new_future");
        let (announced, ended) = (new_future()?, new_future()?);
        let result = announced.clone_ref(py);
        *self.ended.lock() = Some(ended.clone_ref(py));
        let Some(server) = self.server.lock().take() else {
            return Err(PyValueError::new_err("the server is already started"));
        };
        let (sender, receiver) = oneshot::channel::<()>();
        *self.stop.lock() = Some(sender);
        let forwarding = Arc::new(Forwarding {
            front: Arc::clone(&front),
            function: Arc::new(function),
            operator: serving.map(|serving| Arc::clone(&serving.get().operator)),
            announced: Mutex::new(Some(announced)),
        });
        let shutdown: Shutdown = Box::pin(async move {
            let _ = receiver.await;
        });
        let serving = Arc::clone(&forwarding);
        let owner = Arc::clone(&front);
        let is_running = front.host(async move {
            let served = Arc::new(server).serve(serving, shutdown).await;
            if let (Err(error), Some(future)) = (&served, forwarding.announced.lock().take()) {
                let failure = Failure::Other("internal", error.to_string());
                resolve(&owner, &future, Err(failure));
            }
            resolve(&owner, &ended, Ok(Value::Null));
        });
        if !is_running {
            return Err(PyRuntimeError::new_err("the operator has ended"));
        }
        Ok(result)
    }

    /// Stops the server. Returns a future.
    fn stop(&self) -> PyResult<Py<PyAny>> {
        if let Some(stop) = self.stop.lock().take() {
            let _ = stop.send(());
        }
        let ended = self.ended.lock().take();
        ended.ok_or_else(|| PyValueError::new_err("the server is not started"))
    }
}

/// Forwards requests of a native server to a Python function.
struct Forwarding {
    front: Arc<Front>,
    function: Arc<Py<PyAny>>,
    /// The operator whose server of a user this one is a part of.
    operator: Option<Arc<dyn Serving>>,
    announced: Mutex<Option<Py<PyAny>>>,
}

impl Serving for Forwarding {
    fn review(&self, incoming: Incoming) -> BoxFuture<'_, Result<Value, Refusal>> {
        let (sender, receiver) = oneshot::channel();
        let (front, function) = (Arc::clone(&self.front), Arc::clone(&self.function));
        self.front.queue.push(Entry::Run(Box::new(move |py| {
            let answer = Answer(Mutex::new(Some(sender)));
            if let Err(error) = ask(py, &front, &function, incoming, answer) {
                error.write_unraisable(py, None);
            }
        })));
        async move {
            let lost = |_| Err(Refusal::Internal("the event loop has ended".to_owned()));
            receiver.await.unwrap_or_else(lost)
        }
        .boxed()
    }

    fn announce(&self, config: ClientConfig) {
        // Only the first config is used: the owner watches the certificates of this server.
        if let Some(future) = self.announced.lock().take() {
            let front = Arc::clone(&self.front);
            let config = serde_json::to_value(config).unwrap_or_default();
            self.front.queue.push(Entry::Run(Box::new(move |_| {
                resolve(&front, &future, Ok(config));
            })));
        }
    }

    fn keeps_key_order(&self) -> bool {
        true
    }

    fn api_certificate(&self) -> BoxFuture<'_, Option<Vec<u8>>> {
        async { None }.boxed()
    }

    fn api_version(&self) -> BoxFuture<'_, Option<Value>> {
        async { None }.boxed()
    }

    fn namespace(&self) -> BoxFuture<'_, Option<String>> {
        match &self.operator {
            Some(operator) => operator.namespace(),
            None => async { None }.boxed(),
        }
    }

    fn is_loopback(&self) -> bool {
        let operator = self.operator.as_ref();
        operator.is_some_and(|operator| operator.is_loopback())
    }
}

fn ask(
    py: Python<'_>,
    front: &Arc<Front>,
    function: &Py<PyAny>,
    incoming: Incoming,
    answer: Answer,
) -> PyResult<()> {
    let review = to_python_in_order(py, &incoming.review, incoming.order.as_deref())?;
    let sslpeer = incoming.sslpeer.unwrap_or_default();
    let arguments = (
        function,
        review,
        incoming.webhook,
        incoming.headers,
        to_python(py, &sslpeer)?,
        answer,
    );
    front.bridge.call_method1(py, "review", arguments)?;
    Ok(())
}

/// The response of a Python function to a review.
#[pyclass(frozen, module = "kopf._kopf")]
pub(crate) struct Answer(Mutex<Option<oneshot::Sender<Result<Value, Refusal>>>>);

#[pymethods]
impl Answer {
    /// Sends a response.
    fn respond(&self, response: &Bound<'_, PyAny>) -> PyResult<()> {
        let response = from_python(response)?;
        self.send(Ok(response));
        Ok(())
    }

    /// Rejects the request with the kind of the refusal and a message.
    fn refuse(&self, kind: &str, message: String) {
        self.send(Err(match kind {
            "ambiguous" => Refusal::Ambiguous(message),
            "unknown" => Refusal::Unknown(message),
            "missing" => Refusal::Missing(message),
            _ => Refusal::Internal(message),
        }));
    }
}

impl Answer {
    fn send(&self, result: Result<Value, Refusal>) {
        if let Some(sender) = self.0.lock().take() {
            let _ = sender.send(result);
        }
    }
}

/// Checks the Service of a server: its name (`NAME` or `NAMESPACE/NAME`), port and root path.
#[pyfunction]
pub(crate) fn check_webhook_service(name: &str, port: u16, path: Option<&str>) -> PyResult<()> {
    let invalid = |error: InvalidService| PyValueError::new_err(error.to_string());
    // Any namespace will do for the check of a name without one.
    let service = ServiceReference::new(name, port, "default").map_err(invalid)?;
    let checked = service.with_path(path.unwrap_or_default());
    checked.map(drop).map_err(invalid)
}

/// A Service, the names of its certificate, and the default port of the server.
type AnnouncedService<'py> = (Bound<'py, PyAny>, [String; 3], u16);

/// Returns what a server with these options announces instead of a URL: the Service, the names of its
/// certificate, and the default port of the server. `None` for a URL.
#[pyfunction]
pub(crate) fn announced_webhook_service<'py>(
    py: Python<'py>,
    options: &Bound<'py, PyDict>,
    namespace: Option<&str>,
    is_local: bool,
) -> PyResult<Option<AnnouncedService<'py>>> {
    let invalid = |text: String| PyValueError::new_err(text);
    let service = native("server", options)?.announced_service(namespace, is_local);
    let Some(service) = service.map_err(|error| invalid(error.to_string()))? else {
        return Ok(None);
    };
    let path = get::<String>(options, "path")?.unwrap_or_default();
    let service = service.with_path(&path);
    let service = service.map_err(|error| invalid(error.to_string()))?;
    let names = service.dns_names();
    let reference = serde_json::to_value(service).map_err(|error| invalid(error.to_string()))?;
    Ok(Some((to_python(py, &reference)?, names, SERVER_PORT)))
}

/// Returns a certificate for these names with its authority, and its private key, in PEM.
#[pyfunction]
#[pyo3(signature = (hostnames, password=None))]
pub(crate) fn build_certificate(
    py: Python<'_>,
    hostnames: Vec<String>,
    password: Option<String>,
) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
    if password.is_some() {
        let text = "generated private keys are not encrypted: do not set a password";
        return Err(PyValueError::new_err(text));
    }
    let built = kopf_webhooks::build_certificate(&hostnames);
    let (certificate, key) = built.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let bytes = |text: String| PyBytes::new(py, text.as_bytes()).unbind();
    Ok((bytes(certificate), bytes(key)))
}
