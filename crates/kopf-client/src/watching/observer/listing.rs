//! The listing phase: requests pages and returns their items.

use kopf_core::cause::EventType;
use tracing::{debug, warn};

use super::{Initial, Next, Observer, State};
use crate::error::Error;
use crate::item::Item;
use crate::listing::{Page, page};
use crate::request::Call;
use crate::watching::Signal;
use crate::watching::backoff::Input;
use crate::watching::line::Line;

/// Growth of the page size after a listing that expired before its last page.
const GROWTH: u32 = 8;

/// The progress of the current listing.
#[derive(Debug)]
pub(super) struct Listing {
    /// Objects per page; 0 means all of them.
    size: u32,
    /// The continue token of the current page; empty for the first one.
    token: String,
    /// Objects in all pages so far.
    objects: usize,
    /// Objects in the pages before the current one.
    earlier: usize,
    /// Objects of other shards, which the server has not left out.
    pub(super) foreign: usize,
}

impl Listing {
    pub(super) fn new(size: u32) -> Self {
        Self {
            size,
            token: String::new(),
            objects: 0,
            earlier: 0,
            foreign: 0,
        }
    }
}

impl Observer {
    pub(super) fn start(&mut self) -> Signal {
        if let Err(error) = &self.path {
            let error = error.clone();
            return self.refuse(error);
        }
        self.listing = Listing::new(self.listing.size);
        if self.settings.initial_streaming && self.initial != Initial::Refused {
            self.initial = Initial::Streamed;
            self.open();
        } else {
            self.request_page();
        }
        Signal::Listing
    }

    pub(super) fn request_page(&mut self) {
        let Ok(path) = &self.path else {
            self.state = State::Start;
            return;
        };
        let mut page = page(path, self.listing.size, &self.listing.token);
        if !self.selector.is_empty() {
            page.push(if page.contains('?') { '&' } else { '?' });
            page.push_str(&self.selector);
        }
        let call = Call::get(page);
        let client = self.client.clone();
        self.state = State::Requesting(Box::pin(async move {
            Page::parse(&client.ask_once(&call).await?)
        }));
    }

    pub(super) fn on_page(&mut self, response: Result<Page, Error>) -> Option<Signal> {
        let error = match response {
            Ok(page) => {
                self.pulse.beat();
                self.sharding.confirm(page.is_sharded);
                self.state = State::Reading(page);
                return None;
            }
            Err(error) => error,
        };
        if error.is_gone() && !self.listing.token.is_empty() {
            // The server keeps the version of a listing for a few minutes. Larger pages take
            // fewer requests, so that the next listing is faster.
            debug!(
                "Listing {} again, because its continue token has expired: {error}",
                self.scope()
            );
            self.listing.size = self.listing.size.saturating_mul(GROWTH);
            let delay = self.step(Input::Relist);
            self.wait(delay, Next::List);
            return None;
        }
        if error.is_transient() || error.is_unauthorized() {
            return Some(self.fail(error, Next::Page));
        }
        if error.code().is_none() || error.is_gone() {
            return Some(self.fail(error, Next::List));
        }
        Some(self.refuse(error))
    }

    pub(super) fn on_item(&mut self, item: Option<Result<Item, Error>>) -> Option<Signal> {
        match item {
            Some(Ok(item)) => {
                self.listing.objects += 1;
                Some(Signal::Item(item))
            }
            Some(Err(error)) => {
                let resource = &self.resource;
                warn!("Ignoring an object of {resource} that cannot be parsed: {error}");
                None
            }
            None => self.on_page_end(),
        }
    }

    /// Reacts to a line of a watch that begins with the existing objects.
    pub(super) fn on_streamed(&mut self, line: Line) -> Option<Signal> {
        match line {
            Line::Event(mut item) if item.event == EventType::Added => {
                item.event = EventType::Listed;
                self.listing.objects += 1;
                Some(Signal::Item(item))
            }
            Line::Bookmark {
                version,
                ends_initial: true,
            } => {
                self.initial = Initial::Listed;
                self.versions
                    .list(version.map(String::from).unwrap_or_default());
                self.step(Input::Listed);
                Some(self.complete())
            }
            Line::Error(status) => Some(self.fail(Error::Status(status), Next::List)),
            // Changes of objects that were sent already.
            Line::Event(item) => Some(Signal::Item(item)),
            Line::Bookmark { .. } | Line::Unknown(..) => None,
        }
    }

    fn complete(&self) -> Signal {
        let Listing {
            objects, foreign, ..
        } = self.listing;
        if foreign > 0 {
            debug!(
                "The server does not filter {} by shards: {foreign} objects of other shards are \
                 ignored.",
                self.scope()
            );
        }
        Signal::Listed {
            objects: objects - foreign,
        }
    }

    fn on_page_end(&mut self) -> Option<Signal> {
        let State::Reading(page) = &mut self.state else {
            return None;
        };
        let token = std::mem::take(&mut page.next);
        if token.is_empty() {
            let version = std::mem::take(&mut page.resource_version);
            self.versions.list(version);
            self.step(Input::Listed);
            self.open();
            return Some(self.complete());
        }
        if token == self.listing.token {
            let reason = "a page of the list continues with itself".to_owned();
            return Some(self.fail(Error::Malformed { reason }, Next::List));
        }
        let is_empty = self.listing.objects == self.listing.earlier;
        self.listing.earlier = self.listing.objects;
        self.listing.token = token;
        if is_empty {
            // Empty pages are allowed, but an endless sequence of them must not be a tight loop.
            let delay = self.step(Input::Failed);
            self.wait(delay, Next::Page);
        } else {
            self.request_page();
        }
        None
    }
}
