//! The runners of an object (daemons and timers), which run while they match.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::{HandlerId, HandlerKind, Timing};
use kopf_core::object::Runners;

use super::context::{ObjectPermit, ResourceContext};
use super::state::ObjectState;
use crate::daemons::ObjectDaemons;
use crate::error::Error;
use crate::invocation::{FilterContext, Handler};
use crate::leading::Pass;
use crate::logger::ObjectLogger;

/// The result of tending the runners of an object in a cycle.
#[derive(Debug, Default)]
pub(super) struct Tended {
    pub(super) runners: Runners,
    /// The failure of a filter. The affected runners are left unchanged.
    pub(super) failure: Option<Error>,
}

/// The newest version of an object whose runners are tended.
pub(super) struct Tending<'a> {
    pub(super) event: EventType,
    pub(super) body: &'a Body,
    pub(super) logger: &'a ObjectLogger,
    pub(super) pass: &'a Pass,
}

/// The runners of an object, grouped by the results of their filters.
#[derive(Default)]
struct Matching {
    /// Runners that match and have not finished.
    wanted: Vec<Arc<Handler>>,
    /// Runners whose filters failed, which are left unchanged.
    unknown: Vec<HandlerId>,
    /// The first of these failures.
    failure: Option<Error>,
}

/// Starts the matching runners and stops the others in stages.
pub(super) async fn tend(
    context: &ResourceContext,
    state: &mut ObjectState,
    version: Tending<'_>,
    permit: &mut ObjectPermit,
) -> Result<Tended, Error> {
    // The runners of a deleted object are stopped with its state.
    if context.policy.handlers.spawning.is_empty() || version.event == EventType::Deleted {
        return Ok(Tended::default());
    }
    let mut matching = matching(context, state, &version);
    let mut is_required = !matching.wanted.is_empty();
    if let Some(background) = &state.background {
        background.refresh(version.body);
        is_required |= background.runs(|running| matching.unknown.contains(&running.id));
    }
    let failure = matching.failure.take();
    let mut delays = Vec::new();
    if !version.body.is_deleting() && !matching.wanted.is_empty() {
        delays = start(context, state, &version, &matching.wanted)?;
    }
    if let Some(background) = &state.background {
        delays.extend(stop(background, version.body, &matching, permit).await);
    }
    Ok(Tended {
        runners: Runners {
            required: is_required,
            exiting: delays.into_iter().min(),
            uncertain: failure.is_some(),
        },
        failure,
    })
}

fn matching(context: &ResourceContext, state: &mut ObjectState, version: &Tending<'_>) -> Matching {
    let operator = &context.shared.context;
    let cause = Cause::new(Arc::clone(context.resource()), version.body.clone());
    let memo = state.memo(&operator.memo);
    let filtering = FilterContext::new(Arc::clone(operator), memo, version.logger);
    let mut matching = Matching::default();
    let handlers = &context.policy.handlers;
    matching.wanted = handlers.spawning_for(&cause, &filtering, |handler, error| {
        matching.unknown.push(Arc::clone(&handler.id));
        matching.failure.get_or_insert(error.into());
    });
    if let Some(background) = &state.background {
        let is_finished = |handler: &Arc<Handler>| background.is_over(handler);
        matching.wanted.retain(|handler| !is_finished(handler));
    }
    matching
}

/// Starts the missing runners. Returns the delays until those that cannot start now are checked.
fn start(
    context: &ResourceContext,
    state: &mut ObjectState,
    version: &Tending<'_>,
    wanted: &[Arc<Handler>],
) -> Result<Vec<Duration>, Error> {
    let shared = &context.shared;
    let memo = state.memo(&shared.context.memo);
    let background = state.background.get_or_insert_with(|| {
        let resource = Arc::clone(context.resource());
        let serving = context.stop.clone();
        let daemons = Arc::clone(&shared.daemons);
        ObjectDaemons::new(daemons, resource, version.logger.clone(), memo, serving)
    });
    let mut spawning = context.policy.handlers.spawning.iter();
    if spawning.any(|handler| idles(handler)) {
        background.compare(&context.policy.essence(version.body)?);
    }
    // A pause stops the runners of all objects. When another replica takes over the object, its
    // runners are stopped with its state.
    if shared.pause.is_paused() || version.pass.is_ending() {
        return Ok(Vec::new());
    }
    let start = |handler| background.start(handler, version.body, version.pass);
    Ok(wanted.iter().filter_map(start).collect())
}

/// Stops the runners that no longer match. Returns the delays until they are checked.
async fn stop(
    background: &ObjectDaemons,
    body: &Body,
    matching: &Matching,
    permit: &mut ObjectPermit,
) -> Vec<Duration> {
    let is_deleting = body.is_deleting();
    let reason = if is_deleting {
        StopReason::RESOURCE_DELETED
    } else {
        StopReason::FILTERS_MISMATCH
    };
    let is_unwanted = |running: &Handler| {
        let mut wanted = matching.wanted.iter();
        let is_wanted = wanted.any(|handler| handler.id == running.id);
        is_deleting || !(is_wanted || matching.unknown.contains(&running.id))
    };
    if !background.runs(is_unwanted) {
        return Vec::new();
    }
    // Stopping may take time.
    permit.release();
    let delays = background.stop(reason, is_unwanted).await;
    permit.reacquire().await;
    delays.into_iter().collect()
}

/// Returns `true` for a timer that waits until the object has been unchanged for some time.
fn idles(handler: &Handler) -> bool {
    matches!(
        handler.kind,
        HandlerKind::Timer(Timing { idle: Some(_), .. })
    )
}
