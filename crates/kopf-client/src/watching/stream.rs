//! An open watch: its lines, its time limits, its end.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kopf_core::settings::Watching;
use tokio::time::{Instant, timeout_at};

use super::lines::{LINE_LIMIT, LineBuffer, TooLong};
use crate::error::Error;
use crate::request::broken;
use crate::transport::ResponseBody;

/// Extra time after the inactivity limit if the stream was not polled meanwhile: what the server
/// sent in that time is still on its way through the buffers.
const GRACE: Duration = Duration::from_secs(5);

/// The next thing that a watch delivers.
#[derive(Debug)]
pub(super) enum Received {
    /// A complete line.
    Line(Bytes),
    /// The last line of an ended stream, without its line feed: complete or cut.
    Rest(Bytes),
    /// The end: the server closed the stream, or `client_timeout` is over.
    End,
    /// The inactivity limit is over.
    Silence,
    /// The connection broke, or a line is too long.
    Broken(Error),
}

/// The response body of a watch request.
#[derive(Debug)]
pub(super) struct WatchStream {
    body: ResponseBody,
    lines: LineBuffer,
    has_ended: bool,
    opened: Instant,
    /// When `client_timeout` is over.
    end: Option<Instant>,
    inactivity: Inactivity,
}

/// The inactivity limit.
#[derive(Debug)]
struct Inactivity {
    limit: Option<Duration>,
    /// When the limit is over.
    deadline: Option<Instant>,
    /// `true` if the deadline was extended by `GRACE` since the last chunk.
    is_extended: bool,
}

impl WatchStream {
    pub(super) fn new(body: ResponseBody, settings: &Watching) -> Self {
        let now = Instant::now();
        let lifetime = settings.client_timeout;
        Self {
            body,
            lines: LineBuffer::new(LINE_LIMIT),
            has_ended: false,
            opened: now,
            end: lifetime.and_then(|lifetime| now.checked_add(lifetime)),
            inactivity: Inactivity::new(settings.inactivity_timeout, now),
        }
    }

    /// Returns the time since the server accepted the watch.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Waits for the next line or the end.
    ///
    /// # Cancellation
    ///
    /// Cancel-safe: what has arrived is kept.
    pub(super) async fn next(&mut self) -> Received {
        loop {
            match self.lines.next_line() {
                Some(Ok(line)) => return Received::Line(line),
                Some(Err(TooLong)) => {
                    return Received::Broken(Error::TooLarge {
                        what: "a line of the watch",
                        limit: LINE_LIMIT,
                    });
                }
                None => {}
            }
            if self.has_ended {
                return self.lines.rest().map_or(Received::End, Received::Rest);
            }
            let deadline = self.inactivity.deadline(Instant::now());
            let limit = [self.end, deadline].into_iter().flatten().min();
            let frame = match limit {
                Some(limit) => match timeout_at(limit, self.body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) if self.end.is_some_and(|end| end <= limit) => return Received::End,
                    Err(_) => return Received::Silence,
                },
                None => self.body.frame().await,
            };
            match frame {
                None => self.has_ended = true,
                Some(Err(error)) => return Received::Broken(broken(&error)),
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        self.inactivity.restart(Instant::now());
                        self.lines.add(chunk);
                    }
                }
            }
        }
    }
}

impl Inactivity {
    fn new(limit: Option<Duration>, now: Instant) -> Self {
        let mut inactivity = Self {
            limit,
            deadline: None,
            is_extended: false,
        };
        inactivity.restart(now);
        inactivity
    }

    fn restart(&mut self, now: Instant) {
        self.deadline = self.limit.and_then(|limit| now.checked_add(limit));
        self.is_extended = false;
    }

    /// Returns the deadline, extended once if it is over before the stream was polled.
    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if self.deadline.is_some_and(|deadline| deadline <= now) && !self.is_extended {
            self.is_extended = true;
            self.deadline = now.checked_add(GRACE);
        }
        self.deadline
    }
}
