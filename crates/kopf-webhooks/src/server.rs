//! The usual server: it listens on this machine, over TLS.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::admission::{ServerError, Serving, Shutdown, WebhookServer};
use rustls::ServerConfig;
use tracing::debug;

use crate::detection::{DOCKER_DESKTOP, K3D, MINIKUBE, guess_host};
use crate::endpoint::{Announcement, Endpoint, FILE_CHECK_INTERVAL, Plan};
use crate::tls::Options;
use crate::{Error, Limits, Verify};

/// A webhook server on this machine, over HTTPS unless it is told otherwise.
///
/// Without options, it listens on all interfaces at a free port, with a certificate that it makes for
/// itself, and the API server is told to reach it at `localhost`. The constructors differ only in
/// what this machine is called: [`Server::k3d`], [`Server::minikube`], [`Server::docker_desktop`],
/// and [`Server::auto`], which finds out.
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
    plan: Plan,
    default_host: DefaultHost,
}

/// What this machine is called if the user does not say it.
#[derive(Clone, Copy, Debug)]
enum DefaultHost {
    /// As by its address.
    Address,
    /// As in this kind of clusters.
    Known(&'static str),
    /// As in the cluster that is found.
    Detected,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// A server that is reached by its address, or by [`Server::host`].
    pub fn new() -> Self {
        Self::with(DefaultHost::Address)
    }

    /// A server for K3d and K3s in Docker: the cluster reaches this machine as `host.k3d.internal`.
    pub fn k3d() -> Self {
        Self::with(DefaultHost::Known(K3D))
    }

    /// A server for Minikube: the cluster reaches this machine as `host.minikube.internal`.
    pub fn minikube() -> Self {
        Self::with(DefaultHost::Known(MINIKUBE))
    }

    /// A server for Docker Desktop: the cluster reaches this machine as `host.docker.internal`.
    pub fn docker_desktop() -> Self {
        Self::with(DefaultHost::Known(DOCKER_DESKTOP))
    }

    /// A server that finds out which of these clusters it is for, by the API server's certificate or
    /// version; if it is none of them, it is reached by its address.
    pub fn auto() -> Self {
        Self::with(DefaultHost::Detected)
    }

    fn with(default_host: DefaultHost) -> Self {
        Self {
            plan: Plan {
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

    /// Where to listen: an address, or a name of this machine. Default: on all interfaces.
    #[must_use]
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.plan.addr = Some(addr.into());
        self
    }

    /// The port to listen at; 0 is any that is free, and the default.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.plan.port = port;
        self
    }

    /// The path that all webhooks are under. Default: none.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.plan.path = Some(path.into());
        self
    }

    /// What API servers call this machine; the certificate that is made has this name. Default: the
    /// address.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.plan.host = Some(host.into());
        self
    }

    /// The CA bundle in PEM that API servers verify the server with, instead of one from a file.
    #[must_use]
    pub fn cadata(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.plan.tls.cadata = Some(pem.into());
        self
    }

    /// The file with the CA bundle that API servers verify the server with. Default: what is in
    /// [`Server::certfile`]. If the server makes its own certificate, it knows the CA better.
    #[must_use]
    pub fn cafile(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.tls.cafile = Some(path.into());
        self
    }

    /// The file to write the CA bundle to, such as for `curl --cacert`.
    #[must_use]
    pub fn cadump(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.tls.cadump = Some(path.into());
        self
    }

    /// Everything about TLS of the server's side, ready to be used. It excludes the options for
    /// certificates and for the verification of clients. Without `h2` among its ALPN protocols,
    /// only HTTP/1.1 is spoken.
    #[must_use]
    pub fn context(mut self, context: Arc<ServerConfig>) -> Self {
        self.plan.tls.context = Some(context);
        self
    }

    /// Speaks plain HTTP. API servers refuse that; it is for tunnels, and for experiments with curl.
    #[must_use]
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.plan.tls.insecure = insecure;
        self
    }

    /// The file with the server's certificate in PEM, and with those of intermediate authorities
    /// after it. Default: the server makes a certificate.
    #[must_use]
    pub fn certfile(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.tls.certfile = Some(path.into());
        self
    }

    /// The file with the private key of the certificate in PEM.
    #[must_use]
    pub fn pkeyfile(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.tls.pkeyfile = Some(path.into());
        self
    }

    /// The password of the private key, if it has one: in PKCS #8 with PBES2 (PBKDF2 and AES-CBC),
    /// as OpenSSL 3 encrypts keys.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.plan.tls.password = Some(password.into());
        self
    }

    /// Other names and addresses that the certificate is for that the server makes.
    #[must_use]
    pub fn extra_sans<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let names = names.into_iter().map(Into::into);
        self.plan.tls.extra_sans.extend(names);
        self
    }

    /// Whether clients have to show certificates. Default: they do not, but they can if there is an
    /// authority to verify them with.
    #[must_use]
    pub fn verify_mode(mut self, mode: Verify) -> Self {
        self.plan.tls.verify_mode = Some(mode);
        self
    }

    /// The file with the authorities that vouch for clients, in PEM.
    #[must_use]
    pub fn verify_cafile(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.tls.verify_cafile = Some(path.into());
        self
    }

    /// The folder with the authorities that vouch for clients: files in PEM.
    #[must_use]
    pub fn verify_capath(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.tls.verify_capath = Some(path.into());
        self
    }

    /// The authorities that vouch for clients, in PEM.
    #[must_use]
    pub fn verify_cadata(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.plan.tls.verify_cadata = Some(pem.into());
        self
    }

    /// How often to look whether the files have changed. Default: every minute.
    ///
    /// If they have, new connections are made with the new certificate, and the API server is told
    /// the new CA bundle; if that has other authorities, 30 seconds before. Requests under way are
    /// not interrupted.
    #[must_use]
    pub fn file_check_interval(mut self, interval: Duration) -> Self {
        self.plan.file_check_interval = interval;
        self
    }

    /// How much of everything is spent on clients.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.plan.limits = limits;
        self
    }

    async fn open(&self, operator: &dyn Serving) -> Result<Endpoint, Error> {
        let mut plan = self.plan.clone();
        plan.host = match (plan.host, self.default_host) {
            (Some(host), _) => Some(host),
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
        Endpoint::open(&plan).await
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
            .field("addr", &self.plan.addr)
            .field("port", &self.plan.port)
            .field("path", &self.plan.path)
            .field("host", &self.plan.host)
            .field("default_host", &self.default_host)
            .field("tls", &self.plan.tls)
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
