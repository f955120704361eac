//! Changed children of an object: they wake up its waiting handlers and are passed to its child
//! handlers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};

use super::ObjectPermit;
use super::driver::{Driver, Version};
use crate::error::Error;
use crate::execution::{Execution, describe_panic};
use crate::invocation::{FilterContext, Handler, OwnedObject};

impl Driver {
    /// Takes the changed children of the object.
    pub(super) fn take_children(&self) -> Vec<Arc<OwnedObject>> {
        let inbox = self.context.inbox.as_ref();
        inbox.map_or_else(Vec::new, |inbox| inbox.take(&self.identity))
    }

    /// Records the handlers that these children wake up, and calls the child handlers. The next
    /// cycle writes their patch.
    pub(super) async fn on_children(
        &mut self,
        children: Vec<Arc<OwnedObject>>,
        permit: &mut ObjectPermit,
    ) {
        let version = self.newest.clone();
        let Some(Version { event, body }) = version else {
            return;
        };
        if event == EventType::Deleted {
            return;
        }
        let context = Arc::clone(&self.context);
        for child in children {
            for id in context.handlers.woken_by(&child.resource) {
                if !self.origins.woken.contains(id) {
                    self.origins.woken.push(Arc::clone(id));
                }
            }
            let calling = self.call_child_handlers(&body, &child, permit);
            if let Err(panic) = AssertUnwindSafe(calling).catch_unwind().await {
                // The rest of the cycle may still succeed.
                self.report_only(Error::Panic(describe_panic(&*panic)));
            }
            permit.reacquire().await;
        }
    }

    async fn call_child_handlers(
        &mut self,
        body: &Body,
        child: &Arc<OwnedObject>,
        permit: &mut ObjectPermit,
    ) {
        let context = Arc::clone(&self.context);
        if context.handlers.child_watching.is_empty() {
            return;
        }
        let logger = self.logger(body).clone();
        let memo = self.state.memo(&context.shared.context.memo);
        let cause = Cause::new(Arc::clone(&context.resource), body.clone());
        let operator = Arc::clone(&context.shared.context);
        let filtering = FilterContext::new(operator, memo.clone(), &logger);
        let failed = |error| {
            let error = Error::from(error).chain();
            let local = logger.local();
            local.error(format_args!("A child handler is skipped: {error}"));
        };
        let handlers = &context.handlers;
        let handlers: Vec<Arc<Handler>> =
            handlers.child_watching_for(&child.resource, &cause, &filtering, failed);
        if handlers.is_empty() {
            return;
        }
        permit.release();
        let execution = Execution::new(&context.shared.executor, cause, logger, memo)
            .with_child(Arc::clone(child));
        for handler in handlers {
            execution.once(&handler).await;
        }
        permit.reacquire().await;
        self.patch.merge_from(execution.patch.take());
        self.contribute(execution.contributions.take());
    }
}
