//! A listening server: its sockets, its certificate, and its address.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_core::admission::{
    CertificateStore, ClientConfig, SERVER_PORT, ServiceReference, Serving, Shutdown,
};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::address::{accessible, alternative, listened, name, url};
use crate::http::{ConnectionConfig, Connections, Listening, Responder, Route};
use crate::tls::{Bundle, Material, Options, Source};
use crate::{Error, Limits};

/// Delay after a connection could not be accepted.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Time for new certificate authorities to reach all API servers, through the webhook configurations.
/// Certificates of new authorities are not used before.
const SPREADING: Duration = Duration::from_secs(30);

/// Default interval for checking the files.
pub(crate) const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Time for requests under way when the server stops. The operator waits for 5 seconds.
const STOPPING: Duration = Duration::from_secs(2);

/// Announcement of the address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// The server announces its own address.
    OwnAddress,
    /// A tunnel announces its address instead.
    ByTunnel,
}

/// The place at which API servers reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A URL with the listening address.
    Address,
    /// A URL with this host name.
    Host(String),
    /// A Service in the cluster, without the path.
    Service(ServiceReference),
}

/// Options of a server.
#[derive(Clone, Debug)]
pub(crate) struct EndpointOptions {
    pub(crate) addr: Option<String>,
    /// Port to listen on; 0 for any free one. By default, the one that Services of generated manifests
    /// lead to, or any free one without a Service.
    pub(crate) port: Option<u16>,
    pub(crate) path: Option<String>,
    pub(crate) place: Place,
    pub(crate) tls: Options,
    pub(crate) file_check_interval: Duration,
    pub(crate) limits: Limits,
}

/// A server that listens, and does not accept connections yet.
pub(crate) struct Endpoint {
    listening: Listening,
    source: Source,
    material: Material,
    route: Route,
    announced: Announced,
    limits: Limits,
}

/// The announced address of a server, without its port and path.
enum Announced {
    Host(String),
    Service(ServiceReference),
}

impl Endpoint {
    /// Loads certificates and binds the sockets.
    ///
    /// A generated certificate is shared through the store, if there is one.
    pub(crate) async fn open(
        options: &EndpointOptions,
        store: Option<Arc<dyn CertificateStore>>,
    ) -> Result<Self, Error> {
        let addr = listened(options.addr.as_deref())?;
        let route = Route::new(options.path.as_deref())?;
        let accessible = accessible(addr);
        let (announced, mut names) = match &options.place {
            Place::Service(service) => {
                let service = service.clone().with_path(route.as_str())?;
                let names = service.dns_names().to_vec();
                (Announced::Service(service), names)
            }
            Place::Host(host) => {
                let host = name("host", host)?.unwrap_or_else(|| accessible.clone());
                (Announced::Host(host.clone()), vec![host])
            }
            Place::Address => (Announced::Host(accessible.clone()), Vec::new()),
        };
        let default_port = match &announced {
            Announced::Service(_) => SERVER_PORT,
            Announced::Host(_) => 0,
        };
        names.push(accessible);
        for given in &options.tls.extra_sans {
            names.extend(alternative(given)?);
        }
        let source = Source::new(
            options.tls.clone(),
            names,
            options.file_check_interval,
            store,
        );
        let material = source.load().await?;
        let listening = Listening::bind(addr, options.port.unwrap_or(default_port)).await?;
        let endpoint = Self {
            listening,
            source,
            material,
            route,
            announced,
            limits: options.limits.clone(),
        };
        let heard = endpoint.url(addr.unwrap_or("*"));
        debug!("Listening for webhooks at {heard}");
        Ok(endpoint)
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.listening.port()
    }

    /// Returns the root path of the webhooks.
    pub(crate) fn path(&self) -> &str {
        self.route.as_str()
    }

    /// Returns the address and the CA bundle for API servers.
    fn client_config(&self, bundle: Option<&Bundle>) -> ClientConfig {
        let ca_bundle = bundle.map(|bundle| STANDARD.encode(bundle.pem()));
        match &self.announced {
            Announced::Host(host) => {
                let url = self.url(host);
                debug!("Accessing the webhooks at {url}");
                ClientConfig {
                    url: Some(url),
                    ca_bundle,
                    ..ClientConfig::default()
                }
            }
            Announced::Service(service) => {
                debug!("Accessing the webhooks at the service {service}");
                ClientConfig {
                    service: Some(service.clone()),
                    ca_bundle,
                    ..ClientConfig::default()
                }
            }
        }
    }

    fn url(&self, host: &str) -> String {
        let scheme = match self.material.config {
            Some(_) => "https",
            None => "http",
        };
        url(scheme, host, self.port(), self.route.as_str())
    }

    /// Serves until `shutdown` resolves, and announces the address: at first, and when certificates
    /// are replaced. Connections with the old certificate are closed between requests.
    ///
    /// At the shutdown, the port is closed, and requests under way get [`STOPPING`] to end.
    pub(crate) async fn serve(
        mut self,
        operator: Arc<dyn Serving>,
        announcement: Announcement,
        mut shutdown: Shutdown,
    ) {
        let responder = Responder::new(
            Arc::clone(&operator),
            self.route.clone(),
            self.limits.clone(),
        );
        let announcer = match announcement {
            Announcement::OwnAddress => Some(operator),
            Announcement::ByTunnel => None,
        };
        let mut acceptor = Acceptor::new(&self.limits, responder);
        tokio::select! {
            () = &mut shutdown => {}
            never = self.run(&mut acceptor, announcer.as_deref()) => match never {},
        }
        let Self { listening, .. } = self;
        drop(listening);
        acceptor.stop().await;
    }

    async fn run(
        &mut self,
        acceptor: &mut Acceptor,
        announcer: Option<&dyn Serving>,
    ) -> Infallible {
        self.announce(announcer, self.material.bundle.as_ref());
        loop {
            let renewing = self.source.renewed(&self.material);
            let renewed = acceptor.until(&self.listening, &self.material, renewing);
            let renewed = renewed.await;
            if let Some(both) = renewed.bridge_from(&self.material) {
                debug!("Announcing the authorities of the renewed SSL certificate files.");
                self.announce(announcer, Some(&both));
                self.dump(Some(&both)).await;
                let spreading = tokio::time::sleep(SPREADING + self.source.notice_time());
                let spread = acceptor.until(&self.listening, &self.material, spreading);
                spread.await;
            }
            debug!("Using the renewed SSL certificate files.");
            self.material = renewed;
            acceptor.retire();
            let bundle = self.material.bundle.as_ref();
            self.dump(bundle).await;
            self.announce(announcer, bundle);
        }
    }

    fn announce(&self, announcer: Option<&dyn Serving>, bundle: Option<&Bundle>) {
        if let Some(announcer) = announcer {
            announcer.announce(self.client_config(bundle));
        }
    }

    async fn dump(&self, bundle: Option<&Bundle>) {
        if let Some(bundle) = bundle
            && let Err(error) = self.source.dump(bundle).await
        {
            warn!("{error}");
        }
    }
}

/// The accepting side of a server.
struct Acceptor {
    connections: Connections,
    responder: Arc<Responder>,
    retiring: watch::Sender<()>,
    stopping: CancellationToken,
    idle_check: Interval,
}

impl Acceptor {
    fn new(limits: &Limits, responder: Responder) -> Self {
        let connections = Connections::new(limits);
        let mut idle_check = interval(connections.idle_interval());
        idle_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            connections,
            responder: Arc::new(responder),
            retiring: watch::Sender::new(()),
            stopping: CancellationToken::new(),
            idle_check,
        }
    }

    /// Accepts connections until the event resolves.
    async fn until<T>(
        &mut self,
        listening: &Listening,
        material: &Material,
        event: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(event);
        loop {
            tokio::select! {
                outcome = &mut event => return outcome,
                () = self.connections.closed() => {}
                _ = self.idle_check.tick(), if self.connections.len() > 0 => {
                    self.connections.close_idle();
                }
                accepted = listening.accept(), if self.connections.can_accept() => match accepted {
                    Ok(stream) => {
                        let config = ConnectionConfig {
                            tls: material.config.clone(),
                            responder: Arc::clone(&self.responder),
                            retired: self.retiring.subscribe(),
                            stopping: self.stopping.clone(),
                        };
                        self.connections.accept(stream, config);
                    }
                    Err(error) => self.recover(&error).await,
                },
            }
        }
    }

    /// Asks the open connections to end between requests: their certificate is replaced.
    fn retire(&self) {
        self.retiring.send_replace(());
    }

    /// Ends all connections: those without requests at once, the others within [`STOPPING`].
    async fn stop(mut self) {
        self.stopping.cancel();
        self.connections.stop(STOPPING).await;
    }

    /// Waits after a connection could not be accepted, most likely for lack of file descriptors.
    async fn recover(&mut self, error: &io::Error) {
        if is_gone(error) {
            return;
        }
        if self.connections.evict() {
            // Waiting for longer would reward clients that open connections for that purpose.
            let _ = timeout(EXHAUSTED, self.connections.closed()).await;
        } else {
            warn!("Cannot accept a connection to the webhook server: {error}");
            tokio::time::sleep(EXHAUSTED).await;
        }
    }
}

/// Returns `true` if the error concerns that one connection only.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
