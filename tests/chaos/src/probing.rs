//! Asks the operator whether it lives, as a cluster would do it.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Where the operator of one run answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe(SocketAddr);

impl Probe {
    /// At an address that nobody has now.
    pub(crate) async fn choose() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        Ok(Self(listener.local_addr()?))
    }

    /// The option of the operator.
    pub(crate) fn option(self) -> String {
        format!("--liveness=http://{}/healthz", self.0)
    }

    /// What is wrong with the operator, by its own account: it must know as many objects.
    pub(crate) async fn complaint(self, objects: usize) -> Option<String> {
        match self.ask().await {
            Ok(known) if known == objects => None,
            Ok(known) => Some(format!("{known} of {objects} objects are known")),
            Err(error) => Some(format!(
                "the operator does not say that it lives: {error:#}"
            )),
        }
    }

    async fn ask(self) -> Result<usize> {
        let mut stream = TcpStream::connect(self.0).await?;
        let request = "GET /healthz HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        parse(&answer)
    }
}

fn parse(answer: &str) -> Result<usize> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    let results: Value = serde_json::from_str(body)?;
    let known = results["known"]
        .as_u64()
        .context("no result of the probe")?;
    Ok(usize::try_from(known)?)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_a_good_answer_is_taken() {
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
