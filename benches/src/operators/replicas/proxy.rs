//! A TCP proxy that counts the bytes received by one replica.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Size of the buffer of each direction.
const BUFFER: usize = 64 * 1024;

/// A running proxy. It is closed when dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) port: u16,
    received: Arc<AtomicU64>,
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Forwards connections to this server.
    pub(super) async fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let received = Arc::new(AtomicU64::new(0));
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, server, Arc::clone(&received)));
        Ok(Self {
            port,
            received,
            _accepting: accepting,
        })
    }

    /// Returns the bytes sent by the server, including TLS.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, received: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(forward(client, server, Arc::clone(&received)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn forward(client: TcpStream, server: SocketAddr, received: Arc<AtomicU64>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let sent = AtomicU64::new(0);
    tokio::join!(
        copy(from_client, to_server, &sent),
        copy(from_server, to_client, &received),
    );
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, count: &AtomicU64) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(size @ 1..) = from.read(&mut buffer).await {
        count.fetch_add(u64::try_from(size).unwrap_or_default(), Ordering::Relaxed);
        let Some(chunk) = buffer.get(..size) else {
            break;
        };
        if to.write_all(chunk).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
