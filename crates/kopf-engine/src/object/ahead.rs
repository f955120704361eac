//! Indexing before all indices are filled. It holds neither a permit nor a place among the limited
//! drivers while it waits, so there is no deadlock however few there are.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::finalizer;
use kopf_core::object::Input;

use super::ObjectPermit;
use super::driver::{Driver, Version};
use crate::queueing::{Processing as _, Queued};

/// The end of the wait for the indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// All indices are filled.
    Ready,
    /// There is nothing to wait for any longer.
    Over,
}

impl Driver {
    /// Waits until all indices are filled. Meanwhile the object is indexed, and nothing else is done
    /// to it.
    pub(super) async fn await_indices(&mut self) -> Waited {
        let context = Arc::clone(&self.context);
        let is_indexed = !context.indices.is_empty();
        while !context.is_ready() {
            if is_indexed {
                if self.indexes_ahead() && !self.mailbox.is_empty() {
                    let _worker_permit = context.worker_permit().await;
                    let mut permit = self.acquire_permit().await;
                    self.index_ahead(&mut permit).await;
                }
                self.blocker = None;
                if self.ahead.is_empty() {
                    self.mailbox.drop_nudge();
                    if self.mailbox.close() {
                        return Waited::Over;
                    }
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return Waited::Over,
                () = context.ready() => {}
                // Only the entry tells whether it is indexed ahead.
                () = self.mailbox.arrival(), if is_indexed => {}
            }
        }
        self.machine
            .step(Input::Indexed, &context.rules, context.now());
        Waited::Ready
    }

    /// Event handlers are called with every version, and must find that version in the indices. So
    /// with event handlers, only one version is indexed ahead of them; without, the newest one. An
    /// item of a repeated listing replaces that of the first one: otherwise the bytes of both would
    /// count, and a large listing could never be read to its end.
    fn indexes_ahead(&self) -> bool {
        let is_relisted = self.ahead.iter().all(Queued::is_listed) && self.mailbox.begins_listed();
        self.ahead.is_empty() || self.context.handlers.watching.is_empty() || is_relisted
    }

    /// Indexes what has arrived, and keeps the newest version of it for later, unless indexing is
    /// all there is to do.
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

    /// Most objects of most indexed resources are there to be indexed only.
    fn is_handled_later(&self, event: EventType, body: &Body) -> bool {
        let finalizer = &self.context.shared.context.settings.persistence.finalizer;
        self.context.is_handled()
            || event == EventType::Deleted
            || finalizer::is_blocked(body, finalizer)
    }
}
