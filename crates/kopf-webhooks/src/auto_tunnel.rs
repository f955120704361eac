//! A server for local clusters, and a tunnel for others.

use std::pin::Pin;
use std::sync::Arc;

use kopf_core::admission::{ServerError, Serving, Shutdown, WebhookServer};
use tracing::debug;

use crate::detection::guess_host;
use crate::server::pod_service;
use crate::{NgrokTunnel, Server};

/// A server for known local clusters and behind the [Service](Server#in-a-cluster) of its pod, otherwise a
/// tunnel through ngrok.
///
/// It has the common options of both. Clusters are detected as by [`Server::auto`].
#[derive(Clone, Debug, Default)]
pub struct AutoTunnel {
    addr: Option<String>,
    port: Option<u16>,
    path: Option<String>,
}

impl AutoTunnel {
    /// Creates a server or a tunnel.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the address to listen on. Default: all interfaces; behind a tunnel, `127.0.0.1`.
    #[must_use]
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.addr = Some(addr.into());
        self
    }

    /// Sets the port to listen on; 0 for any free port. Default: 9443 behind a Service, otherwise 0.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the root path of all webhooks. Default: none.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    fn server(&self) -> Server {
        let mut server = Server::new();
        if let Some(port) = self.port {
            server = server.port(port);
        }
        if let Some(addr) = &self.addr {
            server = server.addr(addr);
        }
        if let Some(path) = &self.path {
            server = server.path(path);
        }
        server
    }

    fn tunnel(&self) -> NgrokTunnel {
        let mut tunnel = NgrokTunnel::new();
        if let Some(port) = self.port {
            tunnel = tunnel.port(port);
        }
        if let Some(addr) = &self.addr {
            tunnel = tunnel.addr(addr);
        }
        if let Some(path) = &self.path {
            tunnel = tunnel.path(path);
        }
        tunnel
    }
}

impl WebhookServer for AutoTunnel {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        mut shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        Box::pin(async move {
            if !operator.is_loopback() && pod_service()?.is_some() {
                return Arc::new(self.server()).serve(operator, shutdown).await;
            }
            let host = tokio::select! {
                host = guess_host(&*operator) => host,
                () = &mut shutdown => return Ok(()),
            };
            if let Some(host) = host {
                debug!("Cluster detection found the hostname: {host}");
                let server = self.server().host(host);
                Arc::new(server).serve(operator, shutdown).await
            } else {
                debug!("Cluster detection failed, using an ngrok tunnel.");
                Arc::new(self.tunnel()).serve(operator, shutdown).await
            }
        })
    }
}
