//! The daemons and timers of one object, owned by its worker.

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
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// Delay before the next check of a former runner that has not ended yet.
const CHECK_DELAY: Duration = Duration::from_secs(1);

/// The daemons and timers of one object. Dropping it stops them, because the object is deleted.
#[derive(Debug)]
pub(crate) struct ObjectDaemons {
    object: Arc<Object>,
    /// Cancelled when the stream of the resource ends.
    serving: CancellationToken,
    end: End,
}

/// The reason to drop the daemons and timers of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The object is deleted, or its stream ends.
    Gone,
    /// Another replica handles the object.
    HandedOver,
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
        let end = End::Gone;
        Self {
            object,
            serving,
            end,
        }
    }

    /// Stops the daemons and timers because another replica handles the object.
    pub(crate) fn hand_over(mut self) {
        self.end = End::HandedOver;
    }

    /// Replaces the live body by a newer version of the object.
    pub(crate) fn refresh(&self, body: &Body) {
        self.object.refresh(body);
    }

    /// Compares the essence with the previous one, for timers with `idle`.
    pub(crate) fn compare(&self, essence: &Value) {
        self.object.compare(essence);
    }

    /// Returns `true` if the handler has ended on its own and must not be started again.
    pub(crate) fn is_over(&self, handler: &Handler) -> bool {
        self.object.state().forever_stopped.contains(&handler.id)
    }

    /// Starts the handler unless it is running. Returns the delay before the next attempt if a
    /// former runner of it has not ended yet.
    pub(crate) fn start(
        &self,
        handler: &Arc<Handler>,
        body: &Body,
        pass: &Pass,
    ) -> Option<Duration> {
        let object = &self.object;
        let mut state = object.state();
        let mut running = state.running.iter();
        if let Some(runner) = running.find(|runner| runner.handler.id == handler.id) {
            // Ends of runners without time limits are notified.
            let settings = &object.daemons.context().settings.background;
            let polling = settings.cancellation_polling;
            return runner.stopped.is_set().then_some(polling);
        }
        if object
            .daemons
            .is_leaving(object.logger.reference(), &handler.id)
        {
            return Some(CHECK_DELAY);
        }
        let live = state
            .live
            .get_or_insert_with(|| LiveBody::new(body.clone()));
        let live = live.clone();
        drop(state);
        Runner::start(object, Arc::clone(handler), live, pass.clone());
        None
    }

    /// Returns `true` if any of these handlers runs, or will run again.
    pub(crate) fn runs(&self, is_meant: impl Fn(&Handler) -> bool) -> bool {
        let state = self.object.state();
        state.running.iter().any(|runner| is_meant(&runner.handler))
            || state.suspended.iter().any(|handler| is_meant(handler))
    }

    /// Advances the stopping of these handlers. Returns the delays before the next stages; empty if
    /// all have ended or are abandoned.
    pub(crate) async fn stop(
        &self,
        reason: StopReason,
        is_meant: impl Fn(&Handler) -> bool,
    ) -> Vec<Duration> {
        let mut runners = self.object.unsuspend(&is_meant);
        runners.retain(|runner| is_meant(&runner.handler));
        stopping::advance(runners, reason).await
    }

    /// Waits until a stopping runner ends. Cancel-safe.
    pub(crate) async fn exit(&self) {
        self.object.exits.notified().await;
    }
}

impl Drop for ObjectDaemons {
    fn drop(&mut self) {
        let runners = self.object.unsuspend(|_| true);
        if !runners.is_empty() {
            // The object may still exist when its stream ends.
            let is_alive = self.end == End::HandedOver || self.serving.is_cancelled();
            let reason = if is_alive {
                StopReason::OPERATOR_PAUSING
            } else {
                StopReason::RESOURCE_DELETED
            };
            self.object.daemons.release(runners, reason);
        }
    }
}
