//! Reading of request bodies, bounded in time, size and memory.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use kopf_core::admission::{SCANNED_BYTES, Unreadable};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::memory::{Held, Memory};
use super::rejection::Rejection;
use crate::Limits;

/// Upper bound for the discarded rest of a rejected body, in multiples of the limit of bodies. A
/// client that is still sending does not read the response, and the connection cannot be reused.
const DISCARDED: usize = 4;

/// A body with the memory permits it holds.
#[derive(Debug)]
pub(super) struct ReadBody {
    pub(super) bytes: Bytes,
    _held: Held,
}

/// Reads a body.
///
/// # Errors
///
/// A body above the limit is read up to its first [`SCANNED_BYTES`], so that the review can be
/// denied by its uid.
pub(super) async fn read<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    memory: &Memory,
    limits: &Limits,
) -> Result<ReadBody, Rejection> {
    let is_too_large = body.size_hint().lower() > limits.body as u64;
    let mut reading = Reading {
        memory,
        limit: limits.body,
        enough: if is_too_large {
            SCANNED_BYTES
        } else {
            usize::MAX
        },
        held: Held::default(),
        first: Bytes::new(),
        all: BytesMut::new(),
        is_starved: false,
    };
    match timeout(limits.body_time, reading.run(body)).await {
        Ok(Ok(())) if is_too_large => Err(reading.too_large(&[])),
        Ok(Ok(())) => Ok(reading.finish()),
        Ok(Err(rejection)) => Err(rejection),
        Err(_) if reading.is_starved => Err(Rejection::Busy),
        Err(_) => Err(Rejection::TooSlow(limits.body_time)),
    }
}

/// A body that is being read.
struct Reading<'m> {
    memory: &'m Memory,
    limit: usize,
    /// Number of bytes after which reading stops.
    enough: usize,
    held: Held,
    /// The first piece: most bodies have only one, which is not copied.
    first: Bytes,
    /// All pieces, if there are several.
    all: BytesMut,
    /// Set while the body waits for memory, as opposed to the client.
    is_starved: bool,
}

impl Reading<'_> {
    async fn run<B: Body<Data = Bytes> + Unpin>(&mut self, body: &mut B) -> Result<(), Rejection> {
        while self.bytes().len() < self.enough
            && let Some(frame) = body.frame().await
        {
            let Ok(mut data) = frame.map_err(|_| Rejection::Broken)?.into_data() else {
                continue;
            };
            data.truncate(self.enough - self.bytes().len());
            if data.is_empty() {
                continue;
            }
            if self.bytes().len() + data.len() > self.limit {
                return Err(self.too_large(&data));
            }
            self.is_starved = true;
            self.memory.take(data.len(), &mut self.held).await;
            self.is_starved = false;
            self.add(data);
        }
        Ok(())
    }

    fn add(&mut self, data: Bytes) {
        if self.first.is_empty() {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(self.first.len() + data.len());
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&data);
    }

    fn bytes(&self) -> &[u8] {
        if self.all.is_empty() {
            &self.first
        } else {
            &self.all
        }
    }

    /// Returns the rejection of a body that is too large, with the uid in its beginning.
    fn too_large(&self, next: &[u8]) -> Rejection {
        let read = self.bytes();
        let mut beginning = Vec::with_capacity(SCANNED_BYTES);
        for piece in [read, next] {
            let room = SCANNED_BYTES - beginning.len();
            beginning.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
        let reason = Unreadable::TooLarge { limit: self.limit };
        Rejection::unreadable(reason, &beginning)
    }

    fn finish(self) -> ReadBody {
        let Self {
            mut held,
            first,
            all,
            ..
        } = self;
        held.complete();
        let bytes = if all.is_empty() { first } else { all.freeze() };
        ReadBody { bytes, _held: held }
    }
}

/// Takes the memory for the parsed values of a body.
pub(super) async fn unfold(
    content: &ReadBody,
    memory: &Memory,
    limits: &Limits,
) -> Result<Option<OwnedSemaphorePermit>, Rejection> {
    let unfolding = memory.unfold(&content.bytes);
    let unfolded = timeout(limits.body_time, unfolding).await;
    unfolded.map_err(|_| Rejection::Busy)?
}

/// Reads and drops the rest of a rejected body, so that the client reads the response. Bounded by
/// [`DISCARDED`] and by the time for bodies; the connection is closed if the body has not ended then.
pub(super) async fn discard<B: Body<Data = Bytes> + Unpin>(body: &mut B, limits: &Limits) {
    let mut left = limits.body.saturating_mul(DISCARDED);
    let discarding = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // The response is the same whether or not the body has ended.
    let _ = timeout(limits.body_time, discarding).await;
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use http_body::{Frame, SizeHint};

    use super::super::activity::Activity;
    use super::super::memory::Pool;
    use super::*;

    /// A body of these pieces, which then ends or stalls.
    struct Pieces {
        left: VecDeque<Bytes>,
        /// The declared size.
        size: Option<u64>,
        is_silent: bool,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.left.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                None if self.is_silent => Poll::Pending,
                None => Poll::Ready(None),
            }
        }

        fn size_hint(&self) -> SizeHint {
            self.size
                .map_or_else(SizeHint::default, SizeHint::with_exact)
        }
    }

    fn pieces(sizes: &[usize]) -> Pieces {
        let pieces = sizes.iter().map(|size| Bytes::from(vec![b'x'; *size]));
        body_of(pieces.collect())
    }

    fn body_of(left: VecDeque<Bytes>) -> Pieces {
        Pieces {
            left,
            size: None,
            is_silent: false,
        }
    }

    fn stalling(left: VecDeque<Bytes>) -> Pieces {
        Pieces {
            is_silent: true,
            ..body_of(left)
        }
    }

    fn limits() -> Limits {
        Limits {
            body: 100_000,
            memory: 100_000,
            ..Limits::default()
        }
    }

    fn memory(pool: &Arc<Pool>) -> Memory {
        Memory::new(Arc::clone(pool), Arc::new(Activity::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_are_joined_up_to_the_limit() {
        let limits = limits();
        let memory = memory(&Arc::new(Pool::new(&limits)));
        for sizes in [&[][..], &[10], &[10, 0, 20], &[0, 60_000, 39_999, 1]] {
            let content = read(&mut pieces(sizes), &memory, &limits).await.unwrap();
            assert_eq!(
                content.bytes.len(),
                sizes.iter().sum::<usize>(),
                "{sizes:?}"
            );
        }
        let refused = read(&mut pieces(&[60_000, 40_001]), &memory, &limits).await;
        assert_eq!(denied_uid(refused.unwrap_err()), None);
    }

    fn denied_uid(rejection: Rejection) -> Option<String> {
        match rejection {
            Rejection::Unreadable {
                reason: Unreadable::TooLarge { limit: 100_000 },
                head,
            } => head.map(|head| head.uid),
            other => panic!("{other}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn uid_of_too_large_bodies_is_found() {
        let limits = limits();
        let memory = memory(&Arc::new(Pool::new(&limits)));
        let beginning = Bytes::from_static(br#"{"kind":"AdmissionReview","request":{"uid":"u","#);
        let cut = [beginning.slice(..40), beginning.slice(40..)];
        let large = Bytes::from(vec![b'x'; 200_000]);
        for (pieces, size) in [
            (vec![beginning.clone(), large.clone()], None),
            (vec![cut[0].clone(), cut[1].clone(), large.clone()], None),
            (vec![beginning.clone(), large.clone()], Some(200_043)),
            (vec![cut[0].clone(), cut[1].clone(), large], Some(200_043)),
        ] {
            let mut body = Pieces {
                left: pieces.into(),
                size,
                is_silent: false,
            };
            let refused = read(&mut body, &memory, &limits).await.unwrap_err();
            assert_eq!(denied_uid(refused).as_deref(), Some("u"), "{size:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_piece_is_not_copied() {
        let limits = limits();
        let memory = memory(&Arc::new(Pool::new(&limits)));
        let piece = Bytes::from(vec![1; 1000]);
        let mut body = body_of([piece.clone()].into());
        let content = read(&mut body, &memory, &limits).await.unwrap();
        assert_eq!(content.bytes.as_ptr(), piece.as_ptr());
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_bodies_time_out() {
        let limits = limits();
        let memory = memory(&Arc::new(Pool::new(&limits)));
        let mut body = stalling([Bytes::from_static(b"{")].into());
        let refused = read(&mut body, &memory, &limits).await;
        assert!(matches!(refused, Err(Rejection::TooSlow(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_shared_and_released() {
        let limits = limits();
        let pool = Arc::new(Pool::new(&limits));
        let large = || pieces(&[70_000]);
        let one = memory(&pool);
        let held = read(&mut large(), &one, &limits).await.unwrap();

        // Other connections wait for large permits, but not for small ones.
        let other = memory(&pool);
        let refused = read(&mut large(), &other, &limits).await;
        assert!(matches!(refused, Err(Rejection::Busy)));
        read(&mut pieces(&[30_000, 30_000]), &other, &limits)
            .await
            .unwrap();

        let mut body = large();
        let waiting = read(&mut body, &other, &limits);
        let giving = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        let (waited, ()) = tokio::join!(waiting, giving);
        drop(waited.unwrap());
        read(&mut pieces(&[100_000]), &one, &limits).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_bodies_are_discarded_up_to_a_limit() {
        let limits = limits();
        let mut endless = stalling((0..100).map(|_| Bytes::from(vec![0; 10_000])).collect());
        discard(&mut endless, &limits).await;
        assert_eq!(endless.left.len(), 59);
        let mut silent = stalling(VecDeque::new());
        discard(&mut silent, &limits).await;
    }
}
