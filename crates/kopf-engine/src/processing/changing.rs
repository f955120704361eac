//! Handling of a change: which handlers are due, their outcomes, their progress, and whether it is
//! over.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change, Reason};
use kopf_core::diffbase::DiffBaseStorage;
use kopf_core::equality::equal;
use kopf_core::patch::Patch;
use kopf_core::progress::state::State;
use kopf_core::wording;
use serde_json::Value;

use super::{Error, applying};
use crate::execution::Execution;
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;
use crate::queueing::{Holding, Kind, Memory};

/// What the handling has come to in this cycle.
#[derive(Debug)]
pub(crate) struct Handled {
    pub(crate) patch: Patch,
    pub(crate) delays: Vec<Duration>,
    /// Whether any handler was due.
    pub(crate) attempted: bool,
    /// The essence that is stored as handled, if all is over.
    pub(crate) settled: Option<Arc<Value>>,
    /// What has failed after handlers were called.
    pub(crate) trouble: Option<Error>,
}

impl Handled {
    fn without_handlers(patch: Patch) -> Self {
        Self {
            patch,
            delays: Vec::new(),
            attempted: false,
            settled: None,
            trouble: None,
        }
    }
}

/// Handles one cause for one cycle. With `others`, there is more that a deletion waits for: until
/// then, the records stay, so that what is finished is not begun again.
pub(crate) async fn handle(
    kind: &Kind,
    memory: &mut Memory,
    cause: Cause,
    patch: Patch,
    logger: &ObjectLogger,
    holding: &mut Holding,
    others: bool,
) -> Result<Handled, Error> {
    let Some(change) = cause.change.clone() else {
        return Ok(Handled::without_handlers(patch));
    };
    match change.reason {
        Reason::Gone => {
            logger.debug(wording::GONE);
            return Ok(Handled::without_handlers(patch));
        }
        Reason::Free => {
            logger.debug(wording::FREE);
            return Ok(Handled::without_handlers(patch));
        }
        Reason::Noop => {
            logger.debug(wording::NOOP);
            return Ok(Handled::without_handlers(patch));
        }
        Reason::Create | Reason::Update | Reason::Delete | Reason::Resume => {}
    }
    let context = kind.shared.context.as_ref();
    let progress = Arc::clone(&context.settings.persistence.progress_storage);
    let reason = change.reason;

    let owned = || kind.handlers.owned_ids();
    let memo = memory.memo(&context.memo);
    let filtering = FilterContext::new(Arc::clone(&kind.shared.context), memo.clone(), logger);
    let handlers = kind.handlers.selected(&cause, &filtering)?;
    let mut state = State::load(progress.as_ref(), &cause.body, owned())?;
    for error in state.unreadable() {
        super::warn_unreadable(error, logger);
    }
    state.activate(
        handlers.iter().map(|handler| &handler.id),
        reason,
        context.clock.now(),
    );
    let mut patch = patch;
    let extras = state.extras(reason);
    if !extras.is_empty() {
        for extra in &extras {
            let counts = (extra.succeeded, extra.failed, extra.left);
            let (succeeded, failed, left) = counts;
            logger.info(wording::superseded(
                &extra.purpose,
                reason,
                succeeded,
                failed,
                left,
            ));
        }
        state.repurpose(reason);
        if state.has_extras(reason) {
            state.purge(progress.as_ref(), &cause.body, &mut patch, owned())?;
        }
    }
    log_beginning(&cause, &change, logger);
    let body = cause.body.clone();
    let base = DiffBase {
        storage: context.settings.persistence.diffbase_storage.as_ref(),
        change: &change,
        body: &body,
        logger,
    };
    if handlers.is_empty() {
        base.store(&mut patch)?;
        memory.fully_handled_once = true;
        return Ok(Handled::without_handlers(patch));
    }
    let execution =
        Execution::new(&kind.shared.executor, cause, logger.clone(), memo).with_patch(patch);
    holding.give_away();
    let attempted = execution.round(&handlers, &mut state).await;
    holding.take_again().await;

    // From here on, an error must not lose what has come out of the handlers.
    let mut handled = Handled {
        patch: execution.patch.take(),
        delays: Vec::new(),
        attempted,
        settled: None,
        trouble: None,
    };
    // What is purged at once need not be stored.
    let pointless = state.is_done() && progress.leaves_no_trace();
    if !pointless && let Err(error) = state.store(progress.as_ref(), &body, &mut handled.patch) {
        handled.trouble = Some(error.into());
    }
    if !state.is_done() {
        handled.delays = state.delays(context.clock.now());
        return Ok(handled);
    }
    if others && reason == Reason::Delete {
        return Ok(handled);
    }
    let counts = state.counts();
    let mut over = handled.patch.clone();
    let ending = base
        .store(&mut over)
        .and_then(|()| Ok(state.purge(progress.as_ref(), &body, &mut over, owned())?));
    // What is tried again for the sake of the diff-base alone is not said again.
    if attempted || ending.is_ok() {
        logger.info(wording::processed(reason, counts.succeeded, counts.failed));
    }
    match ending {
        Ok(()) => {
            handled.patch = over;
            handled.settled.clone_from(&change.new);
            memory.fully_handled_once = true;
        }
        Err(error) => {
            // Without the diff-base, the records are the only sign that the handlers have succeeded.
            let stored = if pointless {
                state.store(progress.as_ref(), &body, &mut handled.patch)
            } else {
                Ok(())
            };
            handled.trouble = Some(stored.err().map_or(error, Error::from));
        }
    }
    Ok(handled)
}

/// What is remembered as handled.
struct DiffBase<'a> {
    storage: &'a dyn DiffBaseStorage,
    change: &'a Change,
    body: &'a Body,
    logger: &'a ObjectLogger,
}

impl DiffBase<'_> {
    fn store(&self, patch: &mut Patch) -> Result<(), Error> {
        let old = self.change.old.as_ref();
        if let Some(new) = &self.change.new
            && !old.is_some_and(|old| equal(old, new))
        {
            let mut base = Patch::default();
            let stored = self.storage.store(self.body, &mut base, new);
            let stored = stored.map_err(Error::from);
            match stored.and_then(|()| applying::check_size(self.body, patch, &base)) {
                Ok(()) => patch.merge_from(base),
                // What is about to vanish must not be kept because there is no room for its memory.
                Err(error) if self.change.reason == Reason::Delete => {
                    let error = error.chain();
                    self.logger
                        .warning(format_args!("The diff-base is not stored: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn log_beginning(cause: &Cause, change: &Change, logger: &ObjectLogger) {
    if logger.is_debug_enabled() {
        logger.debug(wording::in_progress(change.reason, &cause.body));
        if change.old.is_some() && !change.diff.is_empty() {
            logger.debug(wording::diff(change.reason, &change.diff));
        }
    }
}
