//! A recorder between an operator and its API. It records every write with its response, and can
//! hold a write back.
//!
//! It is located between the operator's client and the transport, so that it records actual
//! requests, including retries. It does not change them.

mod breakpoint;
mod call;
mod service;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;

use self::breakpoint::Breakpoints;
pub use self::breakpoint::{Breakpoint, Moment};
pub use self::call::Call;
pub use self::service::Recorded;

/// A recorder of the writes of an operator. Clones share the records.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kopf_testing::recording::Recorder;
///
/// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
/// let recorder = Recorder::default();
/// let (service, _line) = recorder.record(kube::Client::new(sandbox.service(), "default"));
/// let client = kube::Client::new(service, "default");
///
/// let settings = serde_json::json!({"metadata": {"name": "settings"}}).to_string();
/// let request = http::Request::post("/api/v1/namespaces/default/configmaps")
///     .header("content-type", "application/json")
///     .body(settings.into_bytes().into())?;
/// client.send(request).await?;
///
/// let calls = recorder.calls();
/// assert_eq!((calls[0].verb, &*calls[0].resource, calls[0].status), ("create", "configmaps", Some(201)));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    calls: Mutex<Vec<Call>>,
    breakpoints: Breakpoints,
    /// The number of requests of any kind, to detect activity.
    requests: AtomicU64,
    /// The number of requests without a response.
    pending: AtomicUsize,
}

impl Shared {
    /// Calls are added atomically, so a poisoned lock is still consistent.
    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// Returns a recorded service for this client, and the line, which can be cut.
    pub fn record(&self, client: Client) -> (Recorded, Line) {
        let line = Line::default();
        let recorded = Recorded::new(client, Arc::clone(&self.shared), line.clone());
        (recorded, line)
    }

    /// Returns all completed writes, in the order of their completion.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.lock().clone()
    }

    /// Returns and removes all writes so far.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.shared.lock())
    }

    /// Returns the number of requests of any kind.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Returns the number of requests without a response. Open watches have one.
    pub fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::SeqCst)
    }

    /// Holds the `nth` write from now on (the first is 1) at this moment, until the breakpoint is
    /// dropped. K8s-events are not counted.
    ///
    /// See [`Lab::breakpoint`](crate::Lab::breakpoint) for an example.
    pub fn breakpoint(&self, nth: u64, moment: Moment) -> Breakpoint {
        self.shared.breakpoints.set(nth, moment)
    }
}

/// The connection of one operator. After it is cut, no data passes in either direction, as if the
/// process was killed.
#[derive(Debug, Clone, Default)]
pub struct Line {
    cut: Arc<AtomicBool>,
}

impl Line {
    /// Cuts the line permanently.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}
