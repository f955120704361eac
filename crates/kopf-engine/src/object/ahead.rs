//! Indexing before all indices are filled. A waiting object holds neither an object permit nor a
//! worker permit, so small limits cannot cause a deadlock.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::finalizer;
use kopf_core::object::Input;

use super::ObjectPermit;
use super::driver::{Driver, Version};
use crate::queueing::{Processing as _, Queued};

/// The result of waiting for the indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndicesWait {
    /// All indices are filled.
    Ready,
    /// There is no pending work, or the stream is stopped.
    Over,
}

impl Driver {
    /// Waits until all indices are filled. Meanwhile, the object is only indexed.
    pub(super) async fn await_indices(&mut self) -> IndicesWait {
        let context = Arc::clone(&self.context);
        let is_indexed = !context.indices.is_empty();
        while !context.is_ready() {
            if is_indexed {
                if self.indexes_ahead() && !self.mailbox.is_empty() {
                    let _worker_permit = context.worker_permit().await;
                    let mut permit = self.acquire_permit().await;
                    Box::pin(self.index_ahead(&mut permit)).await;
                }
                self.blocker = None;
                if self.ahead.is_empty() {
                    self.mailbox.drop_nudge();
                    if self.mailbox.close() {
                        return IndicesWait::Over;
                    }
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return IndicesWait::Over,
                () = context.ready() => {}
                // The next entry determines whether the object is indexed ahead.
                () = self.mailbox.arrival(), if is_indexed => {}
            }
        }
        self.machine
            .step(Input::Indexed, &context.rules, context.now());
        IndicesWait::Ready
    }

    /// Returns `true` if the next version is indexed before all indices are filled. Event handlers
    /// are called with every version and must find that version in the indices; so with event
    /// handlers, only one version is indexed ahead, and without them, the newest one. An item of a
    /// repeated listing replaces that of the first listing: otherwise the bytes of both would
    /// count, and a large listing could never be read completely.
    fn indexes_ahead(&self) -> bool {
        let is_relisted = self.ahead.iter().all(Queued::is_listed) && self.mailbox.begins_listed();
        self.ahead.is_empty() || self.context.handlers.watching.is_empty() || is_relisted
    }

    /// Indexes the queued entries, and keeps the newest version for later unless the object is only
    /// indexed.
    async fn index_ahead(&mut self, permit: &mut ObjectPermit) {
        while self.indexes_ahead()
            && let Some(entry) = self.mailbox.pop()
        {
            match &entry {
                Queued::Vanished => {
                    self.context.indices.discard(&self.key);
                    self.state.indexing = None;
                }
                Queued::Nudge => continue,
                Queued::Event { event, raw, .. } => {
                    let event = *event;
                    // An unreadable version is kept and reported later.
                    let managed = self.context.shared.context.managed_fields;
                    if let Ok((body, _)) = Body::parse_with(raw, managed) {
                        let is_handled = self.is_handled_later(event, &body);
                        self.taken = Some(Version { event, body });
                        self.feed(
                            Input::Event {
                                event,
                                version: None,
                            },
                            permit,
                        )
                        .await;
                        self.taken = None;
                        if !is_handled {
                            self.ahead.clear();
                            continue;
                        }
                    }
                }
            }
            if self.ahead.back().is_some_and(Queued::is_alive) {
                self.ahead.pop_back();
            }
            self.ahead.push_back(entry);
        }
    }

    /// Returns `true` if the version must be handled after the wait. Most objects of indexed
    /// resources are only indexed.
    fn is_handled_later(&self, event: EventType, body: &Body) -> bool {
        let finalizer = &self.context.shared.context.settings.persistence.finalizer;
        self.context.is_handled()
            || event == EventType::Deleted
            || finalizer::is_blocked(body, finalizer)
    }
}
