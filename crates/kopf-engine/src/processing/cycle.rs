//! What is to be done about one version of an object.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change, EventType, Reason, detect};
use kopf_core::diff::{Diff, diff};
use kopf_core::finalizer::{self, Decision};
use kopf_core::patch::Patch;
use kopf_core::wording;
use serde_json::Value;

use super::{Error, changing, spawning};
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;
use crate::queueing::{Holding, Kind, Memory};

/// One cycle.
pub(crate) struct Cycle<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) memory: &'a mut Memory,
    pub(crate) event: EventType,
    pub(crate) body: &'a Body,
    /// What event handlers want to be written.
    pub(crate) patch: Patch,
    /// Whether the version is at least as new as the last own write.
    pub(crate) consistent: bool,
    pub(crate) logger: &'a ObjectLogger,
}

/// What a cycle has come to.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) verdict: Verdict,
    pub(crate) patch: Patch,
    /// After which times the object is to be looked at again.
    pub(crate) delays: Vec<Duration>,
    /// Whether something has changed that was not handled: there was something to be written first.
    pub(crate) skipped: bool,
    /// Whether handlers of changes were asked at all.
    pub(crate) considered: bool,
    /// Whether any of them was due.
    pub(crate) attempted: bool,
    /// The essence that is stored as handled, if all is over.
    pub(crate) settled: Option<Arc<Value>>,
    /// What has failed after handlers were called: what came out of them is not to be lost.
    pub(crate) trouble: Option<Error>,
}

/// Whether the cycle has come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has.
    Decided,
    /// It has not: an own write is to be seen first.
    Gated,
}

impl Cycle<'_> {
    /// Decides, and runs the handlers that are due.
    ///
    /// # Cancellation
    /// Running handlers are dropped; nothing is written.
    pub(crate) async fn decide(self, holding: &mut Holding) -> Result<Decided, Error> {
        let Self {
            kind,
            memory,
            event,
            body,
            mut patch,
            consistent,
            logger,
        } = self;
        let memo = memory.memo(&kind.shared.context.memo);
        let context = FilterContext::new(Arc::clone(&kind.shared.context), memo, logger);
        let finalizer = &kind.shared.context.settings.persistence.finalizer;
        // What was refused comes first: what is decided below is decided after it.
        let carried = !memory.remaining.is_empty();
        patch.fns.splice(..0, memory.remaining.iter().cloned());

        let spawned = spawning::spawn(kind, memory, event, body, logger, holding).await?;
        let mut skipped = false;
        let mut cause = changing_cause(kind, memory, event, body, logger)?;
        // In stealth, the object is as good as invisible.
        if let Some(visible) = &cause
            && !kind.handlers.prematches_any(visible, &context)?
        {
            cause = None;
        }
        let mut kept = false;
        if event != EventType::Deleted {
            let required = match &cause {
                _ if spawned.required => true,
                Some(cause) => kind.handlers.requires_finalizer(cause, &context)?,
                None => false,
            };
            kept = required && finalizer::is_blocked(body, finalizer);
            match finalizer::decide(required, body, finalizer) {
                Decision::Nothing => {}
                Decision::Add => {
                    logger.local().debug(wording::ADDING_FINALIZER);
                    patch.add_fn(finalizer::add_fn(finalizer));
                    skipped |= cause.take().is_some();
                }
                Decision::Remove => {
                    logger.local().debug(wording::DROPPING_FINALIZER);
                    patch.add_fn(finalizer::remove_fn(finalizer));
                    skipped |= cause.take().is_some();
                }
            }
        }
        let reason = cause.as_ref().and_then(|cause| cause.change.as_ref());
        let gone = reason.is_some_and(|change| change.reason == Reason::Gone);
        if cause.is_some() && !gone && !consistent && patch.is_empty() {
            return Ok(Decided {
                verdict: Verdict::Gated,
                patch,
                delays: spawned.delays,
                skipped: true,
                considered: false,
                attempted: false,
                settled: None,
                trouble: None,
            });
        }
        if !gone && (!consistent || carried) {
            skipped |= cause.take().is_some();
        }
        let mut delays = spawned.delays;
        let considered = cause.is_some();
        let (mut attempted, mut settled, mut trouble) = (false, None, None);
        if let Some(cause) = cause {
            let handled = changing::handle(
                kind,
                memory,
                cause,
                patch,
                logger,
                holding,
                !delays.is_empty(),
            )
            .await?;
            patch = handled.patch;
            delays.extend(handled.delays);
            (attempted, settled, trouble) = (handled.attempted, handled.settled, handled.trouble);
        }
        // All handlers are over, and all that has run beside the object has ended.
        if kept && body.is_deleting() && !skipped && delays.is_empty() && trouble.is_none() {
            logger.local().debug(wording::REMOVING_FINALIZER);
            patch.add_fn(finalizer::remove_fn(finalizer));
        }
        let trouble = trouble.or(spawned.trouble);
        Ok(Decided {
            verdict: Verdict::Decided,
            patch,
            delays,
            skipped,
            considered,
            attempted,
            settled,
            trouble,
        })
    }
}

/// What has changed; `None` if nobody wants to know.
fn changing_cause(
    kind: &Kind,
    memory: &Memory,
    event: EventType,
    body: &Body,
    logger: &ObjectLogger,
) -> Result<Option<Cause>, Error> {
    if kind.handlers.changing.is_empty() {
        return Ok(None);
    }
    let persistence = &kind.shared.context.settings.persistence;
    let (diffbase, progress) = (&persistence.diffbase_storage, &persistence.progress_storage);
    let mut new = diffbase.build(body, &kind.handlers.extra_fields)?;
    progress.clear(&mut new)?;
    let new = Arc::new(new);
    // Most objects are as they were left: then there is nothing to parse and to compare.
    let old = if diffbase.is_stored(body, &new) {
        Some(Arc::clone(&new))
    } else {
        let mut old = match diffbase.fetch(body) {
            // Otherwise, it would never go. All others stay as they are until somebody repairs it:
            // without it they would look as if they were new.
            Err(error) if error.is_unreadable() && body.is_deleting() => {
                super::warn_unreadable(&error, logger);
                None
            }
            old => old?,
        };
        if let Some(old) = &mut old {
            progress.clear(old)?;
        }
        old.map(Arc::new)
    };
    let diff: Diff = match &old {
        Some(old) if Arc::ptr_eq(old, &new) => Diff::default(),
        Some(old) => diff(old, &new),
        None => diff(&Value::Null, &new),
    };
    let detected = detect(
        event,
        body,
        &persistence.finalizer,
        old.is_some(),
        diff.is_empty(),
        memory.initial(),
    );
    Ok(Some(Cause {
        resource: Arc::clone(&kind.resource),
        body: body.clone(),
        event: None,
        change: Some(Change {
            reason: detected.reason,
            initial: detected.initial,
            old,
            new: Some(new),
            diff,
        }),
    }))
}
