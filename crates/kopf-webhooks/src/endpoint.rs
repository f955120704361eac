//! A server that runs: its sockets, its certificate, and where others find it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_core::admission::{ClientConfig, Serving};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tracing::{debug, warn};

use crate::address::{accessible, alternative, listened, name, url};
use crate::http::{Answering, Guests, Listening, Route, Terms};
use crate::tls::{Bundle, Material, Options, Source};
use crate::{Error, Limits};

/// How long to wait when the system has nothing left for another connection.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// How long it takes until everybody has heard of new authorities: the operator tells the cluster, and
/// that tells its API servers. Nobody is shown a certificate of theirs before.
const SPREADING: Duration = Duration::from_secs(30);

/// How often files are looked at, unless the user says otherwise.
pub(crate) const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// What a server is made of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) addr: Option<String>,
    pub(crate) port: u16,
    pub(crate) path: Option<String>,
    /// What it is called by others; as it is by its address otherwise.
    pub(crate) host: Option<String>,
    pub(crate) tls: Options,
    pub(crate) file_check_interval: Duration,
    pub(crate) limits: Limits,
}

/// A server that listens. Nobody is answered yet.
pub(crate) struct Endpoint {
    listening: Listening,
    source: Source,
    material: Material,
    route: Route,
    host: String,
    limits: Limits,
}

impl Endpoint {
    /// Loads certificates and listens.
    pub(crate) async fn open(plan: &Plan) -> Result<Self, Error> {
        let addr = listened(plan.addr.as_deref())?;
        let route = Route::new(plan.path.as_deref())?;
        let accessible = accessible(addr);
        let host = match &plan.host {
            Some(host) => name("host", host)?,
            None => None,
        };
        let host = host.unwrap_or_else(|| accessible.clone());
        let mut names = vec![host.clone(), accessible];
        for given in &plan.tls.extra_sans {
            names.extend(alternative(given)?);
        }
        let source = Source::new(plan.tls.clone(), names, plan.file_check_interval);
        let material = source.load().await?;
        let listening = Listening::bind(addr, plan.port).await?;
        let endpoint = Self {
            listening,
            source,
            material,
            route,
            host,
            limits: plan.limits.clone(),
        };
        let heard = endpoint.url(addr.unwrap_or("*"));
        debug!("Listening for webhooks at {heard}");
        Ok(endpoint)
    }

    /// The port it listens at.
    pub(crate) fn port(&self) -> u16 {
        self.listening.port()
    }

    /// The path of the webhooks.
    pub(crate) fn path(&self) -> &str {
        self.route.as_str()
    }

    /// Where others find it, and who vouches for it.
    fn client_config(&self, bundle: Option<&Bundle>) -> ClientConfig {
        let url = self.url(&self.host);
        debug!("Accessing the webhooks at {url}");
        ClientConfig {
            url: Some(url),
            ca_bundle: bundle.map(|bundle| STANDARD.encode(bundle.pem())),
            ..ClientConfig::default()
        }
    }

    fn url(&self, host: &str) -> String {
        let scheme = match self.material.config {
            Some(_) => "https",
            None => "http",
        };
        url(scheme, host, self.port(), self.route.as_str())
    }

    /// Answers for as long as it is not dropped, and says where it can be found: now, and again
    /// when certificates have changed. Connections with the old one are ended between requests.
    pub(crate) async fn serve(mut self, operator: Arc<dyn Serving>, is_announced: bool) {
        let answering = Answering::new(
            Arc::clone(&operator),
            self.route.clone(),
            self.limits.clone(),
        );
        let (retiring, retired) = watch::channel(());
        let mut hosting = Hosting::new(&self.limits, answering, retired);
        if is_announced {
            operator.announce(self.client_config(self.material.bundle.as_ref()));
        }
        loop {
            let renewing = self.source.renewed(&self.material);
            let renewed = hosting.until(&self.listening, &self.material, renewing);
            let renewed = renewed.await;
            if let Some(both) = renewed.bridge_from(&self.material) {
                debug!("Announcing the authorities of the renewed SSL certificate files.");
                if is_announced {
                    operator.announce(self.client_config(Some(&both)));
                }
                self.dump(Some(&both)).await;
                let spreading = tokio::time::sleep(SPREADING);
                let spread = hosting.until(&self.listening, &self.material, spreading);
                spread.await;
            }
            debug!("Going on with the renewed SSL certificate files.");
            self.material = renewed;
            retiring.send_replace(());
            hosting.retired.mark_unchanged();
            let bundle = self.material.bundle.as_ref();
            self.dump(bundle).await;
            if is_announced {
                operator.announce(self.client_config(bundle));
            }
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

/// What all connections have in common.
struct Hosting {
    guests: Guests,
    answering: Arc<Answering>,
    retired: watch::Receiver<()>,
    sweeping: Interval,
}

impl Hosting {
    fn new(limits: &Limits, answering: Answering, retired: watch::Receiver<()>) -> Self {
        let guests = Guests::new(limits);
        let mut sweeping = interval(guests.sweeping());
        sweeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            guests,
            answering: Arc::new(answering),
            retired,
            sweeping,
        }
    }

    /// Takes connections until something happens.
    async fn until<T>(
        &mut self,
        listening: &Listening,
        material: &Material,
        event: impl Future<Output = T>,
    ) -> T {
        let guests = &mut self.guests;
        tokio::pin!(event);
        loop {
            tokio::select! {
                outcome = &mut event => return outcome,
                () = guests.leave() => {}
                _ = self.sweeping.tick(), if guests.len() > 0 => guests.sweep(),
                accepted = listening.accept(), if guests.has_room() => match accepted {
                    Ok(stream) => {
                        let terms = Terms {
                            tls: material.config.clone(),
                            answering: Arc::clone(&self.answering),
                            retired: self.retired.clone(),
                        };
                        guests.admit(stream, terms);
                    }
                    Err(error) => cope(&error, guests).await,
                },
            }
        }
    }
}

/// What to do when a connection cannot be accepted.
async fn cope(error: &io::Error, guests: &mut Guests) {
    if is_gone(error) {
        return;
    }
    // Most likely out of file descriptors.
    if guests.make_room() {
        // Whoever makes place is on the way out; to wait for longer would be a gift to those who
        // open connections for the sake of it.
        let _ = timeout(EXHAUSTED, guests.leave()).await;
    } else {
        warn!("A connection to the webhook server cannot be accepted: {error}");
        tokio::time::sleep(EXHAUSTED).await;
    }
}

/// Whether only that one connection is concerned, and not those that come after it.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
