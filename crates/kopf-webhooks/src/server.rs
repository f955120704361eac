//! The standard server: it listens on this machine, over TLS.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::admission::{
    SERVICE_VARIABLE, ServerError, ServiceReference, Serving, Shutdown, WebhookServer,
};
use rustls::ServerConfig;
use tracing::debug;

use crate::detection::{DOCKER_DESKTOP, K3D, MINIKUBE, guess_host};
use crate::endpoint::{Announcement, Endpoint, EndpointOptions, FILE_CHECK_INTERVAL, Place};
use crate::tls::Options;
use crate::{Error, Limits, Verify};

/// Address of servers that only this machine can reach.
const LOOPBACK: &str = "127.0.0.1";

/// Namespace of an operator whose credentials have none, as in kubectl.
const NAMESPACE: &str = "default";

/// A webhook server on this machine, over HTTPS by default.
///
/// Without options, it listens on all interfaces at a free port with a generated certificate, and is
/// announced as `localhost`. The constructors differ only in the announced address: [`Server::k3d`],
/// [`Server::minikube`], [`Server::docker_desktop`], [`Server::auto`], which detects it, and
/// [`Server::service`].
///
/// # In a cluster
///
/// API servers reach pods through a Service. The pods of generated manifests have the environment
/// variable `KOPF_WEBHOOK_SERVICE` with the namespace, the name and the port of theirs
/// (`NAMESPACE/NAME:PORT`). Every server without [`Server::host`] announces that Service and listens on
/// port 9443, to which the Service leads. [`Server::service`] names another one.
///
/// If the operator runs with a [local API server](kopf_core::settings::Admission::loopback), there is no
/// Service in front of it, and the address of the server is announced instead.
///
/// ```
/// use std::sync::Arc;
///
/// use kopf_core::settings::Settings;
/// use kopf_webhooks::Server;
///
/// let mut settings = Settings::default();
/// let server = Server::new()
///     .addr("0.0.0.0")
///     .port(9443)
///     .host("operator.example.com")
///     .certfile("/certs/tls.crt")
///     .pkeyfile("/certs/tls.key")
///     .cafile("/certs/ca.crt");
/// settings.admission.server = Some(Arc::new(server));
/// ```
#[derive(Clone)]
pub struct Server {
    options: EndpointOptions,
    host: Option<String>,
    default_place: DefaultPlace,
}

/// Announced address, if the option `host` is not set.
#[derive(Clone, Debug)]
enum DefaultPlace {
    /// By the listening address.
    Address,
    /// A known name in this kind of clusters.
    Known(Cow<'static, str>),
    /// Detected by the API server.
    Detected,
    /// A Service: `NAME` or `NAMESPACE/NAME`, and its port.
    Service(String, u16),
}

/// Returns the place of this machine in the cluster, if it is a known local one.
async fn detected(operator: &dyn Serving) -> Place {
    let Some(host) = guess_host(operator).await else {
        debug!("Cluster detection failed, running a simple local server.");
        return Place::Address;
    };
    debug!("Cluster detection found the hostname: {host}");
    Place::Host(host.to_owned())
}

/// Returns the Service of this pod, as generated manifests define it. An empty variable counts as unset.
///
/// # Errors
///
/// The value is malformed.
pub(crate) fn pod_service() -> Result<Option<ServiceReference>, Error> {
    match std::env::var_os(SERVICE_VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) => Ok(Some(ServiceReference::from_variable(
            &value.to_string_lossy(),
        )?)),
        None => Ok(None),
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Creates a server that is announced by its address, or by [`Server::host`].
    pub fn new() -> Self {
        Self::with(DefaultPlace::Address)
    }

    /// Creates a server for K3d and K3s in Docker, announced as `host.k3d.internal`.
    pub fn k3d() -> Self {
        Self::with(DefaultPlace::Known(K3D.into()))
    }

    /// Creates a server for Minikube, announced as `host.minikube.internal`.
    pub fn minikube() -> Self {
        Self::with(DefaultPlace::Known(MINIKUBE.into()))
    }

    /// Creates a server for Docker Desktop, announced as `host.docker.internal`.
    pub fn docker_desktop() -> Self {
        Self::with(DefaultPlace::Known(DOCKER_DESKTOP.into()))
    }

    /// Creates a server that detects these clusters by the API server's certificate or version.
    /// Otherwise it is announced by its address.
    pub fn auto() -> Self {
        Self::with(DefaultPlace::Detected)
    }

    /// Creates a server behind a Service of the cluster, which is announced instead of a URL.
    ///
    /// The name is `NAME` for a Service in the namespace of the operator, or `NAMESPACE/NAME`; the port is
    /// that of the Service. The server listens on port 9443 unless [`Server::port`] is set, and the
    /// generated certificate is for the names of the Service. An invalid name or port fails the start, as
    /// does [`Server::host`].
    ///
    /// ```
    /// use kopf_webhooks::Server;
    ///
    /// let server = Server::service("my-operator", 443);
    /// let server = Server::service("operators/my-operator", 443).path("/hooks");
    /// # let _ = server;
    /// ```
    pub fn service(name: impl Into<String>, port: u16) -> Self {
        Self::with(DefaultPlace::Service(name.into(), port))
    }

    fn with(default_place: DefaultPlace) -> Self {
        Self {
            options: EndpointOptions {
                addr: None,
                port: None,
                path: None,
                place: Place::Address,
                tls: Options::default(),
                file_check_interval: FILE_CHECK_INTERVAL,
                limits: Limits::default(),
            },
            host: None,
            default_place,
        }
    }

    /// Sets the address or host name to listen on. Default: all interfaces; with
    /// `settings.admission.loopback`, `127.0.0.1`.
    #[must_use]
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.options.addr = Some(addr.into());
        self
    }

    /// Sets the port to listen on; 0 for any free port. Default: 9443 behind a Service, otherwise 0.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = Some(port);
        self
    }

    /// Sets the root path of all webhooks. Default: none. Behind a Service, API servers accept only segments
    /// of lower-case letters, digits, dashes and dots.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.options.path = Some(path.into());
        self
    }

    /// Sets the host name of this machine for API servers, also in the generated certificate. Default: the
    /// address.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Sets the host name to announce unless [`Server::host`] or a Service is.
    #[doc(hidden)] // For servers of the Python frontend.
    #[must_use]
    pub fn default_host(mut self, host: impl Into<String>) -> Self {
        if !matches!(self.default_place, DefaultPlace::Service(..)) {
            self.default_place = DefaultPlace::Known(Cow::Owned(host.into()));
        }
        self
    }

    /// Sets the CA bundle for API servers in PEM, instead of [`Server::cafile`].
    #[must_use]
    pub fn cadata(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.options.tls.cadata = Some(pem.into());
        self
    }

    /// Sets the file with the CA bundle for API servers. Default: [`Server::certfile`]. Ignored for
    /// generated certificates.
    #[must_use]
    pub fn cafile(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls.cafile = Some(path.into());
        self
    }

    /// Sets the file to write the CA bundle to, such as for `curl --cacert`.
    #[must_use]
    pub fn cadump(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls.cadump = Some(path.into());
        self
    }

    /// Sets the TLS configuration. It excludes the options for certificates and for the verification of
    /// clients. HTTP/2 needs `h2` among its ALPN protocols.
    #[must_use]
    pub fn context(mut self, context: Arc<ServerConfig>) -> Self {
        self.options.tls.context = Some(context);
        self
    }

    /// Serves plain HTTP, for tunnels and experiments. API servers require HTTPS.
    #[must_use]
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.options.tls.insecure = insecure;
        self
    }

    /// Sets the file with the certificate in PEM, followed by those of intermediate CAs. Default: a
    /// generated certificate.
    #[must_use]
    pub fn certfile(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls.certfile = Some(path.into());
        self
    }

    /// Sets the file with the private key of the certificate in PEM.
    #[must_use]
    pub fn pkeyfile(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls.pkeyfile = Some(path.into());
        self
    }

    /// Sets the password of the private key: PKCS #8 with PBES2 (PBKDF2 and AES-CBC), as encrypted by
    /// OpenSSL 3.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.options.tls.password = Some(password.into());
        self
    }

    /// Adds names and addresses to the generated certificate.
    #[must_use]
    pub fn extra_sans<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into);
        self.options.tls.extra_sans.extend(names);
        self
    }

    /// Sets the verification of client certificates. Default: optional with a CA bundle for clients,
    /// otherwise none.
    #[must_use]
    pub fn verify_mode(mut self, mode: Verify) -> Self {
        self.options.tls.verify_mode = Some(mode);
        self
    }

    /// Sets the file with the CA bundle for clients, in PEM.
    #[must_use]
    pub fn verify_cafile(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls.verify_cafile = Some(path.into());
        self
    }

    /// Sets the folder with CA files for clients, in PEM.
    #[must_use]
    pub fn verify_capath(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls.verify_capath = Some(path.into());
        self
    }

    /// Sets the CA bundle for clients, in PEM.
    #[must_use]
    pub fn verify_cadata(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.options.tls.verify_cadata = Some(pem.into());
        self
    }

    /// Sets the interval for checking the files. Default: 60 seconds.
    ///
    /// If they have changed, new connections use the new certificate, and the new CA bundle is
    /// announced; a new CA is announced 30 seconds before. Requests under way are finished.
    #[must_use]
    pub fn file_check_interval(mut self, interval: Duration) -> Self {
        self.options.file_check_interval = interval;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    async fn open(&self, operator: &dyn Serving) -> Result<Endpoint, Error> {
        let mut options = self.options.clone();
        let is_local = operator.is_loopback() && options.addr.is_none();
        if is_local {
            options.addr = Some(LOOPBACK.to_owned());
        }
        options.place = self.place(operator, is_local).await?;
        Endpoint::open(&options, operator.certificate_store()).await
    }

    /// Returns the place to announce: what the options say, the Service of this pod, or the default.
    async fn place(&self, operator: &dyn Serving, is_local: bool) -> Result<Place, Error> {
        let namespace = match &self.default_place {
            DefaultPlace::Service(name, _) if !name.contains('/') => operator.namespace().await,
            _ => None,
        };
        let service = self.announced_service(namespace.as_deref(), is_local)?;
        Ok(match (service, &self.host, &self.default_place) {
            (Some(service), ..) => Place::Service(service),
            (None, Some(host), _) => Place::Host(host.clone()),
            // The names of other machines would not lead to this interface.
            (None, None, _) if is_local => Place::Address,
            (None, None, DefaultPlace::Address | DefaultPlace::Service(..)) => Place::Address,
            (None, None, DefaultPlace::Known(host)) => Place::Host(host.to_string()),
            (None, None, DefaultPlace::Detected) => detected(operator).await,
        })
    }

    /// Returns the Service to announce: that of [`Server::service`], otherwise that of this pod unless
    /// the options say something else. `None` to announce a URL: always so if the API server is local.
    ///
    /// # Errors
    ///
    /// The Service is invalid, or other options exclude it.
    #[doc(hidden)] // For servers of the Python frontend.
    pub fn announced_service(
        &self,
        namespace: Option<&str>,
        is_local: bool,
    ) -> Result<Option<ServiceReference>, Error> {
        let is_insecure = self.options.tls.insecure;
        let service = match &self.default_place {
            DefaultPlace::Service(..) if self.host.is_some() => {
                return Err(Error::Options(
                    "a service excludes a host: API servers reach the server by only one of them",
                ));
            }
            DefaultPlace::Service(..) if is_insecure => {
                return Err(Error::Options(
                    "a service excludes insecure mode: API servers reach services over HTTPS",
                ));
            }
            DefaultPlace::Service(name, port) => {
                let namespace = namespace.unwrap_or(NAMESPACE);
                Some(ServiceReference::new(name, *port, namespace)?)
            }
            _ if self.host.is_some() || is_insecure || is_local => None,
            _ => pod_service()?,
        };
        Ok(service.filter(|_| !is_local))
    }

    async fn run(&self, operator: Arc<dyn Serving>, mut shutdown: Shutdown) -> Result<(), Error> {
        let endpoint = tokio::select! {
            opened = self.open(&*operator) => opened?,
            () = &mut shutdown => return Ok(()),
        };
        endpoint
            .serve(operator, Announcement::OwnAddress, shutdown)
            .await;
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addr", &self.options.addr)
            .field("port", &self.options.port)
            .field("path", &self.options.path)
            .field("host", &self.host)
            .field("default_place", &self.default_place)
            .field("tls", &self.options.tls)
            .finish_non_exhaustive()
    }
}

impl WebhookServer for Server {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        Box::pin(async move { Ok(self.run(operator, shutdown).await?) })
    }
}
