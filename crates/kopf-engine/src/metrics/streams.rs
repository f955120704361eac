//! Metrics of watch streams.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kopf_client::watching::Pulse;
use kopf_core::sync::Mutex;
use tokio::time::Instant;

use super::resources::ResourceMetrics;

/// The queue of a stream.
pub(crate) trait QueueSize: std::fmt::Debug + Send + Sync {
    /// Returns the number of queued entries.
    fn entries(&self) -> usize;

    /// Returns the size of the queued entries.
    fn bytes(&self) -> usize;
}

/// The open streams of one resource.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Vec<Weak<StreamState>>>);

labels! {
    /// The state of a stream as a label.
    pub(crate) enum StreamLabel {
        /// The objects are being listed.
        Listing = "listing",
        /// The listing is complete.
        Watching = "watching",
        /// The connection has failed, and is retried.
        Interrupted = "interrupted",
        /// The server rejects the watch.
        Refused = "refused",
        /// The operator is paused.
        Paused = "paused",
    }
}

#[derive(Debug)]
pub(super) struct StreamState {
    queued: Arc<dyn QueueSize>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    label: StreamLabel,
    since: Instant,
    pulse: Option<Pulse>,
    listings: u64,
}

/// The metrics of one stream. Dropping it closes the stream.
#[derive(Debug)]
pub(crate) struct StreamMetrics {
    resource: Arc<ResourceMetrics>,
    state: Arc<StreamState>,
}

impl StreamMetrics {
    pub(crate) fn new(resource: Arc<ResourceMetrics>, queued: Arc<dyn QueueSize>) -> Self {
        let inner = Inner {
            label: StreamLabel::Listing,
            since: Instant::now(),
            pulse: None,
            listings: 0,
        };
        let state = Arc::new(StreamState {
            queued,
            inner: Mutex::new(inner),
        });
        let mut streams = resource.streams.0.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&state));
        drop(streams);
        Self { resource, state }
    }

    /// Returns the metrics of the resource.
    pub(crate) fn resource(&self) -> &Arc<ResourceMetrics> {
        &self.resource
    }

    /// Sets the state.
    pub(crate) fn set(&self, label: StreamLabel) {
        let mut inner = self.state.inner.lock();
        inner.label = label;
        inner.since = Instant::now();
    }

    /// Records a new connection with this pulse.
    pub(crate) fn listening(&self, pulse: Pulse) {
        let mut inner = self.state.inner.lock();
        inner.label = StreamLabel::Listing;
        let past = inner.pulse.replace(pulse);
        drop(inner);
        self.keep_reconnects(past.as_ref());
    }

    /// Counts a listing.
    pub(crate) fn listing(&self) {
        let mut inner = self.state.inner.lock();
        inner.label = StreamLabel::Listing;
        inner.listings += 1;
        let is_first = inner.listings == 1;
        drop(inner);
        if !is_first {
            self.resource.relisted();
        }
    }

    fn keep_reconnects(&self, past: Option<&Pulse>) {
        let past = past.map_or(0, Pulse::reconnects);
        let total = &self.resource.past_reconnects;
        total.fetch_add(past, Ordering::Relaxed);
    }
}

impl Drop for StreamMetrics {
    fn drop(&mut self) {
        let pulse = self.state.inner.lock().pulse.take();
        self.keep_reconnects(pulse.as_ref());
    }
}

impl Streams {
    /// Returns the open streams.
    pub(super) fn all(&self) -> Vec<Arc<StreamState>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl StreamState {
    /// Returns the state. A stream is no longer interrupted once the server has responded.
    pub(super) fn label(&self) -> StreamLabel {
        let inner = self.inner.lock();
        let heard = inner.pulse.as_ref().map(Pulse::last);
        match inner.label {
            StreamLabel::Interrupted if heard.is_some_and(|heard| heard > inner.since) => {
                StreamLabel::Watching
            }
            label => label,
        }
    }

    pub(super) fn queued(&self) -> &dyn QueueSize {
        &*self.queued
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.inner
            .lock()
            .pulse
            .as_ref()
            .map_or(0, Pulse::reconnects)
    }

    /// Returns the time since the last response or line; `None` if the stream is paused.
    pub(super) fn age(&self) -> Option<Duration> {
        let inner = self.inner.lock();
        let pulse = inner.pulse.as_ref()?;
        (inner.label != StreamLabel::Paused).then(|| pulse.last().elapsed())
    }
}
