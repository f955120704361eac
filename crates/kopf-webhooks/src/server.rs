//! The standard server: it listens on this machine, over TLS.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::admission::{ServerError, Serving, Shutdown, WebhookServer};
use rustls::ServerConfig;
use tracing::debug;

use crate::detection::{DOCKER_DESKTOP, K3D, MINIKUBE, guess_host};
use crate::endpoint::{Announcement, Endpoint, EndpointOptions, FILE_CHECK_INTERVAL};
use crate::tls::Options;
use crate::{Error, Limits, Verify};

/// Address of servers that only this machine can reach.
const LOOPBACK: &str = "127.0.0.1";

/// A webhook server on this machine, over HTTPS by default.
///
/// Without options, it listens on all interfaces at a free port with a generated certificate, and is
/// announced as `localhost`. The constructors differ only in the announced host: [`Server::k3d`],
/// [`Server::minikube`], [`Server::docker_desktop`], and [`Server::auto`], which detects it.
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
    default_host: DefaultHost,
}

/// Announced host, if the option `host` is not set.
#[derive(Clone, Copy, Debug)]
enum DefaultHost {
    /// By the listening address.
    Address,
    /// A known name in this kind of clusters.
    Known(&'static str),
    /// Detected by the API server.
    Detected,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Creates a server that is announced by its address, or by [`Server::host`].
    pub fn new() -> Self {
        Self::with(DefaultHost::Address)
    }

    /// Creates a server for K3d and K3s in Docker, announced as `host.k3d.internal`.
    pub fn k3d() -> Self {
        Self::with(DefaultHost::Known(K3D))
    }

    /// Creates a server for Minikube, announced as `host.minikube.internal`.
    pub fn minikube() -> Self {
        Self::with(DefaultHost::Known(MINIKUBE))
    }

    /// Creates a server for Docker Desktop, announced as `host.docker.internal`.
    pub fn docker_desktop() -> Self {
        Self::with(DefaultHost::Known(DOCKER_DESKTOP))
    }

    /// Creates a server that detects these clusters by the API server's certificate or version.
    /// Otherwise it is announced by its address.
    pub fn auto() -> Self {
        Self::with(DefaultHost::Detected)
    }

    fn with(default_host: DefaultHost) -> Self {
        Self {
            options: EndpointOptions {
                addr: None,
                port: 0,
                path: None,
                host: None,
                tls: Options::default(),
                file_check_interval: FILE_CHECK_INTERVAL,
                limits: Limits::default(),
            },
            default_host,
        }
    }

    /// Sets the address or host name to listen on. Default: all interfaces; with
    /// `settings.admission.loopback`, `127.0.0.1`.
    #[must_use]
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.options.addr = Some(addr.into());
        self
    }

    /// Sets the port to listen on. Default: 0, any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = port;
        self
    }

    /// Sets the root path of all webhooks. Default: none.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.options.path = Some(path.into());
        self
    }

    /// Sets the host name of this machine for API servers, also in the generated certificate. Default: the
    /// address.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.options.host = Some(host.into());
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
        options.host = match (options.host, self.default_host) {
            (Some(host), _) => Some(host),
            // The names of other machines would not lead to this interface.
            (None, _) if is_local => None,
            (None, DefaultHost::Address) => None,
            (None, DefaultHost::Known(host)) => Some(host.to_owned()),
            (None, DefaultHost::Detected) => {
                let host = guess_host(operator).await;
                if let Some(host) = host {
                    debug!("Cluster detection found the hostname: {host}");
                } else {
                    debug!("Cluster detection failed, running a simple local server.");
                }
                host.map(str::to_owned)
            }
        };
        Endpoint::open(&options, operator.certificate_store()).await
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
            .field("host", &self.options.host)
            .field("default_host", &self.default_host)
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
