//! A tunnel through ngrok: its program forwards requests from a public URL to a server on this machine.

mod lines;
mod process;

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use kopf_core::admission::{ClientConfig, ServerError, Serving, Shutdown, WebhookServer};
use tracing::debug;

use self::process::{Command, Process};
use crate::address::{accessible, listened, url};
use crate::endpoint::{Announcement, Endpoint, EndpointOptions, FILE_CHECK_INTERVAL, Place};
use crate::tls::Options;
use crate::{Error, Limits};

/// A tunnel through [ngrok](https://ngrok.com/), by its program, which must be installed.
///
/// The program runs for as long as the server. The server behind the tunnel uses plain HTTP and listens on
/// this machine only. API servers verify the public URL as any website.
///
/// Anyone can send requests to that URL. Use it for development, with handlers without side effects.
///
/// ```
/// use std::sync::Arc;
///
/// use kopf_core::settings::Settings;
/// use kopf_webhooks::NgrokTunnel;
///
/// let mut settings = Settings::default();
/// settings.admission.server = Some(Arc::new(NgrokTunnel::new().path("/some-secret-path")));
/// ```
#[derive(Clone)]
pub struct NgrokTunnel {
    options: EndpointOptions,
    token: Option<String>,
    region: Option<String>,
    binary: PathBuf,
}

impl Default for NgrokTunnel {
    fn default() -> Self {
        Self::new()
    }
}

impl NgrokTunnel {
    /// Creates a tunnel to a free port of this machine.
    pub fn new() -> Self {
        let tls = Options {
            insecure: true,
            ..Options::default()
        };
        Self {
            options: EndpointOptions {
                // Only the local ngrok program connects.
                addr: Some("127.0.0.1".to_owned()),
                port: None,
                path: None,
                place: Place::Address,
                tls,
                file_check_interval: FILE_CHECK_INTERVAL,
                limits: Limits::default(),
            },
            token: None,
            region: None,
            binary: PathBuf::from("ngrok"),
        }
    }

    /// Sets the address of the server behind the tunnel. Default: `127.0.0.1`.
    #[must_use]
    pub fn addr(mut self, addr: impl Into<String>) -> Self {
        self.options.addr = Some(addr.into());
        self
    }

    /// Sets the port of the server behind the tunnel. Default: 0, any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.options.port = Some(port);
        self
    }

    /// Sets the root path of all webhooks. Default: none.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.options.path = Some(path.into());
        self
    }

    /// Sets the token of the ngrok account. Default: that of ngrok's own configuration.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the region of the tunnel. Default: ngrok's choice.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Sets the program. Default: `ngrok` in the search path.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = path.into();
        self
    }

    /// Sets the limits of the server behind the tunnel.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    async fn run(&self, operator: Arc<dyn Serving>, shutdown: Shutdown) -> Result<(), Error> {
        let endpoint = Endpoint::open(&self.options, None).await?;
        let addr = listened(self.options.addr.as_deref())?;
        let upstream = url("http", &accessible(addr), endpoint.port(), "");
        let path = endpoint.path().to_owned();
        let command = Command {
            binary: self.binary.clone(),
            upstream,
            token: self.token.clone(),
            region: self.region.clone(),
        };
        let mut process = Process::start(&command)?;
        let announcing = Arc::clone(&operator);
        let tunnelling = async {
            let mut public = process.public_url().await?;
            loop {
                let url = format!("{public}{path}");
                debug!("Accessing the webhooks at {url}");
                announcing.announce(ClientConfig {
                    url: Some(url),
                    ..ClientConfig::default()
                });
                let mut next = process.next_url().await?;
                while next == public {
                    next = process.next_url().await?;
                }
                public = next;
            }
        };
        let outcome = tokio::select! {
            () = endpoint.serve(operator, Announcement::ByTunnel, shutdown) => Ok(()),
            outcome = tunnelling => outcome,
        };
        process.stop().await;
        outcome
    }
}

// The token does not belong in logs.
impl fmt::Debug for NgrokTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NgrokTunnel")
            .field("addr", &self.options.addr)
            .field("port", &self.options.port)
            .field("path", &self.options.path)
            .field("region", &self.region)
            .field("binary", &self.binary)
            .finish_non_exhaustive()
    }
}

impl WebhookServer for NgrokTunnel {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        Box::pin(async move { Ok(self.run(operator, shutdown).await?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_absent_from_debug_output() {
        let tunnel = NgrokTunnel::new().token("hunter2");
        assert!(!format!("{tunnel:?}").contains("hunter2"));
    }
}
