//! Listening sockets of a server: one or several with the same port.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream, lookup_host};

use crate::Error;

/// Attempts to find a port that is free for all addresses.
const ATTEMPTS: usize = 5;

/// Listening sockets of a server.
#[derive(Debug)]
pub(crate) struct Listening {
    sockets: Vec<TcpListener>,
    port: u16,
}

impl Listening {
    /// Binds the sockets: to all addresses of a host name, or to all interfaces. Port 0 is any free port.
    pub(crate) async fn bind(addr: Option<&str>, port: u16) -> Result<Self, Error> {
        let error = |source| Error::Listen {
            address: match addr {
                None => format!("*:{port}"),
                Some(addr) if addr.contains(':') => format!("[{addr}]:{port}"),
                Some(addr) => format!("{addr}:{port}"),
            },
            source,
        };
        let Some(addr) = addr else {
            return Self::bind_everywhere(port).await.map_err(error);
        };
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in lookup_host((addr, port)).await.map_err(error)? {
            if !addresses.contains(&address.ip()) {
                addresses.push(address.ip());
            }
        }
        let mut attempts = if port == 0 { ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match Self::bind_all(&addresses, port).await {
                Err(source) if source.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
                outcome => return outcome.map_err(error),
            }
        }
    }

    /// Binds to IPv6 and IPv4, as far as available. On most systems one socket serves both.
    async fn bind_everywhere(port: u16) -> io::Result<Self> {
        let Ok(socket) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await else {
            return Self::bind_all(&[Ipv4Addr::UNSPECIFIED.into()], port).await;
        };
        let port = socket.local_addr()?.port();
        let mut sockets = vec![socket];
        // It fails if the IPv6 socket serves IPv4 as well.
        if let Ok(socket) = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await {
            sockets.push(socket);
        }
        Ok(Self { sockets, port })
    }

    async fn bind_all(addresses: &[IpAddr], mut port: u16) -> io::Result<Self> {
        let mut sockets = Vec::new();
        let mut unavailable = None;
        for address in addresses {
            match TcpListener::bind(SocketAddr::new(*address, port)).await {
                Ok(socket) => {
                    port = socket.local_addr()?.port();
                    sockets.push(socket);
                }
                // Host names have addresses of both families, and machines may support only one.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported
                    ) =>
                {
                    unavailable = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if sockets.is_empty() {
            let none = || io::Error::new(io::ErrorKind::AddrNotAvailable, "no such address");
            return Err(unavailable.unwrap_or_else(none));
        }
        Ok(Self { sockets, port })
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for the next connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<TcpStream> {
        poll_fn(|cx| {
            for socket in &self.sockets {
                if let Poll::Ready(accepted) = socket.poll_accept(cx) {
                    return Poll::Ready(accepted.map(|(stream, _)| stream));
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_reachable(listening: &Listening, at: &str) -> bool {
        let address = SocketAddr::new(at.parse().unwrap(), listening.port());
        tokio::select! {
            connected = TcpStream::connect(address) => connected.is_ok(),
            _ = async { loop { let _ = listening.accept().await; } } => false,
        }
    }

    #[tokio::test]
    async fn unspecified_address_binds_both_families() {
        let listening = Listening::bind(None, 0).await.unwrap();
        assert_ne!(listening.port(), 0);
        assert!(is_reachable(&listening, "127.0.0.1").await);
        if TcpListener::bind("[::1]:0").await.is_ok() {
            assert!(is_reachable(&listening, "::1").await);
        }
    }

    #[tokio::test]
    async fn host_names_bind_all_their_addresses() {
        let listening = Listening::bind(Some("localhost"), 0).await.unwrap();
        assert!(is_reachable(&listening, "127.0.0.1").await);
        let listening = Listening::bind(Some("127.0.0.1"), 0).await.unwrap();
        assert!(is_reachable(&listening, "127.0.0.1").await);
        assert!(!is_reachable(&listening, "127.0.0.2").await);
    }

    #[tokio::test]
    async fn ports_that_are_taken_are_errors_with_the_address() {
        let listening = Listening::bind(Some("127.0.0.1"), 0).await.unwrap();
        let taken = Listening::bind(Some("127.0.0.1"), listening.port()).await;
        let error = taken.unwrap_err().to_string();
        assert!(
            error.contains(&format!("127.0.0.1:{}", listening.port())),
            "{error}"
        );
        let error = Listening::bind(Some("no such host"), 1).await.unwrap_err();
        assert!(error.to_string().contains("no such host:1"), "{error}");
    }
}
