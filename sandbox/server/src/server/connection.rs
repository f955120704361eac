//! A TCP connection that can be reset or frozen on demand.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const OPEN: u8 = 0;
const FROZEN: u8 = 1;
const RESET: u8 = 2;

/// A handle to break a connection. Clones refer to the same connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    reader: AtomicWaker,
    writer: AtomicWaker,
    /// The number of requests that exclude the connection from resets of all connections.
    spared: AtomicUsize,
    /// Cancelled by a reset, so that the owner drops the connection.
    gone: CancellationToken,
}

impl Control {
    /// Aborts the connection with a TCP reset.
    pub(super) fn reset(&self) {
        self.shared.state.store(RESET, Ordering::Release);
        self.wake();
        self.shared.gone.cancel();
    }

    /// Excludes the connection from resets of all connections, until it is called with `false`.
    pub(super) fn spare(&self, spared: bool) {
        if spared {
            self.shared.spared.fetch_add(1, Ordering::AcqRel);
        } else {
            self.shared.spared.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(super) fn is_spared(&self) -> bool {
        self.shared.spared.load(Ordering::Acquire) > 0
    }

    /// Freezes the connection: it stays open and transfers nothing. `false` resumes it.
    pub(super) fn freeze(&self, frozen: bool) {
        let (from, to) = if frozen {
            (OPEN, FROZEN)
        } else {
            (FROZEN, OPEN)
        };
        // A reset is final.
        if self
            .shared
            .state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            self.wake();
        }
    }

    /// Waits until the connection is reset.
    pub(super) async fn gone(&self) {
        self.shared.gone.cancelled().await;
    }

    fn wake(&self) {
        self.shared.reader.wake();
        self.shared.writer.wake();
    }

    /// Returns `Ready` if data may pass; otherwise registers the task to be woken on a change.
    fn poll_open(&self, waker: &AtomicWaker, cx: &Context<'_>) -> Poll<io::Result<()>> {
        // Register first: a change between the check and the registration would be missed.
        waker.register(cx.waker());
        match self.shared.state.load(Ordering::Acquire) {
            OPEN => Poll::Ready(Ok(())),
            FROZEN => Poll::Pending,
            _ => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    fn poll_readable(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.poll_open(&self.shared.reader, cx)
    }

    fn poll_writable(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.poll_open(&self.shared.writer, cx)
    }
}

/// A TCP stream with a [`Control`].
#[derive(Debug)]
pub(super) struct Controlled {
    stream: TcpStream,
    control: Control,
}

impl Controlled {
    pub(super) fn new(stream: TcpStream, control: Control) -> Self {
        Self { stream, control }
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        if self.control.shared.state.load(Ordering::Acquire) == RESET {
            // Closing with zero linger sends RST. If setting it fails, the peer sees an orderly
            // end.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Controlled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.control.poll_readable(cx))?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Controlled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.control.poll_writable(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.control.poll_writable(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.control.poll_writable(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.control.poll_writable(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Controlled, Control, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let control = Control::default();
        (
            Controlled::new(accepted.unwrap().0, control.clone()),
            control,
            client.unwrap(),
        )
    }

    #[tokio::test]
    async fn peer_sees_a_reset() {
        let (mut server, control, mut client) = pair().await;
        server.write_all(b"x").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'x');
        control.reset();
        control.gone().await;
        let error = server.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        drop(server);
        let error = client.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn frozen_connection_resumes() {
        let (mut server, control, mut client) = pair().await;
        control.freeze(true);
        client.write_all(b"x").await.unwrap();
        {
            let mut reading = std::pin::pin!(server.read_u8());
            assert!(futures::poll!(reading.as_mut()).is_pending());
            control.freeze(false);
            assert_eq!(reading.await.unwrap(), b'x');
        }
        control.reset();
        control.freeze(true);
        assert!(server.write_all(b"y").await.is_err(), "a reset is final");
    }
}
