//! The liveness probe of the operator.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The address of the probe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe(SocketAddr);

impl Probe {
    /// Chooses a free address.
    pub(crate) async fn choose() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        Ok(Self(listener.local_addr()?))
    }

    /// Returns the command-line option of the operator.
    pub(crate) fn option(self) -> String {
        format!("--liveness=http://{}/healthz", self.0)
    }

    /// Returns a problem if the probe fails or the operator has not indexed this number of objects.
    pub(crate) async fn problem(self, objects: usize) -> Option<String> {
        match self.request().await {
            Ok(known) if known == objects => None,
            Ok(known) => Some(format!("{known} of {objects} objects are indexed")),
            Err(error) => Some(format!("the liveness probe failed: {error:#}")),
        }
    }

    async fn request(self) -> Result<usize> {
        let mut stream = TcpStream::connect(self.0).await?;
        let request = "GET /healthz HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        parse(&response)
    }
}

fn parse(response: &str) -> Result<usize> {
    let (head, body) = response
        .split_once("\r\n\r\n")
        .context("incomplete response")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200 "), "{response}");
    let results: Value = serde_json::from_str(body)?;
    let known = results["known"]
        .as_u64()
        .context("missing result of the probe")?;
    Ok(usize::try_from(known)?)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn invalid_responses_are_rejected() {
        assert_eq!(parse("HTTP/1.1 200 OK\r\n\r\n{\"known\":3}").ok(), Some(3));
        for bad in [
            "",
            "HTTP/1.1 503 Unavailable\r\n\r\n{\"known\":3}",
            "HTTP/1.1 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\n\r\nfine",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
