//! The sockets of an endpoint.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use futures::future::select_all;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tracing::{debug, warn};

use super::Endpoint;

/// All sockets of an endpoint; at least one.
pub(super) struct Listeners(Vec<TcpListener>);

impl Listeners {
    /// Listens at all addresses of the host. `localhost` always means both loopback addresses,
    /// because clients use either.
    ///
    /// # Errors
    /// If none of the addresses can be listened at.
    pub(super) async fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let (host, port) = (endpoint.host(), endpoint.port());
        let addresses: BTreeSet<IpAddr> = if host.eq_ignore_ascii_case("localhost") {
            [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into()
        } else {
            let found = lookup_host((host, port)).await?;
            found.map(|address| address.ip()).collect()
        };
        let mut listeners: Vec<TcpListener> = Vec::new();
        let mut failures = Vec::new();
        for address in addresses {
            // Port 0 is the same free port for all addresses.
            let known = listeners
                .first()
                .and_then(|listener| listener.local_addr().ok());
            let port = known.map_or(port, |known| known.port());
            let address = SocketAddr::new(address, port);
            match TcpListener::bind(address).await {
                Ok(listener) => listeners.push(listener),
                Err(error) => failures.push((address, error)),
            }
        }
        if listeners.is_empty() {
            let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            return Err(failures.pop().map_or_else(nowhere, |(_, error)| error));
        }
        for (address, error) in failures {
            // Many machines have only one address family.
            if error.kind() == io::ErrorKind::AddrInUse {
                warn!("Probes and metrics are not served at {address}: {error}");
            } else {
                debug!("Probes and metrics are not served at {address}: {error}");
            }
        }
        Ok(Self(listeners))
    }

    /// Returns the first address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.0.first()?.local_addr().ok()
    }

    /// Waits for a connection to any socket. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<TcpStream> {
        let waiting = self.0.iter().map(|listener| Box::pin(listener.accept()));
        let (accepted, ..) = select_all(waiting).await;
        accepted.map(|(stream, _)| stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn open(address: &str) -> io::Result<Listeners> {
        Listeners::open(&address.parse().unwrap()).await
    }

    #[tokio::test]
    async fn localhost_listens_at_both_address_families() {
        let listeners = open("http://localhost:0/").await.unwrap();
        let port = listeners.address().unwrap().port();
        let mut tried = vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            tried.push(Ipv6Addr::LOCALHOST.into());
        }
        for address in tried {
            let (accepted, connected) =
                tokio::join!(listeners.accept(), TcpStream::connect((address, port)));
            assert_eq!(accepted.unwrap().local_addr().unwrap().ip(), address);
            connected.unwrap();
        }
    }

    #[tokio::test]
    async fn occupied_addresses_are_an_error() {
        let taken = open("http://127.0.0.1:0/").await.unwrap();
        let address = taken.address().unwrap();
        let error = open(&format!("http://{address}/")).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(
            open("http://192.0.2.1:0/").await.is_err(),
            "the address belongs to another host"
        );
    }
}
