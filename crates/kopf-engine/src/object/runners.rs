//! The runners of an object: daemons and timers, started while they match and stopped when they do
//! not.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::{HandlerKind, Timing};

use super::{Holding, ObjectState, ResourceContext};
use crate::daemons::ObjectDaemons;
use crate::error::Error;
use crate::invocation::{FilterContext, Handler};
use crate::logger::ObjectLogger;

/// The runners of an object after a cycle has tended them.
#[derive(Debug, Default)]
pub(super) struct Tended {
    /// Some of them must run, so that the object needs the finalizer.
    pub(super) required: bool,
    /// When to check those that are being stopped.
    pub(super) delays: Vec<Duration>,
    /// Why it is unknown whether some of them must run. These are left as they are.
    pub(super) failure: Option<Error>,
}

/// The newest version of an object whose runners are tended.
pub(super) struct Tending<'a> {
    pub(super) event: EventType,
    pub(super) body: &'a Body,
    pub(super) logger: &'a ObjectLogger,
}

/// Starts the runners that match, and stops the others stage by stage.
pub(super) async fn tend(
    kind: &ResourceContext,
    memory: &mut ObjectState,
    version: Tending<'_>,
    holding: &mut Holding,
) -> Result<Tended, Error> {
    let Tending {
        event,
        body,
        logger,
    } = version;
    // The runners of an object that is gone are stopped with its state.
    if kind.handlers.spawning.is_empty() || event == EventType::Deleted {
        return Ok(Tended::default());
    }
    let shared = &kind.shared;
    let cause = Cause {
        resource: Arc::clone(&kind.resource),
        body: body.clone(),
        event: None,
        change: None,
    };
    let memo = memory.memo(&shared.context.memo);
    let context = FilterContext::new(Arc::clone(&shared.context), memo.clone(), logger);
    let (mut unknown, mut failure) = (Vec::new(), None);
    let mut wanted = kind
        .handlers
        .spawning_for(&cause, &context, |handler, error| {
            unknown.push(Arc::clone(&handler.id));
            failure.get_or_insert(error);
        });
    let mut is_required = false;
    if let Some(background) = &memory.background {
        wanted.retain(|handler| !background.is_over(handler));
        background.refresh(body);
        is_required = background.runs(|running| unknown.contains(&running.id));
    }
    let mut tended = Tended {
        required: is_required || !wanted.is_empty(),
        delays: Vec::new(),
        failure: failure.map(Error::from),
    };
    let is_deleting = body.is_deleting();
    if !is_deleting && !wanted.is_empty() {
        let background = memory.background.get_or_insert_with(|| {
            let resource = Arc::clone(&kind.resource);
            let serving = kind.stop.clone();
            let daemons = Arc::clone(&shared.daemons);
            ObjectDaemons::new(daemons, resource, logger.clone(), memo, serving)
        });
        if kind.handlers.spawning.iter().any(|handler| idles(handler)) {
            background.compare(&kind.essence(body)?);
        }
        // While the operator is paused, those that run are stopped, wherever they are.
        if !shared.pause.is_paused() {
            for handler in &wanted {
                tended.delays.extend(background.start(handler, body));
            }
        }
    }
    if let Some(background) = &memory.background {
        let reason = if is_deleting {
            StopReason::RESOURCE_DELETED
        } else {
            StopReason::FILTERS_MISMATCH
        };
        let is_unwanted = |running: &Handler| {
            let is_wanted = wanted.iter().any(|handler| handler.id == running.id);
            is_deleting || !(is_wanted || unknown.contains(&running.id))
        };
        if background.runs(is_unwanted) {
            // They may be given some time.
            holding.release();
            let delays = background.stop(reason, is_unwanted).await;
            tended.delays.extend(delays);
            holding.reacquire().await;
        }
    }
    Ok(tended)
}

/// Whether it waits for the object to rest.
fn idles(handler: &Handler) -> bool {
    matches!(
        handler.kind,
        HandlerKind::Timer(Timing { idle: Some(_), .. })
    )
}
