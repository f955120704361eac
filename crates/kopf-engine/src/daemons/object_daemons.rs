//! The daemons and timers of one object, in the hands of its worker.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_core::body::Body;
use kopf_core::resource::Resource;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::object::Object;
use super::registry::Daemons;
use super::runner::Runner;
use super::stopping;
use crate::invocation::{Handler, LiveBody};
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// When to look again for one that is still leaving from the last time.
const LEAVING: Duration = Duration::from_secs(1);

/// What is remembered of an object that has daemons or timers, or had them. When it is dropped, the
/// object is not known any more, and they are stopped.
#[derive(Debug)]
pub(crate) struct ObjectDaemons {
    object: Arc<Object>,
    /// Cancelled when the objects of the kind are not served any more, or are about to be served anew.
    serving: CancellationToken,
}

impl ObjectDaemons {
    pub(crate) fn new(
        daemons: Arc<Daemons>,
        resource: Arc<Resource>,
        logger: ObjectLogger,
        memo: MemoCell,
        serving: CancellationToken,
    ) -> Self {
        let object = Arc::new(Object::new(daemons, resource, logger, memo));
        Self { object, serving }
    }

    /// There is a newer version of the object.
    pub(crate) fn refresh(&self, body: &Body) {
        self.object.refresh(body);
    }

    /// This is what matters of the object now: timers that wait for it to rest look at that.
    pub(crate) fn compare(&self, essence: &Value) {
        self.object.compare(essence);
    }

    /// Whether this handler has ended by itself: then it is not started again.
    pub(crate) fn is_over(&self, handler: &Handler) -> bool {
        self.object.state().forever_stopped.contains(&handler.id)
    }

    /// Starts this handler, unless it is running. Returns when to try again, if it is still ending:
    /// because it did not match, because of a pause, or from an earlier life of the object here.
    pub(crate) fn start(&self, handler: &Arc<Handler>, body: &Body) -> Option<Duration> {
        let object = &self.object;
        let mut state = object.state();
        let mut running = state.running.iter();
        if let Some(runner) = running.find(|runner| runner.handler.id == handler.id) {
            // Its end is noticed without looking.
            let settings = &object.daemons.context().settings.background;
            let polling = settings.cancellation_polling;
            return runner.stopped.is_set().then_some(polling);
        }
        if object
            .daemons
            .is_leaving(object.logger.reference(), &handler.id)
        {
            return Some(LEAVING);
        }
        let live = state
            .live
            .get_or_insert_with(|| LiveBody::new(body.clone()));
        let live = live.clone();
        drop(state);
        Runner::start(object, Arc::clone(handler), live);
        None
    }

    /// Whether any of these runs.
    pub(crate) fn runs(&self, is_meant: impl Fn(&Handler) -> bool) -> bool {
        let state = self.object.state();
        state.running.iter().any(|runner| is_meant(&runner.handler))
    }

    /// Goes on with stopping of these, if it is time. Returns when to go on; nothing if nothing is
    /// waited for.
    pub(crate) async fn stop(
        &self,
        reason: StopReason,
        is_meant: impl Fn(&Handler) -> bool,
    ) -> Vec<Duration> {
        let mut runners = self.object.running();
        runners.retain(|runner| is_meant(&runner.handler));
        stopping::advance(runners, reason).await
    }

    /// Waits until one ends that was told to. Cancel-safe.
    pub(crate) async fn exit(&self) {
        self.object.exits.notified().await;
    }
}

impl Drop for ObjectDaemons {
    fn drop(&mut self) {
        let runners = self.object.running();
        if !runners.is_empty() {
            // Of an object that is not served, nobody knows whether it is gone.
            let reason = if self.serving.is_cancelled() {
                StopReason::OPERATOR_PAUSING
            } else {
                StopReason::RESOURCE_DELETED
            };
            self.object.daemons.release(runners, reason);
        }
    }
}
