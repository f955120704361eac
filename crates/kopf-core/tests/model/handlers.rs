//! The handlers of the model: their declarations, outcomes and effects.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::handler::{Cancellation, FunctionId, HandlerKind, HandlerSpec, Reconciliation};
use kopf_core::object::{Moment, Policy};
use kopf_core::outcome::{Outcome, Verdict};
use kopf_core::patch::PatchFn;
use kopf_core::progress::AnnotationsProgressStorage;
use kopf_core::registry::Registry;
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;
use kopf_core::settings::Settings;
use serde_json::json;

/// The handlers of the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Handlers {
    /// Handlers of creations and updates.
    pub(crate) changing: &'static [&'static str],
    /// Handlers of resuming.
    pub(crate) resuming: &'static [&'static str],
    /// Handlers of deletions.
    pub(crate) deleting: &'static [&'static str],
    /// Reconcile handlers.
    pub(crate) reconciling: &'static [&'static str],
    /// Reconcile handlers that are also called for deletions, which wait for them.
    pub(crate) holding: &'static [&'static str],
    /// There is a daemon.
    pub(crate) daemon: bool,
    /// Handlers of changes are woken up by children, whose handler changes the object.
    pub(crate) owns: bool,
    /// Handlers of changes leave a mark on the object by a transformation.
    pub(crate) marks: bool,
}

impl Handlers {
    pub(super) fn policy(self, lost_updates: bool) -> Policy<()> {
        let resource = Resource {
            version: "v1".to_owned(),
            plural: "things".to_owned(),
            kind: "Thing".to_owned(),
            preferred: true,
            ..Resource::default()
        };
        let mut registry = Registry::default();
        let mut add = |id: &str, kind| {
            let mut spec = HandlerSpec::new(id, FunctionId::Number(1), kind);
            spec.selector = Some(Selector::parse(&["things"]).unwrap());
            let is_woken = kind == HandlerKind::Update || kind.reconciliation().is_some();
            if self.owns && is_woken {
                spec.owns = vec![Selector::parse(&["children"]).unwrap()];
            }
            registry.add(spec.build(()).unwrap());
        };
        for id in self.changing {
            add(id, HandlerKind::Create);
            add(id, HandlerKind::Update);
        }
        for id in self.resuming {
            add(id, HandlerKind::Resume { deleted: false });
        }
        for id in self.deleting {
            add(id, HandlerKind::Delete { optional: false });
        }
        for (ids, finalizer) in [(self.reconciling, false), (self.holding, true)] {
            let every = None;
            for id in ids {
                add(
                    id,
                    HandlerKind::Reconcile(Reconciliation { every, finalizer }),
                );
            }
        }
        if self.daemon {
            add("daemon", HandlerKind::Daemon(Cancellation::NONE));
        }
        let mut settings = Settings::default();
        settings.persistence.progress_storage = Arc::new(AnnotationsProgressStorage::default());
        settings.persistence.lost_updates = lost_updates;
        let handlers = registry.for_resource(&resource);
        Policy::new(Arc::new(resource), handlers, Arc::new(settings))
    }
}

impl Handlers {
    /// Returns the handlers that are called for a deletion.
    pub(super) fn of_deletion(self) -> impl Iterator<Item = &'static str> {
        self.deleting.iter().chain(self.holding).copied()
    }
}

/// Returns the time of a moment.
pub(super) fn timestamp(now: Moment) -> Timestamp {
    let start = Timestamp::from_second(1_700_000_000).unwrap();
    start + now.since(Moment::default())
}

/// The delay of handlers that are retried.
pub(crate) const RETRY: Duration = Duration::from_secs(10);

/// Returns the outcome of a call.
pub(super) fn attempt(succeeds: bool) -> Outcome {
    Outcome {
        is_final: succeeds,
        delay: (!succeeds).then_some(RETRY),
        value: None,
        error: (!succeeds).then(|| "not yet".to_owned()),
        subrefs: std::collections::BTreeSet::new(),
        verdict: if succeeds {
            Verdict::Succeeded
        } else {
            Verdict::FailedTemporarily
        },
        details: None,
        attachment: None,
    }
}

/// Returns a transformation that notes on the object that a handler has succeeded.
pub(super) fn mark(handler: &'static str) -> PatchFn {
    PatchFn::new(handler, move |body| {
        body["status"]["marks"][handler] = json!(true);
        Ok(())
    })
}
