//! Bodies of responses: whole documents, or streams of watch events.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};

/// The error of a body that a fault interrupts.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Marks a response whose body goes on until something ends it: a watch. Other bodies are sent
/// completely before an orderly shutdown.
#[derive(Debug, Clone, Copy)]
pub struct Unending;

/// The output of a command, to be sent over a WebSocket.
#[derive(Debug, Clone)]
pub struct ExecOutput {
    pub stdout: Bytes,
    pub stderr: Bytes,
    /// A `Status` in JSON.
    pub status: Bytes,
}

/// The body of a response of the `Service`.
pub struct Body(UnsyncBoxBody<Bytes, BodyError>);

impl Body {
    #[doc(hidden)]
    pub fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    #[doc(hidden)]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(
            Full::new(bytes.into())
                .map_err(|never| match never {})
                .boxed_unsync(),
        )
    }

    #[doc(hidden)]
    pub fn stream(chunks: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self(StreamBody::new(chunks.map(|chunk| chunk.map(Frame::data))).boxed_unsync())
    }

    /// Replaces every chunk by the result of `convert`.
    pub(crate) fn map_data(self, mut convert: impl FnMut(Bytes) -> Bytes + Send + 'static) -> Self {
        Self(
            self.0
                .map_frame(move |frame| frame.map_data(&mut convert))
                .boxed_unsync(),
        )
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
