//! The progress of an exploration: one line on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use crate::outcome::News;
use crate::report::lines_of;
use kopf_inspect::Screen;
use tokio::time::Instant;

use super::show;

/// The width of the bar.
const WIDTH: usize = 20;

pub(crate) struct Progress<'a> {
    screen: &'a Screen,
    began: Instant,
    time: Option<Duration>,
    is_terminal: bool,
    /// Findings are printed when they are found.
    is_text: bool,
    plans: Mutex<usize>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(screen: &'a Screen, time: Option<Duration>, is_text: bool) -> Self {
        Self {
            screen,
            began: Instant::now(),
            time,
            is_terminal: std::io::stderr().is_terminal(),
            is_text,
            plans: Mutex::new(0),
        }
    }

    pub(crate) fn on(&self, news: News) {
        match news {
            News::Referencing { runs } => self.draw(&format!("{runs} undisturbed runs…")),
            News::Planned { plans } => {
                if let Ok(mut known) = self.plans.lock() {
                    *known = plans;
                }
                self.draw(&self.bar(0, 0));
            }
            News::Done { done, findings } => self.draw(&self.bar(done, findings)),
            News::Found(finding) => {
                self.draw("");
                if self.is_text && self.is_terminal {
                    show(self.screen, lines_of(&finding).into_iter().take(3));
                }
            }
            News::Reducing => self.draw("reducing the findings…"),
        }
    }

    /// Erases the line.
    pub(crate) fn end(&self) {
        self.draw("");
    }

    fn bar(&self, done: usize, findings: usize) -> String {
        let plans = self.plans.lock().map_or(0, |plans| *plans).max(1);
        let filled = (done * WIDTH / plans).min(WIDTH);
        let bar: String = "█".repeat(filled) + &"░".repeat(WIDTH - filled);
        let elapsed = self.began.elapsed();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let each = elapsed.checked_div(count(done)).unwrap_or_default();
        let rest = each.saturating_mul(count(plans.saturating_sub(done)));
        let left = self
            .time
            .map_or(rest, |time| rest.min(time.saturating_sub(elapsed)));
        let left = left.as_secs();
        format!(
            "{bar} {done}/{plans} plans, {findings} findings, {}:{:02} left",
            left / 60,
            left % 60
        )
    }

    fn draw(&self, text: &str) {
        if self.is_terminal {
            let mut stderr = std::io::stderr().lock();
            // There is no other place to report a closed stderr.
            let _ = write!(stderr, "\r\x1b[2K{text}");
            let _ = stderr.flush();
        }
    }
}
