//! Requests to call a handler again: see `kopf_core::object::retriggering`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, Reason};
use kopf_core::object::retriggering::{KEY, Request, Stage, reason};

use super::ResourceContext;
use super::changing::CycleOutcome;
use super::driver::Driver;
use super::planning::Cycle;
use crate::error::Error;
use crate::invocation::Handler;
use crate::logger::ObjectLogger;

/// A request with the handlers that it selects.
#[derive(Debug)]
pub(super) struct Requested {
    request: Request,
    handlers: Vec<Arc<Handler>>,
    cause: Origin,
}

/// The origin of the cause with which requested handlers are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// There are no changes: only the requested handlers are called.
    Request,
    /// A change, a creation or resuming: the requested handlers are called with those of the cause.
    Object,
}

impl Requested {
    /// Reads the request of an object. Requests on objects in deletion are ignored: only deletion
    /// handlers are called for them.
    pub(super) fn detect(context: &ResourceContext, body: &Body) -> Option<Self> {
        if body.is_deleting() {
            return None;
        }
        let request = Request::fetch(context.naming(), body)?;
        let mut handlers: Vec<Arc<Handler>> = Vec::new();
        for handler in &context.handlers.changing {
            let is_repeated = handlers.iter().any(|known| known.id == handler.id);
            if !is_repeated && request.selects(&handler.id, handler.kind) {
                handlers.push(Arc::clone(handler));
            }
        }
        Some(Self {
            request,
            handlers,
            cause: Origin::Object,
        })
    }

    /// Turns a cause without changes into one for the requested handlers.
    pub(super) fn apply(&mut self, cause: &mut Cause) {
        let reason = self
            .handlers
            .first()
            .and_then(|handler| reason(handler.kind));
        if let (Some(reason), Some(change)) = (reason, &mut cause.change)
            && change.reason == Reason::Noop
        {
            change.reason = reason;
            self.cause = Origin::Request;
        }
    }

    /// Returns the handlers to call: those that the cause selects and the requested ones.
    pub(super) fn join(&self, mut selected: Vec<Arc<Handler>>) -> Vec<Arc<Handler>> {
        if self.cause == Origin::Request {
            return self.handlers.clone();
        }
        for handler in &self.handlers {
            if !selected.iter().any(|known| known.id == handler.id) {
                selected.push(Arc::clone(handler));
            }
        }
        selected
    }

    /// Returns a digest of the request, so that a repeated request does not count as a cycle
    /// without progress.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.request.hash(&mut hasher);
        hasher.finish()
    }
}

impl Driver {
    /// Removes a request that selects no handlers.
    pub(super) fn refuse_request(
        &mut self,
        context: &ResourceContext,
        cycle: &Cycle,
        logger: &ObjectLogger,
    ) {
        let Some(requested) = &cycle.requested else {
            return;
        };
        if requested.handlers.is_empty() {
            let ids = requested.request.handlers.join(", ");
            logger.warning(format_args!(
                "The request to retrigger [{ids}] is ignored: there is no such handler of \
                 creations, updates or resuming."
            ));
            Request::remove(context.naming(), &cycle.cause.body, &mut self.patch);
        }
    }

    /// Purges the records of a new request. Returns the end of the cycle if there were any, because
    /// the handlers are called only after the records are removed.
    pub(super) fn accept_request(
        &mut self,
        context: &ResourceContext,
        cycle: &Cycle,
    ) -> Result<Option<CycleOutcome>, Error> {
        let Some(requested) = &cycle.requested else {
            return Ok(None);
        };
        let (request, body) = (&requested.request, &cycle.cause.body);
        let storage = cycle.sessions.storages(context).progress;
        let ids = requested.handlers.iter().map(|handler| &handler.id);
        if !request.purge(ids, &cycle.progress, storage, body, &mut self.patch)? {
            return Ok(None);
        }
        request
            .accepted()
            .store(context.naming(), body, &mut self.patch);
        Ok(Some(CycleOutcome {
            due: Some(Duration::ZERO),
            attempted: false,
            failed: false,
        }))
    }

    /// Adds the new state of the request to the patch with the outcomes of the handlers.
    pub(super) fn conclude_request(&mut self, context: &ResourceContext, cycle: &Cycle) {
        let Some(requested) = &cycle.requested else {
            return;
        };
        let (request, body) = (&requested.request, &cycle.cause.body);
        let records = requested.handlers.iter();
        let records = records.map(|handler| cycle.progress.record(&handler.id));
        if Request::is_fulfilled(records) {
            Request::remove(context.naming(), body, &mut self.patch);
        } else if request.stage == Stage::New {
            request
                .accepted()
                .store(context.naming(), body, &mut self.patch);
        }
    }
}

/// Returns `true` if the object has a request after a write.
pub(super) fn is_requested(context: &ResourceContext, before: &Body, after: &Body) -> bool {
    // The response is parsed only in part, and the annotation names depend on the kind.
    let keys = context.naming().keys(KEY, before);
    keys.iter().any(|key| after.annotation(key).is_some())
}
