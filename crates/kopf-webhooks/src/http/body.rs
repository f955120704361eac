//! Bodies of requests: read within a time, a size, and the memory that there is.

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::memory::{Held, Memory};
use super::rejection::Rejection;
use crate::Limits;

/// How much of a body that is not wanted is taken nevertheless, in multiples of the limit. Who is
/// still sending does not hear the answer.
const UNWANTED: usize = 4;

/// A body, and the memory that it has.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) bytes: Bytes,
    _held: Held,
}

/// Reads a body.
pub(super) async fn read<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    memory: &Memory,
    limits: &Limits,
) -> Result<Text, Rejection> {
    if body.size_hint().lower() > limits.body as u64 {
        return Err(Rejection::TooLarge(limits.body));
    }
    let mut is_starved = false;
    let reading = collect(body, memory, limits.body, &mut is_starved);
    match timeout(limits.body_time, reading).await {
        Ok(outcome) => outcome,
        Err(_) if is_starved => Err(Rejection::Busy),
        Err(_) => Err(Rejection::TooSlow(limits.body_time)),
    }
}

async fn collect<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    memory: &Memory,
    limit: usize,
    is_starved: &mut bool,
) -> Result<Text, Rejection> {
    let mut held = Held::default();
    // Nearly all bodies come in one piece, and then nothing is copied.
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Rejection::Broken)?.into_data() else {
            continue;
        };
        if data.is_empty() {
            continue;
        }
        let size = first.len().max(all.len()) + data.len();
        if size > limit {
            return Err(Rejection::TooLarge(limit));
        }
        *is_starved = true;
        memory.take(data.len(), &mut held).await;
        *is_starved = false;
        if first.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve(size);
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
    held.complete();
    let bytes = if all.is_empty() { first } else { all.freeze() };
    Ok(Text { bytes, _held: held })
}

/// Takes the memory for what will be made of a text.
pub(super) async fn unfold(
    text: &Text,
    memory: &Memory,
    limits: &Limits,
) -> Result<Option<OwnedSemaphorePermit>, Rejection> {
    let unfolding = memory.unfold(&text.bytes);
    let unfolded = timeout(limits.body_time, unfolding).await;
    unfolded.map_err(|_| Rejection::Busy)?
}

/// Takes the rest of a body that nobody wants, so that the answer is heard; not forever.
pub(super) async fn discard<B: Body<Data = Bytes> + Unpin>(body: &mut B, limits: &Limits) {
    let mut left = limits.body.saturating_mul(UNWANTED);
    let discarding = async {
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // Whether it comes to its end or not, the answer is the same.
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

    use http_body::Frame;

    use super::super::activity::Activity;
    use super::super::memory::Pool;
    use super::*;

    /// Sends these pieces, then ends, or keeps silent.
    struct Pieces(VecDeque<Bytes>, bool);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece)))),
                None if self.1 => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn pieces(sizes: &[usize]) -> Pieces {
        let pieces = sizes.iter().map(|size| Bytes::from(vec![b'x'; *size]));
        Pieces(pieces.collect(), false)
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
            let text = read(&mut pieces(sizes), &memory, &limits).await.unwrap();
            assert_eq!(text.bytes.len(), sizes.iter().sum::<usize>(), "{sizes:?}");
        }
        let refused = read(&mut pieces(&[60_000, 40_001]), &memory, &limits).await;
        assert!(matches!(refused, Err(Rejection::TooLarge(100_000))));
    }

    #[tokio::test(start_paused = true)]
    async fn one_piece_is_not_copied() {
        let limits = limits();
        let memory = memory(&Arc::new(Pool::new(&limits)));
        let piece = Bytes::from(vec![1; 1000]);
        let mut body = Pieces([piece.clone()].into(), false);
        let text = read(&mut body, &memory, &limits).await.unwrap();
        assert_eq!(text.bytes.as_ptr(), piece.as_ptr());
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_go_on_is_cut_off() {
        let limits = limits();
        let memory = memory(&Arc::new(Pool::new(&limits)));
        let mut body = Pieces([Bytes::from_static(b"{")].into(), true);
        let refused = read(&mut body, &memory, &limits).await;
        assert!(matches!(refused, Err(Rejection::TooSlow(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_shared_and_given_back() {
        let limits = limits();
        let pool = Arc::new(Pool::new(&limits));
        let large = || pieces(&[70_000]);
        let one = memory(&pool);
        let held = read(&mut large(), &one, &limits).await.unwrap();

        // Others have to wait for large ones, but not for small ones.
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
    async fn what_is_not_wanted_is_taken_for_a_while() {
        let limits = limits();
        let mut endless = Pieces(
            (0..100).map(|_| Bytes::from(vec![0; 10_000])).collect(),
            true,
        );
        discard(&mut endless, &limits).await;
        assert_eq!(endless.0.len(), 59);
        let mut silent = Pieces(VecDeque::new(), true);
        discard(&mut silent, &limits).await;
    }
}
