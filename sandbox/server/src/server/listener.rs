//! A listener that accepts TLS connections and owns them: no connection outlives it.
//!
//! It is independent of Kubernetes. It can be stopped and restarted on the same port with the same
//! certificates, and its connections can be broken, for tests of clients.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use kopf_sandbox_store::sync::Mutex;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::connection::{Control, Controlled};
use super::serving;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Limits of a listener.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Timeout of the TLS handshake. 10 seconds.
    pub(crate) handshake_timeout: Duration,
    /// Timeout of the head of an HTTP/1.1 request, and of idle connections. 90 seconds.
    pub(crate) header_timeout: Duration,
    /// Maximum number of connections; further ones wait to be accepted. 4096.
    pub(crate) max_connections: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(90),
            max_connections: 4096,
        }
    }
}

/// A running listener. Dropping it closes the port and all connections.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    connections: Connections,
    commands: mpsc::Sender<Command>,
    tasks: TaskTracker,
}

/// A command to the listener's task.
#[derive(Debug)]
enum Command {
    /// Stops accepting and ends the connections within this time.
    Down(Duration, oneshot::Sender<()>),
    /// Listens again.
    Up(oneshot::Sender<io::Result<()>>),
}

impl Listener {
    /// Listens on an address; port 0 selects a free port.
    pub(crate) async fn bind<S, B>(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        service: S,
        settings: Settings,
    ) -> io::Result<Self>
    where
        S: Service<http::Request<Incoming>, Response = http::Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let connections = Connections::default();
        let (commands, received) = mpsc::channel(1);
        let tasks = TaskTracker::new();
        let acceptor = Acceptor {
            address,
            permits: Arc::new(Semaphore::new(settings.max_connections)),
            tls: TlsAcceptor::from(tls),
            service,
            settings,
            connections: connections.clone(),
            ending: CancellationToken::new(),
            tasks: JoinSet::new(),
        };
        tasks.spawn(acceptor.run(socket, received));
        Ok(Self {
            address,
            connections,
            commands,
            tasks,
        })
    }

    /// Returns the bound address and port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients on this machine.
    pub(crate) fn url(&self) -> String {
        let host = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            other => other,
        };
        format!("https://{}", SocketAddr::new(host, self.address.port()))
    }

    /// Returns the open connections.
    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Stops listening and ends all connections: in an orderly way within the grace time, then by
    /// closing them. The port is free afterwards.
    pub(crate) async fn suspend(&self, grace: Duration) {
        let (done, finished) = oneshot::channel();
        if self.commands.send(Command::Down(grace, done)).await.is_ok() {
            // An error means that the task has ended, and its connections with it.
            let _ = finished.await;
        }
    }

    /// Listens again on the same port with the same certificates.
    pub(crate) async fn resume(&self) -> io::Result<()> {
        let gone = || io::Error::other("the listener has ended");
        let (done, finished) = oneshot::channel();
        self.commands
            .send(Command::Up(done))
            .await
            .map_err(|_| gone())?;
        finished.await.map_err(|_| gone())?
    }

    /// Ends the listener permanently.
    pub(crate) async fn shut_down(self, grace: Duration) {
        self.suspend(grace).await;
        let Self {
            commands, tasks, ..
        } = self;
        drop(commands);
        tasks.close();
        tasks.wait().await;
    }
}

/// The open connections of a listener. Clones refer to the same listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections {
    shared: Arc<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    /// `true` if new connections are half-open.
    frozen: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last_id: u64,
    controls: BTreeMap<u64, Control>,
}

impl Connections {
    /// Returns `true` if there are no connections.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().controls.is_empty()
    }

    /// Aborts all open connections, except for spared ones.
    pub(crate) fn reset_all(&self) {
        for control in self.controls() {
            if !control.is_spared() {
                control.reset();
            }
        }
    }

    /// Makes all connections half-open, including new ones. `false` resumes them.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.shared.frozen.store(frozen, Ordering::Release);
        for control in self.controls() {
            control.freeze(frozen);
        }
    }

    fn controls(&self) -> Vec<Control> {
        self.lock().controls.values().cloned().collect()
    }

    fn register(&self) -> Registration {
        let control = Control::default();
        let mut open = self.lock();
        open.last_id += 1;
        let id = open.last_id;
        open.controls.insert(id, control.clone());
        drop(open);
        // Checked after the registration, so that a concurrent freeze misses no connection.
        if self.shared.frozen.load(Ordering::Acquire) {
            control.freeze(true);
        }
        Registration {
            connections: self.clone(),
            id,
            control,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.shared.open.lock()
    }
}

/// The registration of an open connection.
struct Registration {
    connections: Connections,
    id: u64,
    control: Control,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.lock().controls.remove(&self.id);
    }
}

/// The task that accepts connections and owns their tasks.
struct Acceptor<S> {
    address: SocketAddr,
    permits: Arc<Semaphore>,
    tls: TlsAcceptor,
    service: S,
    settings: Settings,
    connections: Connections,
    /// Cancelled to end the connections; replaced when the listener restarts.
    ending: CancellationToken,
    tasks: JoinSet<()>,
}

impl<S, B> Acceptor<S>
where
    S: Service<http::Request<Incoming>, Response = http::Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    /// Runs until the handle is dropped.
    async fn run(mut self, socket: TcpListener, mut commands: mpsc::Receiver<Command>) {
        let mut socket = Some(socket);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Down(grace, done)) => {
                        socket = None;
                        self.end_connections(grace).await;
                        // The sender of the command may have stopped waiting.
                        let _ = done.send(());
                    }
                    Some(Command::Up(done)) => {
                        let outcome = match socket {
                            Some(_) => Ok(()),
                            None => TcpListener::bind(self.address).await.map(|new| {
                                self.ending = CancellationToken::new();
                                socket = Some(new);
                            }),
                        };
                        let _ = done.send(outcome);
                    }
                },
                () = self.accept(socket.as_ref()) => {}
            }
        }
    }

    /// Accepts one connection, or waits forever without a socket. Cancel-safe.
    async fn accept(&mut self, socket: Option<&TcpListener>) {
        let Some(socket) = socket else {
            return std::future::pending().await;
        };
        // Finished tasks are removed here, so that they do not accumulate.
        while self.tasks.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return std::future::pending().await;
        };
        let (stream, _) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Probably out of file descriptors; some will be closed.
                tracing::warn!(%error, "cannot accept a connection");
                return tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let registration = self.connections.register();
        let (tls, service) = (self.tls.clone(), self.service.clone());
        let (settings, ending) = (self.settings.clone(), self.ending.clone());
        self.tasks.spawn(async move {
            let _permit = permit;
            establish(stream, &registration, tls, service, &settings, ending).await;
        });
    }

    async fn end_connections(&mut self, grace: Duration) {
        self.ending.cancel();
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all_ended).await.is_err() {
            tracing::debug!(left = self.tasks.len(), "closing unfinished connections");
            self.tasks.shutdown().await;
        }
    }
}

/// Serves one connection: handshake, then HTTP.
async fn establish<S, B>(
    stream: TcpStream,
    registration: &Registration,
    tls: TlsAcceptor,
    service: S,
    settings: &Settings,
    ending: CancellationToken,
) where
    S: Service<http::Request<Incoming>, Response = http::Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // Events are small and urgent. Failing to set the option is harmless.
    let _ = stream.set_nodelay(true);
    let control = registration.control.clone();
    let handshake = tls.accept(Controlled::new(stream, control.clone()));
    let established = tokio::select! {
        established = tokio::time::timeout(settings.handshake_timeout, handshake) => established,
        () = control.gone() => return,
        () = ending.cancelled() => return,
    };
    match established {
        Ok(Ok(stream)) => {
            serving::serve(stream, service, control, settings.header_timeout, ending).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}
