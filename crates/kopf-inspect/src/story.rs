//! Everything that is known about one object, for `kopf explain` and `kopf ui`.

use std::fmt::Write as _;

use jiff::Timestamp;
use kopf_core::body::Body;
use kopf_core::diff::{Diff, DiffItem, DiffOperation};
use kopf_core::object::retriggering::Request;
use kopf_core::timestamp;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::events::{Event, Verdict};
use crate::handled::Handled;
use crate::paint::{Colours, Style, harmless};
use crate::peers::Participant;
use crate::places::Places;
use crate::records::Finding;
use crate::state::{Holder, State};
use crate::time::{ago, remaining};
use crate::writing::Named;

/// The number of the last events that are shown.
const EVENTS: usize = 20;

/// The longest value in a diff, in characters.
const VALUE: usize = 400;

/// The story of one object.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) title: String,
    pub(crate) created: Option<String>,
    pub(crate) deleted: Option<String>,
    pub(crate) handled: Handled,
    pub(crate) request: Option<Request>,
    /// The last events, the oldest first; `Err` if they cannot be read.
    pub(crate) events: Result<Vec<Event>, String>,
    /// Operators that may handle the object.
    pub(crate) peers: Vec<Participant>,
}

impl Story {
    /// Collects the story of an object.
    pub(crate) async fn gather(
        cluster: &Cluster,
        object: Named<'_>,
        body: &Body,
        places: &Places,
    ) -> Self {
        let now = Cluster::now();
        let (events, mut peers) = tokio::join!(cluster.events(body), cluster.peers());
        peers.retain(|peer| peer.serves(object.namespace));
        let mut handled = Handled::assess(body, places, now);
        let events = events.map_err(|error| error.to_string());
        if let (State::Settled, Ok(events)) = (&handled.state, &events) {
            let mut verdict = Verdict::default();
            events.iter().for_each(|event| verdict.add(event));
            handled.state = verdict.failure().unwrap_or(State::Settled);
        }
        let last = |mut events: Vec<Event>| {
            let first = events.len().saturating_sub(EVENTS);
            events.split_off(first)
        };
        Self {
            title: object.to_string(),
            created: body.creation_timestamp().map(str::to_owned),
            deleted: body.deletion_timestamp().map(str::to_owned),
            request: Request::fetch(&places.naming, body),
            handled,
            events: events.map(last),
            peers,
        }
    }

    /// Renders the story for a terminal.
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
        page.line(&format!("what to do: {}", harmless(&state.advice(now))));
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
            page.line(
                "  the object was never handled to the end: there is nothing to compare with",
            );
        } else if self.handled.diff.is_empty() {
            page.section("Configuration");
            page.line("  as it was handled last");
        } else {
            page.section("Changes since the last handling");
            for (style, line) in diff_lines(&self.handled.diff) {
                page.line(&format!("  {}", style.paint(&line, page.colours)));
            }
        }
    }

    fn handlers(&self, page: &mut Page, now: Timestamp) {
        let findings = &self.handled.findings;
        if !findings.records.is_empty() {
            page.section("Handlers");
            for finding in &findings.records {
                let indent = if finding.parent.is_some() {
                    "    "
                } else {
                    "  "
                };
                let (style, text) = progress(finding, now);
                let text = style.paint(&harmless(&text), page.colours);
                page.line(&format!("{indent}{}: {text}", harmless(&finding.id)));
            }
        }
        if let Some(request) = &self.request {
            page.section("Requests");
            let ids = harmless(&request.handlers.join(", "));
            page.line(&format!(
                "  retrigger [{ids}], requested at {}",
                harmless(&request.requested)
            ));
        }
        if !findings.unknown.is_empty() {
            page.section("Unknown annotations under the prefix of the operator");
            for name in &findings.unknown {
                page.line(&format!("  {}", harmless(name)));
            }
        }
    }

    fn finalizers(&self, page: &mut Page) {
        if self.handled.finalizers.is_empty() {
            return;
        }
        page.section("Finalizers");
        for holder in &self.handled.finalizers {
            let owner = match holder {
                Holder::Operator(_) => "the operator",
                Holder::Other(name) => owner(name),
            };
            page.line(&format!("  {}: {owner}", harmless(holder.name())));
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

    /// Returns the story as JSON.
    pub(crate) fn to_value(&self, now: Timestamp) -> Value {
        let handlers = self.handled.findings.records.iter();
        let handlers: Vec<Value> = handlers
            .map(|finding| handler_value(finding, now))
            .collect();
        let diff: Vec<Value> = diff_lines(&self.handled.diff)
            .into_iter()
            .map(|(style, line)| {
                let sign = if style == Style::Added {
                    "added"
                } else {
                    "removed"
                };
                json!({"sign": sign, "line": line})
            })
            .collect();
        let finalizers = self.handled.finalizers.iter().map(
            |holder| json!({"name": holder.name(), "own": matches!(holder, Holder::Operator(_))}),
        );
        let events = self.events.as_deref().map(|events| {
            let events = events.iter().map(|event| {
                json!({"at": timestamp::format(event.at), "type": event.kind, "reason": event.reason,
                       "message": event.message, "count": event.count})
            });
            events.collect::<Vec<_>>()
        });
        json!({
            "title": self.title,
            "state": self.handled.state.to_value(),
            "details": self.handled.state.details(now),
            "advice": self.handled.state.advice(now),
            "created": self.created,
            "deleted": self.deleted,
            "handledOnce": self.handled.has_base,
            "diff": diff,
            "handlers": handlers,
            "requested": self.request.as_ref().map(|request| &request.handlers),
            "unknown": self.handled.findings.unknown,
            "finalizers": finalizers.collect::<Vec<_>>(),
            "peers": self.peers.iter().map(|peer| peer.to_value(now)).collect::<Vec<_>>(),
            "events": events.ok(),
        })
    }
}

/// The lines of a story.
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

/// Returns the lines of a diff: removed values before added ones.
pub(crate) fn diff_lines(diff: &Diff) -> Vec<(Style, String)> {
    let mut lines = Vec::new();
    for item in diff.iter() {
        let DiffItem {
            operation,
            field,
            old,
            new,
        } = item;
        let steps: Vec<String> = field.steps().iter().map(|step| harmless(step)).collect();
        let path = if steps.is_empty() {
            "(all)".to_owned()
        } else {
            steps.join(".")
        };
        if matches!(operation, DiffOperation::Remove | DiffOperation::Change) {
            lines.push((Style::Removed, format!("- {path}: {}", shortened(old))));
        }
        if matches!(operation, DiffOperation::Add | DiffOperation::Change) {
            lines.push((Style::Added, format!("+ {path}: {}", shortened(new))));
        }
    }
    lines
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= VALUE {
        return text;
    }
    let start: String = text.chars().take(VALUE).collect();
    format!("{start}…")
}

/// Returns the progress of a handler in one line.
fn progress(finding: &Finding, now: Timestamp) -> (Style, String) {
    let record = &finding.record;
    let mut text = String::new();
    let style = if record.success {
        text.push_str("succeeded");
        Style::Good
    } else if record.failure {
        text.push_str("failed permanently");
        Style::Bad
    } else if let Some(at) = record.delayed {
        match remaining(now, at) {
            Some(delay) => text.push_str(&format!("next attempt in {delay}")),
            None => text.push_str(&format!("next attempt was due {}", ago(now, at))),
        }
        Style::Warning
    } else {
        text.push_str("not finished");
        Style::Strong
    };
    let attempts = match record.retries {
        1 => "1 attempt".to_owned(),
        retries => format!("{retries} attempts"),
    };
    let purpose = record.purpose.as_deref().unwrap_or("any reason");
    // Writing to a string does not fail.
    let _ = write!(text, " ({purpose}, {attempts}");
    if let (Some(started), Some(stopped)) = (record.started, record.stopped) {
        let _ = write!(
            text,
            ", {:.1} s",
            stopped.duration_since(started).as_secs_f64()
        );
    }
    text.push(')');
    if let Some(message) = finding.message() {
        let _ = write!(text, ": {message}");
    }
    (style, text)
}

fn handler_value(finding: &Finding, now: Timestamp) -> Value {
    let record = &finding.record;
    let time = |moment: Option<Timestamp>| moment.map(timestamp::format);
    json!({
        "id": finding.id,
        "parent": finding.parent,
        "progress": progress(finding, now).1,
        "started": time(record.started),
        "stopped": time(record.stopped),
        "delayed": time(record.delayed),
        "purpose": record.purpose,
        "retries": record.retries,
        "success": record.success,
        "failure": record.failure,
        "message": finding.message(),
    })
}

/// Returns the owner of a well-known finalizer.
fn owner(finalizer: &str) -> &'static str {
    match finalizer {
        "foregroundDeletion" | "foregroundDeletionOrphan" | "orphan" => {
            "the garbage collector of Kubernetes, which deletes or releases the dependents first"
        }
        name if name.starts_with("kubernetes.io/") => "a controller of Kubernetes",
        name if name.ends_with("KopfFinalizerMarker") => "another Kopf operator",
        _ => "another controller",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(body: &Value) -> Story {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let places = Places::default();
        let body = Body::new(body.clone());
        Story {
            title: "thing ns/x".to_owned(),
            created: body.creation_timestamp().map(str::to_owned),
            deleted: None,
            request: Request::fetch(&places.naming, &body),
            handled: Handled::assess(&body, &places, now),
            events: Ok(Vec::new()),
            peers: Vec::new(),
        }
    }

    fn body() -> Value {
        let record = r#"{"started":"2026-01-02T03:04:00Z","delayed":"2026-01-02T03:04:17Z","retries":2,"purpose":"update","message":"no\u001b[31m","subrefs":["fn/a"]}"#;
        let sub = r#"{"started":"2026-01-02T03:04:00Z","stopped":"2026-01-02T03:04:01Z","retries":1,"success":true}"#;
        json!({
            "metadata": {
                "creationTimestamp": "2026-01-02T03:03:05Z",
                "annotations": {
                    "kopf.zalando.org/last-handled-configuration": r#"{"spec":{"field":1,"gone":2}}"#,
                    "kopf.zalando.org/fn": record, "kopf.zalando.org/fn.a": sub,
                    "kopf.zalando.org/odd": "?",
                },
                "finalizers": ["kopf.zalando.org/KopfFinalizerMarker", "foregroundDeletion"],
            },
            "spec": {"field": 3, "new": "x"},
        })
    }

    #[test]
    fn the_story_has_all_parts() {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let text = story(&body()).render(now, Colours::Off).join("\n");
        for part in [
            "thing ns/x\nstate: retrying in 12 s: fn (attempt 3): no",
            "created: 60 s ago",
            "  - spec.field: 1\n  + spec.field: 3",
            "  - spec.gone: 2",
            "  + spec.new: \"x\"",
            "  fn: next attempt in 12 s (update, 2 attempts): no\\u{1b}[31m",
            "    fn/a: succeeded (any reason, 1 attempt, 1.0 s)",
            "  odd",
            "  kopf.zalando.org/KopfFinalizerMarker: the operator",
            "  foregroundDeletion: the garbage collector",
        ] {
            assert!(text.contains(part), "{part}\n---\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        let colourful = story(&body()).render(now, Colours::On).join("\n");
        assert!(
            colourful.contains("\u{1b}[31m- spec.field: 1\u{1b}[0m"),
            "{colourful}"
        );
    }

    #[test]
    fn the_same_story_as_json() {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let value = story(&body()).to_value(now);
        assert_eq!(value["state"]["name"], "retrying");
        assert_eq!(value["handlers"][1]["id"], "fn/a");
        assert_eq!(
            value["diff"][0],
            json!({"sign": "added", "line": "+ spec.new: \"x\""})
        );
        assert_eq!(value["finalizers"][0]["own"], true);
    }

    #[test]
    fn long_values_are_cut() {
        let text = shortened(&Value::from("x".repeat(1_000)));
        assert_eq!(text.chars().count(), VALUE + 1);
    }
}
