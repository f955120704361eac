//! Observation and control of every call of a client; the public crate documents it.

mod commit;
mod event;
mod request;
mod response;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_store::objects::{self, Observer};

pub use self::commit::{Commit, ObjectVersion};
pub use self::event::{Delivery, Gate, Hold, HoldScope, OnRelease, TapEvent};
pub(crate) use self::request::Sender;
pub use self::request::{Decision, Reply, TapRejection, TapRequest};
pub use self::response::{TapResponse, Told};
pub use crate::store::Change;

/// The future that a method of [`Tap`] returns.
pub type TapFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An observer of one sandbox that can also steer it.
///
/// All methods have a default that changes nothing, so implement only those that you need. They are
/// called concurrently for concurrent requests. The plain ones run in tasks of the server and must
/// not block; open a [`Gate`] or send to a channel instead. A future that a client waits for is
/// dropped when the client disconnects.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use kopf_sandbox::tap::{Decision, Tap, TapFuture, TapRejection, TapRequest};
///
/// /// Rejects every third write with a conflict.
/// #[derive(Default)]
/// struct Conflicts {
///     writes: AtomicU64,
/// }
///
/// impl Tap for Conflicts {
///     fn on_request<'a>(&'a self, request: &'a TapRequest) -> TapFuture<'a, Decision> {
///         let is_third = request.is_write() && self.writes.fetch_add(1, Ordering::Relaxed) % 3 == 2;
///         Box::pin(async move {
///             if is_third {
///                 return Decision::Reject(TapRejection::new(409));
///             }
///             Decision::Proceed
///         })
///     }
/// }
/// ```
pub trait Tap: Send + Sync + 'static {
    /// Called for each request to a resource, after it was authenticated and parsed and before
    /// anything else: rights, faults and the verb follow. The request waits for the returned future.
    ///
    /// Requests for discovery, OpenAPI and health are not reported, and neither are those with invalid
    /// options and those of the server's own controllers.
    fn on_request<'a>(&'a self, request: &'a TapRequest) -> TapFuture<'a, Decision> {
        let _ = request;
        Box::pin(std::future::ready(Decision::Proceed))
    }

    /// Called after a request was carried out and its changes are committed, before the response is
    /// sent. The response waits for the returned future. A watch is reported when it opens.
    ///
    /// Not called for requests that [`on_request`](Self::on_request) rejected or broke, nor for those
    /// whose connection a [fault](crate::fault) breaks.
    fn on_response<'a>(
        &'a self,
        request: &'a TapRequest,
        response: &'a TapResponse,
    ) -> TapFuture<'a, Reply> {
        let _ = (request, response);
        Box::pin(std::future::ready(Reply::Send))
    }

    /// Called for each event that is about to be sent to a watch, in order. `watch` is the request
    /// that opened it. Not called for events of a [`Hold`] that is not open yet: they join it.
    fn on_event(&self, watch: &TapRequest, event: &TapEvent) -> Delivery {
        let _ = (watch, event);
        Delivery::Deliver
    }

    /// Called when an event is passed to the connection of a watch, held or not.
    fn on_delivery(&self, watch: &TapRequest, event: &TapEvent) {
        let _ = (watch, event);
    }

    /// Called when a watch ends, for whatever reason.
    fn on_watch_end(&self, watch: &TapRequest) {
        let _ = watch;
    }

    /// Called for each change of an object, in the order of their revisions, before the response of
    /// the request that caused it.
    fn on_commit(&self, commit: &Commit) {
        let _ = commit;
    }
}

tokio::task_local! {
    /// The request that the current task carries out.
    static CURRENT: Option<Arc<TapRequest>>;
}

/// Returns the request that the current task carries out.
pub(crate) fn current() -> Option<Arc<TapRequest>> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Runs `work` as a part of a request.
pub(crate) async fn within<F: Future>(request: Arc<TapRequest>, work: F) -> F::Output {
    CURRENT.scope(Some(request), work).await
}

/// Runs `work` on behalf of the server itself: its changes have no cause.
pub(crate) fn unattributed<T>(work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(None, work)
}

/// The tap of one sandbox. Clones share the numbering of requests.
#[derive(Clone)]
pub struct Tapped {
    tap: Arc<dyn Tap>,
    last_number: Arc<AtomicU64>,
}

impl fmt::Debug for Tapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tapped").finish_non_exhaustive()
    }
}

impl Tapped {
    pub fn new(tap: Arc<dyn Tap>) -> Self {
        Self {
            tap,
            last_number: Arc::default(),
        }
    }

    pub(crate) fn tap(&self) -> &dyn Tap {
        &*self.tap
    }

    /// Returns the number of a new request, from 1.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Observer<Kind> for Tapped {
    fn cause(&self) -> Option<u64> {
        CURRENT
            .try_with(|request| request.as_ref().map(|request| request.number))
            .ok()
            .flatten()
    }

    fn observe(&self, commit: &objects::Commit<Kind>) {
        self.tap.on_commit(&Commit::of(commit));
    }
}
