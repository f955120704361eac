//! The state machine of watching: list, watch, recover.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kopf_core::resource::Resource;
use kopf_core::settings::Watching;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, warn};

use super::Signal;
use super::backoff::Backoff;
use super::line::Line;
use super::pulse::Pulse;
use super::stream::{Heard, Stream};
use crate::client::Client;
use crate::error::Error;
use crate::listing::{Page, page};
use crate::request::Call;
use crate::transport::Incoming;

/// How often to ask what is forbidden.
const REFUSED: Duration = Duration::from_secs(30);

/// How soon to ask for what does not exist for the first time: kinds can be brand new.
const ABSENT: Duration = Duration::from_secs(1);

/// Servers begin to answer a watch at once, however long it lasts. What does not is dead.
const OPENING: Duration = Duration::from_secs(20);

/// A watch that lasted this long was not ended for being a wrong one.
const USUAL: Duration = Duration::from_secs(1);

/// A watch that lasted this long shows that all is well.
const STEADY: Duration = Duration::from_secs(10);

/// How much bigger pages get when a listing was too slow.
const BIGGER: u32 = 8;

/// After this many failures in a row, the version to watch from is doubted.
const DOUBTFUL: u32 = 3;

/// Observes the objects of one kind; see [`observe`](super::observe).
pub struct Observer {
    client: Client,
    resource: Arc<Resource>,
    namespace: Option<String>,
    path: Result<String, Error>,
    /// Selector of listings and watches, as a part of a query; empty for all objects.
    selector: String,
    settings: Watching,
    state: State,
    listing: Listing,
    /// The version up to which everything is known.
    version: String,
    backoff: Backoff,
    pulse: Pulse,
}

/// A listing that is going on.
#[derive(Debug)]
struct Listing {
    /// How many objects at once; 0 for all of them.
    size: u32,
    /// Where the next page begins.
    next: String,
    objects: usize,
}

/// Everything that takes time is kept here, so that a caller can lose interest and come back.
enum State {
    /// A listing is to begin.
    Start,
    /// A page is asked for.
    Asking(BoxFuture<'static, Result<Page, Error>>),
    /// A page is gone through.
    Paging(Page),
    /// A watch is to be opened.
    Opening(BoxFuture<'static, Result<Incoming, Error>>),
    /// A watch is open.
    Watching(Box<Stream>),
    /// It is waited before the next try.
    Waiting(Pin<Box<Sleep>>, Next),
}

/// What to do after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    List,
    Page,
    Watch,
}

impl Observer {
    pub(super) fn new(
        client: Client,
        resource: Arc<Resource>,
        namespace: Option<String>,
        settings: Watching,
    ) -> Self {
        let path = resource.url(namespace.as_deref(), None, None);
        let path = path.map_err(Error::from);
        let seed = path
            .iter()
            .flat_map(|path| path.bytes())
            .fold(client.seed() ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        Self {
            backoff: Backoff::new(settings.reconnect_backoff, seed),
            listing: Listing {
                size: settings.page_size,
                next: String::new(),
                objects: 0,
            },
            client,
            resource,
            namespace,
            path,
            selector: String::new(),
            settings,
            state: State::Start,
            version: String::new(),
            pulse: Pulse::new(),
        }
    }

    /// Observes only the object of this name. Permissions can then be restricted to it by
    /// `resourceNames`.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
        self.selector = format!("fieldSelector=metadata.name%3D{name}");
        self
    }

    /// When something was last heard from the server: lines, bookmarks included, and answers.
    pub fn last_activity(&self) -> Instant {
        self.pulse.last()
    }

    /// The same, for somebody else.
    pub fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// What comes next. It can take forever, but not because of a lost connection.
    ///
    /// # Cancellation
    ///
    /// Cancel-safe: when dropped, nothing is lost, and the next call goes on from there.
    pub async fn next(&mut self) -> Signal {
        loop {
            // Pages and bursts have many items that need no waiting: others are to have their turns.
            consume_budget().await;
            let signal = match &mut self.state {
                State::Start => Some(self.begin()),
                State::Asking(asking) => {
                    let answer = asking.await;
                    self.on_page(answer)
                }
                State::Paging(page) => match page.next_item() {
                    Some(Ok(item)) => {
                        self.listing.objects += 1;
                        Some(Signal::Item(item))
                    }
                    Some(Err(error)) => {
                        warn!(
                            "Ignoring an object of {} that cannot be read: {error}",
                            self.resource
                        );
                        None
                    }
                    None => self.on_page_end(),
                },
                State::Opening(opening) => {
                    let answer = opening.await;
                    self.on_open(answer)
                }
                State::Watching(stream) => {
                    let heard = stream.next().await;
                    self.on_heard(heard)
                }
                State::Waiting(wait, next) => {
                    wait.as_mut().await;
                    let next = *next;
                    self.resume(next);
                    None
                }
            };
            if let Some(signal) = signal {
                return signal;
            }
        }
    }

    fn scope(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} in {namespace:?}", self.resource),
            None => self.resource.to_string(),
        }
    }

    fn resume(&mut self, next: Next) {
        match next {
            Next::List => self.state = State::Start,
            Next::Page => self.ask(),
            Next::Watch => self.open(),
        }
    }

    fn begin(&mut self) -> Signal {
        if let Err(error) = &self.path {
            let error = error.clone();
            let wait = self.backoff.scattered(REFUSED);
            return self.trouble(error, wait, true, Next::List);
        }
        self.listing.next.clear();
        self.listing.objects = 0;
        self.ask();
        Signal::Listing
    }

    fn ask(&mut self) {
        let Ok(path) = &self.path else {
            self.state = State::Start;
            return;
        };
        let mut page = page(path, self.listing.size, &self.listing.next);
        if !self.selector.is_empty() {
            page.push(if page.contains('?') { '&' } else { '?' });
            page.push_str(&self.selector);
        }
        let call = Call::get(page);
        let client = self.client.clone();
        self.state = State::Asking(Box::pin(async move {
            Page::parse(&client.ask_once(&call).await?)
        }));
    }

    fn on_page(&mut self, answer: Result<Page, Error>) -> Option<Signal> {
        let error = match answer {
            Ok(page) => {
                self.pulse.beat();
                self.state = State::Paging(page);
                return None;
            }
            Err(error) => error,
        };
        if error.is_gone() && !self.listing.next.is_empty() {
            // It takes longer to go through the pages than the server remembers. The bigger they
            // are, the less is left for the time after that.
            debug!(
                "Listing {} anew, because it was too slow: {error}",
                self.scope()
            );
            self.listing.size = self.listing.size.saturating_mul(BIGGER);
            let wait = self.backoff.next();
            self.wait(wait, Next::List);
            return None;
        }
        if error.is_transient() || error.is_unauthorized() {
            let wait = self.patience(&error);
            return Some(self.trouble(error, wait, false, Next::Page));
        }
        if error.code().is_none() || error.is_gone() {
            let wait = self.backoff.next();
            return Some(self.trouble(error, wait, false, Next::List));
        }
        Some(self.refused(error))
    }

    fn on_page_end(&mut self) -> Option<Signal> {
        let State::Paging(page) = &mut self.state else {
            return None;
        };
        let next = std::mem::take(&mut page.next);
        if next.is_empty() {
            self.version = std::mem::take(&mut page.resource_version);
            self.open();
            return Some(Signal::Listed {
                objects: self.listing.objects,
            });
        }
        self.listing.next = next;
        self.ask();
        None
    }

    fn open(&mut self) {
        let Ok(path) = &self.path else {
            self.state = State::Start;
            return;
        };
        let mut path = format!("{path}?watch=true&allowWatchBookmarks=true");
        if !self.selector.is_empty() {
            path = format!("{path}&{}", self.selector);
        }
        if !self.version.is_empty() {
            let version = utf8_percent_encode(&self.version, NON_ALPHANUMERIC);
            path = format!("{path}&resourceVersion={version}");
        }
        if let Some(timeout) = self.settings.server_timeout {
            path = format!("{path}&timeoutSeconds={}", timeout.as_secs().max(1));
        }
        let networking = self.client.networking();
        let limit = self
            .settings
            .connect_timeout
            .or(networking.connect_timeout)
            .or(networking
                .request_timeout
                .map(|timeout| timeout.min(OPENING)));
        let (client, call) = (self.client.clone(), Call::get(path));
        self.state = State::Opening(Box::pin(async move { client.open(&call, limit).await }));
    }

    fn on_open(&mut self, answer: Result<Incoming, Error>) -> Option<Signal> {
        let error = match answer {
            Ok(body) => {
                self.pulse.beat();
                let (lifetime, inactivity) = (
                    self.settings.client_timeout,
                    self.settings.inactivity_timeout,
                );
                self.state = State::Watching(Box::new(Stream::new(body, lifetime, inactivity)));
                return None;
            }
            Err(error) => error,
        };
        match error.code() {
            Some(410) => {
                self.forgotten(&error);
                None
            }
            Some(403..=405) => Some(self.refused(error)),
            code => {
                let wait = self.patience(&error);
                // The version can be the reason: from the future after a restored backup, or from
                // another kind of storage.
                let doubtful = match code {
                    None | Some(401 | 429) => false,
                    Some(500..) => self.backoff.failures() >= DOUBTFUL,
                    Some(_) => true,
                };
                let next = if doubtful { Next::List } else { Next::Watch };
                Some(self.trouble(error, wait, false, next))
            }
        }
    }

    fn on_heard(&mut self, heard: Heard) -> Option<Signal> {
        let State::Watching(stream) = &self.state else {
            return None;
        };
        let (age, productive) = (stream.age(), stream.productive);
        match heard {
            Heard::Line(line) => {
                self.pulse.beat();
                match Line::parse(&line) {
                    Ok(line) => self.on_line(line),
                    Err(error) => {
                        let wait = self.backoff.next();
                        // The same nonsense again means that it does not go away by itself.
                        let again = self.backoff.failures() > 1;
                        let next = if again { Next::List } else { Next::Watch };
                        Some(self.trouble(error, wait, false, next))
                    }
                }
            }
            Heard::Rest(line) => match Line::parse(&line) {
                Ok(line) => self.on_line(line),
                Err(_) => None,
            },
            Heard::Silence => {
                warn!(
                    "Nothing is heard of {} for too long; reconnecting.",
                    self.scope()
                );
                self.open();
                None
            }
            Heard::End | Heard::Broken(_) if productive || age >= USUAL => {
                if let Heard::Broken(error) = heard {
                    debug!(
                        "The watch-stream of {} is broken; reconnecting: {error}",
                        self.scope()
                    );
                }
                if age >= STEADY {
                    self.backoff.reset();
                }
                self.open();
                None
            }
            Heard::End => {
                let wait = self.backoff.next();
                self.wait(wait, Next::Watch);
                None
            }
            Heard::Broken(error) => {
                let wait = self.backoff.next();
                Some(self.trouble(error, wait, false, Next::Watch))
            }
        }
    }

    fn on_line(&mut self, line: Line) -> Option<Signal> {
        if let Some(version) = line.version() {
            version.clone_into(&mut self.version);
        }
        match line {
            Line::Event(item) => {
                self.backoff.reset();
                Some(Signal::Item(item))
            }
            Line::Bookmark(_) => {
                self.backoff.reset();
                None
            }
            Line::Unknown(kind, _) => {
                warn!(
                    "Ignoring an unsupported event type of {}: {kind:?}",
                    self.scope()
                );
                None
            }
            Line::Error(status) => {
                let error = Error::Status(status);
                if error.is_gone() {
                    self.forgotten(&error);
                    return None;
                }
                let wait = self.patience(&error);
                Some(self.trouble(error, wait, false, Next::List))
            }
        }
    }

    /// The version to watch from is too old.
    fn forgotten(&mut self, error: &Error) {
        debug!(
            "Listing {} anew, because its version is forgotten: {error}",
            self.scope()
        );
        let wait = self.backoff.next();
        self.wait(wait, Next::List);
    }

    fn refused(&mut self, error: Error) -> Signal {
        let wait = if error.is_not_found() {
            self.backoff.next_from(ABSENT)
        } else {
            self.backoff.scattered(REFUSED)
        };
        self.trouble(error, wait, true, Next::List)
    }

    /// How long to wait after a failure, at least as long as the server wants.
    fn patience(&mut self, error: &Error) -> Duration {
        let wait = self.backoff.next();
        error.retry_after().map_or(wait, |asked| asked.max(wait))
    }

    fn trouble(&mut self, error: Error, wait: Duration, permanent: bool, next: Next) -> Signal {
        self.wait(wait, next);
        Signal::Trouble {
            error,
            retry_in: wait,
            permanent,
        }
    }

    fn wait(&mut self, wait: Duration, next: Next) {
        self.state = State::Waiting(Box::pin(sleep(wait)), next);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Start => "start",
            State::Asking(_) => "asking",
            State::Paging(_) => "paging",
            State::Opening(_) => "opening",
            State::Watching(_) => "watching",
            State::Waiting(..) => "waiting",
        };
        f.debug_struct("Observer")
            .field("scope", &self.scope())
            .field("state", &state)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
