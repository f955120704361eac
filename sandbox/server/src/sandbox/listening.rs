//! Listeners of a sandbox.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kopf_sandbox_api::certificates::{Authority, Identity};
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::fault::{Command, Subscription};

use super::Error;
use crate::server::kubeconfig::{self, Credentials};
use crate::server::listener::{Listener, Settings};
use crate::service::Endpoint;

/// Time for connections to end when a listener is shut down.
const GRACE: Duration = Duration::from_secs(2);

/// The address and certificate names of a listener.
///
/// ```
/// let mut listen = kopf_sandbox::Listen::default();
/// listen.port = 6443;
/// listen.names.push("sandbox.example.com".to_owned());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Listen {
    /// The address; loopback by default, so that the sandbox is not reachable from other machines.
    pub address: IpAddr,
    /// The port; 0, the default, selects a free one.
    pub port: u16,
    /// Additional names for the server's certificate, beside `localhost` and the address.
    pub names: Vec<String>,
    /// The name of the endpoint, by which a [tap](crate::tap) and [views](crate::view) distinguish the
    /// listeners of a sandbox; `main` by default.
    pub endpoint: String,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            names: Vec::new(),
            endpoint: "main".to_owned(),
        }
    }
}

/// A listener of a sandbox. The port is closed when it is dropped.
#[derive(Debug)]
pub struct Listening {
    cluster: Arc<Cluster>,
    _commands: Subscription,
    listener: Listener,
    url: String,
    authority: Arc<Authority>,
    admin: Identity,
}

impl Listening {
    /// Serves the API of a cluster on a TLS listener.
    pub(super) async fn start(cluster: &Arc<Cluster>, listen: Listen) -> Result<Self, Error> {
        let address = SocketAddr::new(listen.address, listen.port);
        let authority = cluster
            .authority()
            .map_err(|error| Error::Certificates(error.into()))?;
        let tls = authority
            .server_config(&[listen.address], &listen.names)
            .map_err(|error| Error::Certificates(error.into()))?;
        let admin = authority
            .admin()
            .map_err(|error| Error::Certificates(error.into()))?;
        let endpoint = Endpoint::new(Arc::clone(cluster), &listen.endpoint);
        let listener = Listener::bind(address, tls, endpoint, Settings::default())
            .await
            .map_err(|source| Error::Listen { address, source })?;
        let connections = listener.connections().clone();
        let commands = cluster.faults.subscribe(move |command| match command {
            Command::ResetConnections => connections.reset_all(),
            Command::FreezeConnections(frozen) => connections.freeze(frozen),
            Command::Compact => {}
        });
        cluster.publish_authority(authority.pem());
        let url = listener.url();
        Ok(Self {
            cluster: Arc::clone(cluster),
            _commands: commands,
            listener,
            url,
            authority,
            admin,
        })
    }

    /// Returns the URL of the API for clients on this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the bound address and port.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the CA certificate of the server, in PEM.
    pub fn authority_pem(&self) -> &str {
        self.authority.pem()
    }

    /// Returns a kubeconfig of the administrator with a client certificate. It contains a private
    /// key.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::render(
            &self.url,
            self.authority.pem(),
            Credentials::Certificate(&self.admin),
        )
    }

    /// Returns a kubeconfig of a user with a bearer token (see [`Builder::token`](super::Builder::token)).
    pub fn kubeconfig_with_token(&self, token: &str) -> String {
        kubeconfig::render(&self.url, self.authority.pem(), Credentials::Token(token))
    }

    /// Writes [`kubeconfig`](Self::kubeconfig) to a file with the mode 0600. A file of another user
    /// is not overwritten.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), Error> {
        kubeconfig::write(path, &self.kubeconfig()).map_err(|error| Error::Kubeconfig(error.into()))
    }

    /// Restarts the server with the same data, port and certificates: connections break, watches
    /// end, and old versions are dropped.
    pub async fn restart(&self) -> Result<(), Error> {
        self.cluster.faults.kill_watches();
        self.listener.suspend(Duration::ZERO).await;
        self.cluster.store.compact();
        let address = self.listener.address();
        self.listener
            .resume()
            .await
            .map_err(|source| Error::Listen { address, source })
    }

    /// Closes the port and all its connections. Other listeners of the sandbox are not affected.
    pub async fn shutdown(self) {
        self.listener.shut_down(GRACE).await;
    }

    /// Closes the port and resets all its connections immediately, like a server that is killed.
    /// Other listeners of the sandbox are not affected.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use kopf_sandbox::{Listen, Sandbox};
    ///
    /// let sandbox = Sandbox::builder().build()?;
    /// let first = sandbox.listen(Listen::default()).await?;
    /// let mut second = Listen::default();
    /// second.endpoint = "second".to_owned();
    /// let second = sandbox.listen(second).await?;
    /// first.kill().await;
    /// # second.shutdown().await;
    /// # sandbox.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub async fn kill(self) {
        self.listener.connections().reset_all();
        self.listener.shut_down(Duration::ZERO).await;
    }
}
