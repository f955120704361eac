//! Explanations as text for a terminal.

use jiff::Timestamp;
use kopf_core::timestamp;

use crate::explanation::Explanation;
use crate::lines::{Start, diff_lines, progress_line};
use crate::paint::{Colours, Style, harmless};
use crate::state::Finalizer;
use crate::time::ago;

impl Explanation {
    /// Renders the explanation for a terminal.
    pub(crate) fn render(&self, now: Timestamp, colours: Colours) -> Vec<String> {
        let mut page = Page {
            lines: Vec::new(),
            colours,
        };
        let state = &self.handled.state;
        let name = Style::of_state(state.name()).paint(state.name(), colours);
        let details = harmless(&state.details(now));
        let details = if details.is_empty() {
            details
        } else {
            format!(" {details}")
        };
        page.heading(&harmless(&self.title));
        page.line(&format!("state: {name}{details}"));
        page.line(&format!("advice: {}", harmless(&self.advice(now))));
        self.times(&mut page, now);
        self.changes(&mut page);
        self.handlers(&mut page, now);
        self.finalizers(&mut page);
        self.operators(&mut page, now);
        self.timeline(&mut page, now);
        page.lines
    }

    fn times(&self, page: &mut Page, now: Timestamp) {
        for (name, text) in [("created", &self.created), ("deleted", &self.deleted)] {
            let moment = text.as_deref().and_then(|text| timestamp::parse(text).ok());
            if let Some(moment) = moment {
                page.line(&format!("{name}: {}", ago(now, moment)));
            }
        }
    }

    fn changes(&self, page: &mut Page) {
        if !self.handled.has_base {
            page.section("Configuration");
            page.line("  unknown: no handling has completed yet");
        } else if self.handled.diff.is_empty() {
            page.section("Configuration");
            page.line("  no changes since the last handling");
        } else {
            page.section("Changes since the last handling");
            for (style, line) in diff_lines(&self.handled.diff) {
                page.line(&format!("  {}", style.paint(&line, page.colours)));
            }
        }
    }

    fn handlers(&self, page: &mut Page, now: Timestamp) {
        let progress = &self.handled.progress;
        if !progress.records.is_empty() {
            page.section("Handlers");
            for handler in &progress.records {
                let indent = if handler.parent.is_some() {
                    "    "
                } else {
                    "  "
                };
                let (style, text) = progress_line(handler, now, Start::Shown);
                let text = style.paint(&harmless(&text), page.colours);
                page.line(&format!("{indent}{}: {text}", harmless(&handler.id)));
            }
        }
        if let Some(request) = &self.request {
            page.section("Requests");
            let ids = harmless(&request.handlers.join(", "));
            let at = harmless(&request.requested);
            page.line(&if ids.is_empty() {
                "  retrigger: unreadable; the operator removes it".to_owned()
            } else {
                format!("  retrigger [{ids}], requested at {at}")
            });
        }
        if !progress.unknown.is_empty() {
            page.section("Unknown annotations under the prefix of the operator");
            for name in &progress.unknown {
                page.line(&format!("  {}", harmless(name)));
            }
        }
    }

    fn finalizers(&self, page: &mut Page) {
        if self.handled.finalizers.is_empty() {
            return;
        }
        page.section("Finalizers");
        for finalizer in &self.handled.finalizers {
            let owner = match finalizer {
                Finalizer::Operator(_) => "the operator",
                Finalizer::Other(name) => owner(name),
            };
            page.line(&format!("  {}: {owner}", harmless(finalizer.name())));
        }
    }

    fn operators(&self, page: &mut Page, now: Timestamp) {
        if self.peers.is_empty() {
            return;
        }
        page.section("Operators by peering");
        for peer in &self.peers {
            page.line(&format!("  {}", harmless(&peer.line(now))));
        }
    }

    fn timeline(&self, page: &mut Page, now: Timestamp) {
        match &self.events {
            Ok(events) if events.is_empty() => {}
            Ok(events) => {
                page.section("Events");
                for event in events {
                    let style = match event.kind.as_str() {
                        "Error" | "Fatal" => Style::Bad,
                        "Warning" => Style::Warning,
                        _ => Style::Plain,
                    };
                    let kind = style.paint(&harmless(&event.kind), page.colours);
                    let times = if event.count > 1 {
                        format!(" (×{})", event.count)
                    } else {
                        String::new()
                    };
                    let message = harmless(&event.message);
                    page.line(&format!(
                        "  {}: {kind}: {message}{times}",
                        ago(now, event.at)
                    ));
                }
            }
            Err(problem) => {
                page.section("Events");
                page.line(&format!("  cannot be read: {}", harmless(problem)));
            }
        }
    }
}

/// The lines of an explanation.
struct Page {
    lines: Vec<String>,
    colours: Colours,
}

impl Page {
    fn heading(&mut self, text: &str) {
        self.lines.push(Style::Strong.paint(text, self.colours));
    }

    fn section(&mut self, title: &str) {
        self.lines.push(String::new());
        self.heading(title);
    }

    fn line(&mut self, text: &str) {
        self.lines.push(text.to_owned());
    }
}

/// Returns the owner of a well-known finalizer.
fn owner(finalizer: &str) -> &'static str {
    match finalizer {
        "foregroundDeletion" | "foregroundDeletionOrphan" | "orphan" => {
            "the Kubernetes garbage collector, which first deletes or releases the dependents"
        }
        name if name.starts_with("kubernetes.io/") => "a Kubernetes controller",
        name if name.ends_with("KopfFinalizerMarker") => "another Kopf operator",
        _ => "another controller",
    }
}
