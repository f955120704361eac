//! The watching phase: opens watches, returns their events, and reacts to their ends.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tracing::{debug, warn};

use super::{Initial, Next, Observer, State};
use crate::error::Error;
use crate::request::Call;
use crate::transport::ResponseBody;
use crate::watching::Signal;
use crate::watching::backoff::Input;
use crate::watching::line::Line;
use crate::watching::stream::{Received, WatchStream};

/// Upper bound for the time until the response headers of a watch. API servers send them at once,
/// so the general limit for requests would be too patient with dead connections.
const OPENING: Duration = Duration::from_secs(20);

/// After this many failures in a row, the resource version may be the reason.
const DOUBTFUL: u32 = 3;

/// After this many early ends in a row, they are reported.
const REPORTED_ENDS: u32 = 2;

/// After this many re-listings in a row, expired versions are reported.
const REPORTED_RELISTINGS: u32 = 3;

impl Observer {
    pub(super) fn open(&mut self) {
        let Ok(path) = &self.path else {
            self.state = State::Start;
            return;
        };
        let mut path = format!("{path}?watch=true&allowWatchBookmarks=true");
        if !self.selector.is_empty() {
            path = format!("{path}&{}", self.selector);
        }
        if self.initial == Initial::Streamed {
            path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
        } else if !self.versions.current().is_empty() {
            let version = utf8_percent_encode(self.versions.current(), NON_ALPHANUMERIC);
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

    pub(super) fn on_open(&mut self, response: Result<ResponseBody, Error>) -> Option<Signal> {
        let error = match response {
            Ok(body) => {
                self.pulse.open();
                self.step(Input::Opened);
                let stream = WatchStream::new(body, &self.settings);
                self.state = State::Watching(Box::new(stream));
                return None;
            }
            Err(error) => error,
        };
        if self.initial == Initial::Streamed {
            return self.on_streaming_refused(error);
        }
        // A version can be unusable: from the future after a restored backup, or from another
        // kind of storage.
        let failures = self.backoff.failures().saturating_add(1);
        match error.code() {
            Some(410) => self.expire(error),
            Some(403..=405) => Some(self.refuse(error)),
            None | Some(401 | 429) => Some(self.fail(error, Next::Watch)),
            Some(500..) if failures < DOUBTFUL => Some(self.fail(error, Next::Watch)),
            Some(_) => Some(self.fail(error, Next::List)),
        }
    }

    /// Lists the objects if the server cannot stream them. Other failures concern listings as well.
    fn on_streaming_refused(&mut self, error: Error) -> Option<Signal> {
        match error.code() {
            Some(400 | 422) => {
                let scope = self.scope();
                debug!(
                    "Listing {scope}, because the server does not stream existing objects: {error}"
                );
                self.initial = Initial::Refused;
                self.request(Next::List);
                None
            }
            Some(403..=405) => Some(self.refuse(error)),
            _ => Some(self.fail(error, Next::List)),
        }
    }

    pub(super) fn on_received(&mut self, received: Received) -> Option<Signal> {
        match received {
            Received::Line(line) => {
                self.pulse.beat();
                match Line::parse(&line, self.managed_fields) {
                    Ok(line) => self.on_line(line),
                    Err(error) => Some(self.on_unusable(error)),
                }
            }
            Received::Rest(line) => match Line::parse(&line, self.managed_fields) {
                Ok(line) => self.on_line(line),
                Err(error) => self.on_end(Some(error)),
            },
            Received::End => self.on_end(None),
            Received::Silence => {
                warn!(
                    "No lines from the watch-stream of {} for too long; reconnecting.",
                    self.scope()
                );
                let delay = self.step(Input::Ended);
                self.wait(delay, self.resumed());
                None
            }
            Received::Broken(error @ Error::TooLarge { .. }) => Some(self.on_unusable(error)),
            Received::Broken(error) => self.on_end(Some(error)),
        }
    }

    /// Reacts to a line that is not an event. If the next watch from the same version fails as
    /// well, a new listing gets past the line.
    fn on_unusable(&mut self, error: Error) -> Signal {
        let next = if self.backoff.failures() > 0 {
            Next::List
        } else {
            self.resumed()
        };
        self.fail(error, next)
    }

    /// Reconnects after the end of the stream: at once and silently if the watch made progress or
    /// lived for long.
    fn on_end(&mut self, cause: Option<Error>) -> Option<Signal> {
        let State::Watching(stream) = &self.state else {
            return None;
        };
        let after = stream.age();
        let delay = self.step(Input::Ended);
        let times = self.backoff.failures();
        if times >= REPORTED_ENDS {
            let error = cause.unwrap_or(Error::Ended { after, times });
            return Some(self.interrupt(error, delay, self.resumed()));
        }
        if let Some(error) = cause {
            let scope = self.scope();
            debug!("The watch-stream of {scope} is broken; reconnecting: {error}");
        }
        self.wait(delay, self.resumed());
        None
    }

    /// Returns the request after the end of a watch. Existing objects that were not all streamed
    /// start again.
    fn resumed(&self) -> Next {
        match self.initial {
            Initial::Streamed => Next::List,
            Initial::Listed | Initial::Refused => Next::Watch,
        }
    }

    fn on_line(&mut self, line: Line) -> Option<Signal> {
        if self.initial == Initial::Streamed {
            return self.on_streamed(line);
        }
        let is_news = line
            .version()
            .is_some_and(|version| self.versions.see(version));
        if is_news && matches!(line, Line::Event(_) | Line::Bookmark { .. }) {
            self.step(Input::Progress);
        }
        match line {
            Line::Event(item) => Some(Signal::Item(item)),
            Line::Bookmark { .. } => None,
            Line::Unknown(kind, _) => {
                let scope = self.scope();
                warn!("Ignoring an unsupported event type of {scope}: {kind:?}");
                None
            }
            Line::Error(status) => {
                let error = Error::Status(status);
                if error.is_gone() {
                    return self.expire(error);
                }
                Some(self.fail(error, Next::List))
            }
        }
    }

    /// Lists again, because the server no longer has the version to watch from. One such response
    /// is ordinary; several in a row are reported.
    fn expire(&mut self, error: Error) -> Option<Signal> {
        let delay = self.step(Input::Relist);
        if self.backoff.relistings() >= REPORTED_RELISTINGS {
            return Some(self.interrupt(error, delay, Next::List));
        }
        let scope = self.scope();
        debug!("Listing {scope} again, because its resource version has expired: {error}");
        self.wait(delay, Next::List);
        None
    }
}
