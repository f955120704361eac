//! Daemons and timers of an object: started while they match, stopped when they do not.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::StopReason;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::{HandlerKind, Timing};

use super::Error;
use crate::daemons::ObjectDaemons;
use crate::invocation::{FilterContext, Handler};
use crate::logger::ObjectLogger;
use crate::queueing::{Holding, Kind, Memory};

/// What is known of the daemons and timers of an object after a cycle has looked at them.
#[derive(Debug, Default)]
pub(crate) struct Spawned {
    /// Whether any of them is to run, so that the object must not vanish without it.
    pub(crate) required: bool,
    /// When to look again at those that are being stopped.
    pub(crate) delays: Vec<Duration>,
    /// Why it is not known whether some of them are to run. These are left as they are.
    pub(crate) trouble: Option<Error>,
}

/// Starts what is to run, and goes on with stopping what is not.
pub(crate) async fn spawn(
    kind: &Kind,
    memory: &mut Memory,
    event: EventType,
    body: &Body,
    logger: &ObjectLogger,
    holding: &mut Holding,
) -> Result<Spawned, Error> {
    // Of an object that is gone, all is stopped with the memory of it.
    if kind.handlers.spawning.is_empty() || event == EventType::Deleted {
        return Ok(Spawned::default());
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
    let (mut unknown, mut trouble) = (Vec::new(), None);
    let mut wanted = kind
        .handlers
        .spawning_for(&cause, &context, |handler, error| {
            unknown.push(Arc::clone(&handler.id));
            trouble.get_or_insert(error);
        });
    let mut is_required = false;
    if let Some(background) = &memory.background {
        wanted.retain(|handler| !background.is_over(handler));
        background.refresh(body);
        is_required = background.runs(|running| unknown.contains(&running.id));
    }
    let mut spawned = Spawned {
        required: is_required || !wanted.is_empty(),
        delays: Vec::new(),
        trouble: trouble.map(Error::from),
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
            let persistence = &shared.context.settings.persistence;
            let fields = &kind.handlers.extra_fields;
            let mut essence = persistence.diffbase_storage.build(body, fields)?;
            persistence.progress_storage.clear(&mut essence)?;
            background.compare(&essence);
        }
        // While the operator is paused, those that run are stopped, wherever they are.
        if !shared.pause.is_paused() {
            for handler in &wanted {
                spawned.delays.extend(background.start(handler, body));
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
            holding.give_away();
            let delays = background.stop(reason, is_unwanted).await;
            spawned.delays.extend(delays);
            holding.take_again().await;
        }
    }
    Ok(spawned)
}

/// Whether it waits for the object to rest.
fn idles(handler: &Handler) -> bool {
    matches!(
        handler.kind,
        HandlerKind::Timer(Timing { idle: Some(_), .. })
    )
}
