//! The observer: lists and watches the objects of one resource, and recovers from failures.
//!
//! Every request is followed by an [`Input`] to the [`Backoff`], which decides about the delay
//! before the next one. The reactions to listings are in `listing`, those to watches in `watching`.

mod listing;
mod sharding;
mod watching;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_core::body::ManagedFields;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use kopf_core::settings::{Restriction, Watching};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, Sleep, sleep};

use self::listing::Listing;
use self::sharding::Sharding;
use super::Signal;
use super::backoff::{Backoff, Input};
use super::pulse::Pulse;
use super::stream::WatchStream;
use super::version::Versions;
use crate::client::Client;
use crate::error::Error;
use crate::listing::Page;
use crate::transport::ResponseBody;

/// An endless source of [`Signal`]s about the objects of one resource; see
/// [`observe`](super::observe).
pub struct Observer {
    client: Client,
    resource: Arc<Resource>,
    namespace: Option<String>,
    path: Result<String, Error>,
    /// The selector of listings and watches, as a part of a query; empty for all objects.
    selector: String,
    sharding: Sharding,
    initial: Initial,
    settings: Watching,
    managed_fields: ManagedFields,
    state: State,
    listing: Listing,
    versions: Versions,
    backoff: Backoff,
    pulse: Pulse,
}

/// The pending work of an observer. It is kept here and not in the future of
/// [`next`](Observer::next), so that this future can be dropped without losing anything.
enum State {
    /// A listing has to be started.
    Start,
    /// A page of the listing is requested.
    Requesting(BoxFuture<'static, Result<Page, Error>>),
    /// The items of a page are returned one by one.
    Reading(Page),
    /// A watch is requested.
    Opening(BoxFuture<'static, Result<ResponseBody, Error>>),
    /// A watch is open.
    Watching(Box<WatchStream>),
    /// A delay before the next request.
    Waiting(Pin<Box<Sleep>>, Next),
}

/// The way to the existing objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initial {
    /// By a listing, or they are known.
    Listed,
    /// By the watch that is open: they end with a bookmark.
    Streamed,
    /// By listings only: the server rejects streaming them.
    Refused,
}

/// The next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The first page of a new listing.
    List,
    /// The current page of the current listing.
    Page,
    /// A watch from the current version.
    Watch,
}

impl Next {
    /// Returns the input for a failure that is followed by this request.
    fn input(self, error: &Error) -> Input {
        match (self, error) {
            (Self::List, _) => Input::Relist,
            (Self::Page | Self::Watch, Error::Network { .. }) => Input::Unreachable,
            (Self::Page | Self::Watch, _) => Input::Failed,
        }
    }
}

impl Observer {
    pub(super) fn new(
        client: Client,
        resource: Arc<Resource>,
        namespace: Option<String>,
        settings: Watching,
    ) -> Self {
        let restriction = Restriction::of(&settings.selectors, &resource);
        let selector = query(&restriction);
        let path = resource.url(namespace.as_deref(), None, None);
        let path = path.map_err(Error::from);
        // FNV-1a over the path: observers of one client get different jitter.
        let seed = path
            .iter()
            .flat_map(|path| path.bytes())
            .fold(client.seed() ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        Self {
            backoff: Backoff::new(&settings, seed),
            listing: Listing::new(settings.page_size),
            client,
            resource,
            namespace,
            path,
            selector,
            sharding: Sharding::new(&restriction.shard),
            initial: Initial::Listed,
            settings,
            managed_fields: ManagedFields::default(),
            state: State::Start,
            versions: Versions::default(),
            pulse: Pulse::new(),
        }
    }

    /// Observes only the object of this name. Permissions can then be restricted to it by
    /// `resourceNames`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        self.selector = format!("fieldSelector=metadata.name%3D{name}");
        self.sharding = Sharding::None;
        self
    }

    /// Sets whether items have `metadata.managedFields`. They are dropped by default.
    #[must_use]
    pub fn managed_fields(self, managed_fields: ManagedFields) -> Self {
        Self {
            managed_fields,
            ..self
        }
    }

    /// Returns the time of the last response or line from the server, bookmarks included.
    pub fn last_activity(&self) -> Instant {
        self.pulse.last()
    }

    /// Returns a handle that shows [`last_activity`](Self::last_activity) to other tasks.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Waits for the next signal. There is no limit on the time, but a dead connection is noticed
    /// and replaced.
    ///
    /// # Cancellation
    ///
    /// Cancel-safe: nothing is lost, and the next call continues from there.
    pub async fn next(&mut self) -> Signal {
        loop {
            // Pages and bursts of events are read without waiting, so that other tasks must get a
            // chance to run.
            consume_budget().await;
            let signal = match &mut self.state {
                State::Start => Some(self.start()),
                State::Requesting(response) => {
                    let response = response.await;
                    self.on_page(response)
                }
                State::Reading(page) => {
                    let item = page.next_item(self.managed_fields);
                    self.on_item(item)
                }
                State::Opening(response) => {
                    let response = response.await;
                    self.on_open(response)
                }
                State::Watching(stream) => {
                    let received = stream.next().await;
                    self.on_received(received)
                }
                State::Waiting(delay, next) => {
                    delay.as_mut().await;
                    let next = *next;
                    self.request(next);
                    None
                }
            };
            match signal {
                Some(Signal::Item(item)) if !self.sharding.admits(&item) => {
                    self.listing.foreign += usize::from(item.event == EventType::Listed);
                }
                Some(signal) => return signal,
                None => {}
            }
        }
    }

    /// Describes the observed objects for messages.
    fn scope(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in {namespace:?}", self.resource),
            None => self.resource.to_string(),
        }
    }

    fn request(&mut self, next: Next) {
        match next {
            Next::List => self.state = State::Start,
            Next::Page => self.request_page(),
            Next::Watch => self.open(),
        }
    }

    fn step(&mut self, input: Input) -> Duration {
        self.backoff.step(input, Instant::now())
    }

    /// Reports a failure and schedules the next request, not earlier than the server allows.
    fn fail(&mut self, error: Error, next: Next) -> Signal {
        let delay = self.step(next.input(&error));
        let after = self.client.retry_after(&error);
        let delay = after.map_or(delay, |after| after.max(delay));
        self.interrupt(error, delay, next)
    }

    /// Reports a failure that lasts until a person changes something, such as permissions.
    fn refuse(&mut self, error: Error) -> Signal {
        let input = if error.is_not_found() {
            Input::Missing
        } else {
            Input::Refused
        };
        let delay = self.step(input);
        self.wait(delay, Next::List);
        Signal::Failure {
            error,
            retry_in: delay,
            permanent: true,
        }
    }

    fn interrupt(&mut self, error: Error, delay: Duration, next: Next) -> Signal {
        self.wait(delay, next);
        Signal::Failure {
            error,
            retry_in: delay,
            permanent: false,
        }
    }

    fn wait(&mut self, delay: Duration, next: Next) {
        if delay.is_zero() {
            self.request(next);
        } else {
            self.state = State::Waiting(Box::pin(sleep(delay)), next);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Start => "start",
            State::Requesting(_) => "requesting",
            State::Reading(_) => "reading",
            State::Opening(_) => "opening",
            State::Watching(_) => "watching",
            State::Waiting(..) => "waiting",
        };
        f.debug_struct("Observer")
            .field("scope", &self.scope())
            .field("state", &state)
            .field("version", &self.versions.current())
            .finish_non_exhaustive()
    }
}

/// Returns the parameters of a restriction, as a part of a query.
fn query(restriction: &Restriction) -> String {
    let parameters = [
        ("labelSelector", &restriction.labels),
        ("fieldSelector", &restriction.fields),
        ("shardSelector", &restriction.shard),
    ];
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let given: Vec<_> = given
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
        .collect();
    given.join("&")
}
