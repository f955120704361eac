//! The parts of the patch of a cycle that belong to single handlers.
//!
//! All handlers of a cycle share one patch. If the server rejects it because of its size, the
//! handler that has added most of it fails, and the rest is written.

use std::sync::Arc;

use kopf_core::handler::{HandlerId, HandlerKind};
use kopf_core::patch::Patch;
use kopf_core::sync::Mutex;
use kopf_core::wording;

use crate::invocation::{Handler, SharedPatch};
use crate::logger::ObjectLogger;

/// The part of a patch that one handler has added: its result and its changes.
#[derive(Debug, Clone)]
pub(crate) struct Contribution {
    pub(crate) id: HandlerId,
    pub(crate) kind: HandlerKind,
    pub(crate) part: Patch,
}

impl Contribution {
    /// Adds a later contribution to a list with one item per handler.
    pub(crate) fn join(self, all: &mut Vec<Self>) {
        match all.iter_mut().find(|earlier| earlier.id == self.id) {
            Some(earlier) => earlier.part.merge_from(self.part),
            None => all.push(self),
        }
    }

    /// Takes the contribution with the largest share; `None` if all shares are zero.
    pub(crate) fn take_largest(
        all: &mut Vec<Self>,
        share: impl Fn(&Patch) -> usize,
    ) -> Option<Self> {
        let shares = all.iter().map(|one| share(&one.part)).enumerate();
        let largest = shares
            .filter(|(_, share)| *share > 0)
            .max_by_key(|(_, share)| *share);
        largest.map(|(position, _)| all.swap_remove(position))
    }

    /// Logs that the handler has failed because of its contribution.
    pub(crate) fn report(&self, message: &str, logger: &ObjectLogger) {
        let label = wording::label(self.kind, &self.id);
        let logger = logger.about(self.kind);
        logger.error(format_args!("{label} failed permanently: {message}"));
    }
}

/// Collects the contributions of handlers and sub-handlers in one cycle. Cheap to clone: clones
/// share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contributions(Arc<Mutex<Vec<Added>>>);

/// An addition to the patch.
#[derive(Debug)]
enum Added {
    ByHandler(Contribution),
    /// Progress records of sub-handlers.
    Records(Patch),
}

/// The state of the patch before a handler is called.
pub(super) struct Before {
    patch: Patch,
    /// The number of earlier additions.
    count: usize,
}

impl Contributions {
    /// Notes the state before a handler is called.
    pub(super) fn before(&self, patch: &SharedPatch) -> Before {
        Before {
            patch: patch.snapshot(),
            count: self.0.lock().len(),
        }
    }

    /// Adds the contribution of a handler, without those of its sub-handlers.
    pub(super) fn add(&self, handler: &Handler, before: Before, patch: &SharedPatch) {
        let now = patch.snapshot();
        if now.is_empty() {
            return;
        }
        let mut earlier = before.patch;
        // Without the lock, because dropping functions can run any code.
        for added in self.added_since(before.count) {
            earlier.merge_from(added);
        }
        let part = if earlier.is_empty() {
            now
        } else {
            now.since(&earlier)
        };
        if !part.is_empty() {
            let contribution = Contribution {
                id: Arc::clone(&handler.id),
                kind: handler.kind,
                part,
            };
            self.0.lock().push(Added::ByHandler(contribution));
        }
    }

    fn added_since(&self, count: usize) -> Vec<Patch> {
        let all = self.0.lock();
        let patches = all.iter().skip(count).map(|added| match added {
            Added::ByHandler(sub) => sub.part.clone(),
            Added::Records(records) => records.clone(),
        });
        patches.collect()
    }

    /// Notes that the progress records of sub-handlers are added to the patch.
    pub(super) fn add_records(&self, records: Patch) {
        self.0.lock().push(Added::Records(records));
    }

    /// Takes the contributions of handlers.
    pub(crate) fn take(&self) -> Vec<Contribution> {
        let added = std::mem::take(&mut *self.0.lock());
        let contributions = added.into_iter().filter_map(|added| match added {
            Added::ByHandler(contribution) => Some(contribution),
            Added::Records(_) => None,
        });
        contributions.collect()
    }
}
