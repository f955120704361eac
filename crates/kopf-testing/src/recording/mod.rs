//! A recorder between an operator and its API: it keeps every write with its answer, and can
//! hold one back at any moment.
//!
//! It sits below the operator's own client and above the transport, so that it sees what goes over
//! the wire, repetitions included. It never changes what passes.

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

/// Keeps the writes of an operator. Clones share what is recorded.
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
    /// Requests of any kind, to notice that something goes on.
    requests: AtomicU64,
    /// Those that are not answered yet.
    pending: AtomicUsize,
}

impl Shared {
    /// A panic elsewhere leaves nothing half-done here.
    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// A service that does the same as this client, recorded; and the line, which can be cut.
    pub fn record(&self, client: Client) -> (Recorded, Line) {
        let line = Line::default();
        let recorded = Recorded::new(client, Arc::clone(&self.shared), line.clone());
        (recorded, line)
    }

    /// All writes so far, in the order of their answers; those without an answer are at the end.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.lock().clone()
    }

    /// Takes all that was recorded so far.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.shared.lock())
    }

    /// How many requests of any kind were made.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// How many requests wait for their answer. Open watches are answered.
    pub fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::SeqCst)
    }

    /// Stops the `nth` write from now on (the first is 1) at this moment, until the breakpoint is
    /// dropped. K8s-events are not counted.
    ///
    /// See [`Lab::breakpoint`](crate::Lab::breakpoint) for an example.
    pub fn breakpoint(&self, nth: u64, moment: Moment) -> Breakpoint {
        self.shared.breakpoints.set(nth, moment)
    }
}

/// The connection of one operator. When it is cut, nothing passes any more, in either direction: as
/// if the process had died.
#[derive(Debug, Clone, Default)]
pub struct Line {
    cut: Arc<AtomicBool>,
}

impl Line {
    /// Cuts the line for good.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}
