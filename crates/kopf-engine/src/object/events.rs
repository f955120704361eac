//! Processing of the events in the mailbox.

use bytes::Bytes;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::lenient::DEPTH_LIMIT;
use kopf_core::object::{Input, Snapshot};
use serde_json::Value;

use super::driver::{Driver, Version};
use super::persisting::Unsaved;
use super::{ObjectPermit, ObjectState};
use crate::error::Error;
use crate::queueing::{Processing as _, Queued};

/// Maximum number of consecutive postponements of a cycle because of newer events.
const MAX_POSTPONED: usize = 16;

impl Driver {
    /// Takes all queued versions, passes them to indices and event handlers, and runs a cycle for
    /// the newest one.
    pub(super) async fn on_events(&mut self, mut permit: ObjectPermit) {
        let mut drained = self.mailbox.drain();
        let now = self.context.now();
        for version in std::mem::take(&mut drained.superseded) {
            self.confirm_stamp(&version);
            self.feed(Input::Superseded { version }, &mut permit).await;
        }
        drained
            .entries
            .retain(|entry| !self.state.covers(entry, now));
        let ahead = std::mem::take(&mut self.ahead);
        let indexed = ahead.len();
        let count = indexed + drained.entries.len();
        if count == 0 && !self.context.is_owner() {
            return;
        }
        for (position, entry) in ahead.into_iter().chain(drained.entries).enumerate() {
            let taken = Taken {
                is_newest: position + 1 == count,
                is_indexed: position < indexed,
            };
            self.take(entry, taken, &mut permit).await;
        }
        let children = self.take_children();
        if count == 0 && children.is_empty() {
            return;
        }
        self.on_children(children, &mut permit).await;
        self.on_newest(&mut permit).await;
    }

    async fn take(&mut self, entry: Queued, taken: Taken, permit: &mut ObjectPermit) {
        let Queued::Event {
            event,
            version,
            raw,
        } = entry
        else {
            if let Some(newest) = &self.newest {
                self.context.notify_owners(EventType::Deleted, &newest.body);
            }
            self.feed(Input::Vanished, permit).await;
            return;
        };
        if let Some(version) = &version {
            self.confirm_stamp(version);
        }
        if !taken.is_newest && !self.context.keeps_every_version() {
            // Superseded versions are only processed by event handlers and indices.
            if let Some(version) = version {
                self.feed(Input::Superseded { version }, permit).await;
            }
            return;
        }
        let Some(body) = self.parse(&raw) else {
            return self.unreadable(event, taken, permit).await;
        };
        let now = self.context.now();
        let is_outdated = event != EventType::Deleted
            && version
                .as_deref()
                .is_some_and(|version| self.machine.is_outdated(version, now));
        self.context.notify_owners(event, &body);
        self.taken = Some(Version { event, body });
        self.is_indexed = taken.is_indexed;
        self.feed(Input::Event { event, version }, permit).await;
        let version = self.taken.take();
        if !is_outdated {
            self.newest = version;
        }
        if let (Some(background), Some(newest)) = (&self.state.background, &self.newest) {
            background.refresh(&newest.body);
        }
    }

    /// Parses a version. A parse error is stored as a failure.
    fn parse(&mut self, raw: &Bytes) -> Option<Body> {
        let managed = self.context.shared.context.managed_fields;
        match Body::parse_with(raw, managed) {
            Ok((body, cut)) => {
                if cut > 0 {
                    self.logger(&body).warning(format_args!(
                        "Values of the object are nested deeper than {DEPTH_LIMIT} levels, and \
                         are null for the operator: {cut}."
                    ));
                }
                Some(body)
            }
            Err(error) => {
                self.failure = Some(error.into());
                None
            }
        }
    }

    /// Handles a version that cannot be parsed. A deleted object is dropped; otherwise the next
    /// version is awaited.
    async fn unreadable(&mut self, event: EventType, taken: Taken, permit: &mut ObjectPermit) {
        if event == EventType::Deleted {
            self.report(None);
            self.feed(Input::Vanished, permit).await;
        } else if taken.is_newest {
            self.feed(Input::Failed, permit).await;
        } else {
            self.report(None);
        }
    }

    async fn on_newest(&mut self, permit: &mut ObjectPermit) {
        let Some(newest) = &self.newest else { return };
        if self.context.only_notifies_owners() && newest.event != EventType::Deleted {
            return;
        }
        // Event handlers may have been slow, and change handlers need only the newest version.
        let event = newest.event;
        let gives_way = self.context.keeps_every_version() && !self.mailbox.is_empty();
        if event != EventType::Deleted && gives_way && self.postponed < MAX_POSTPONED {
            self.postponed += 1;
            return;
        }
        self.postponed = 0;
        let snapshot = snapshot(&newest.body);
        self.feed(Input::Newest { event, snapshot }, permit).await;
    }

    /// Drops the state of the object.
    pub(super) fn forget(&mut self) {
        let mut state = ObjectState::default();
        if self.is_indexed {
            state.indexing = self.state.indexing.take();
        } else {
            self.context.indices.discard(&self.key);
        }
        self.state = state;
        self.logger = None;
        self.newest = None;
        self.patch = kopf_core::patch::Patch::default();
        self.origins.contributed.clear();
        self.origins.recorded.clear();
        self.unsaved = Unsaved::default();
        self.sending = None;
        self.response = None;
        self.origins.stamp = None;
        self.cycle = None;
        self.tended = None;
    }

    /// Logs the last failure of the framework.
    pub(super) fn report(&mut self, retry_in: Option<std::time::Duration>) {
        let Some(error) = self.failure.take() else {
            return;
        };
        if let (Error::NotHeld, Some(logger)) = (&error, &self.logger) {
            // Not a failure: the replica that holds the Lease goes on.
            logger.local().warning(error.chain());
            return;
        }
        if let (Some(metrics), Some(_)) = (&self.context.metrics, retry_in) {
            metrics.cycle_failed();
        }
        let error = error.chain();
        let Some(logger) = self.logger.as_ref().map(crate::logger::ObjectLogger::local) else {
            let resource = &self.context.resource;
            tracing::error!("An object of {resource} is not processed: {error}");
            return;
        };
        match retry_in {
            Some(delay) => logger.error(kopf_core::wording::throttling(delay, error)),
            None => logger.error(format_args!("Processing has failed: {error}")),
        }
    }

    /// Logs a failure without effects on the cycle.
    pub(super) fn report_only(&mut self, error: Error) {
        self.failure = Some(error);
        self.report(None);
    }
}

/// The position of an entry among those that are taken together.
#[derive(Clone, Copy)]
struct Taken {
    is_newest: bool,
    is_indexed: bool,
}

/// Returns the parts of an object that express the intentions of its users.
pub(super) fn snapshot(body: &Body) -> Snapshot {
    let generation = body.metadata().get("generation");
    Snapshot {
        generation: generation.and_then(Value::as_i64),
        deleting: body.is_deleting(),
    }
}
