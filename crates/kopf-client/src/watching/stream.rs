//! An open watch: its lines, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::lines::Lines;
use crate::error::Error;
use crate::request::broken;
use crate::transport::Incoming;

/// Whoever comes back after the limit of silence gets this long to hear what was said meanwhile.
const GRACE: Duration = Duration::from_secs(5);

/// What comes out of a watch.
#[derive(Debug)]
pub(super) enum Heard {
    /// A line.
    Line(Bytes),
    /// A line, or a part of one, at the very end.
    Rest(Bytes),
    /// The server has ended the watch, or it has lasted as long as it may.
    End,
    /// Nothing came for too long.
    Silence,
    /// The connection is broken.
    Broken(Error),
}

#[derive(Debug)]
pub(super) struct Stream {
    body: Incoming,
    lines: Lines,
    ended: bool,
    opened: Instant,
    /// When it is to be ended by us.
    end: Option<Instant>,
    /// How long it may be silent.
    inactivity: Duration,
    /// When it is taken for dead.
    dead: Option<Instant>,
    spared: bool,
    /// Whether anything has come at all.
    pub(super) productive: bool,
}

impl Stream {
    pub(super) fn new(body: Incoming, lifetime: Option<Duration>, inactivity: Duration) -> Self {
        let now = Instant::now();
        Self {
            body,
            lines: Lines::default(),
            ended: false,
            opened: now,
            end: lifetime.and_then(|lifetime| now.checked_add(lifetime)),
            inactivity,
            dead: now.checked_add(inactivity),
            spared: false,
            productive: false,
        }
    }

    /// How long it is open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The next thing heard. Cancel-safe: what has come is kept.
    pub(super) async fn next(&mut self) -> Heard {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Heard::Line(line);
            }
            if self.ended {
                return self.lines.rest().map_or(Heard::End, Heard::Rest);
            }
            let frame = match self.limit() {
                Some(limit) => match timeout_at(limit, self.body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) if self.end.is_some_and(|end| end <= limit) => return Heard::End,
                    Err(_) => return Heard::Silence,
                },
                None => self.body.frame().await,
            };
            match frame {
                None => self.ended = true,
                Some(Err(error)) => return Heard::Broken(broken(&error)),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.productive |= !piece.is_empty();
                        self.spared = false;
                        self.dead = Instant::now().checked_add(self.inactivity);
                        self.lines.add(piece);
                    }
                }
            }
        }
    }

    /// Until when to listen. The silence may be ours: if nobody has listened for long, what was said
    /// meanwhile needs a moment to get through.
    fn limit(&mut self) -> Option<Instant> {
        if let Some(dead) = self.dead {
            let now = Instant::now();
            if dead <= now && !self.spared {
                self.spared = true;
                self.dead = now.checked_add(GRACE);
            }
        }
        match (self.end, self.dead) {
            (Some(end), Some(dead)) => Some(end.min(dead)),
            (end, dead) => end.or(dead),
        }
    }
}
