//! The explanation of one object's state, for `kopf explain` and `kopf ui`.

use jiff::Timestamp;
use kopf_core::body::Body;
use kopf_core::object::retriggering::Request;
use kopf_core::timestamp;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::events::{Event, EventOutcome};
use crate::handled::Handled;
use crate::lines::{Start, diff_lines, progress_line};
use crate::object_ref::ObjectRef;
use crate::paint::Style;
use crate::pausing::pause_advice;
use crate::peers::Participant;
use crate::records::HandlerProgress;
use crate::state::{Finalizer, State};
use crate::storages::Storages;

/// The number of the last events that are shown.
const EVENTS: usize = 20;

/// The state of one object, with its events and operators.
#[derive(Debug)]
pub(crate) struct Explanation {
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

impl Explanation {
    /// Reads the events and the operators of an object.
    pub(crate) async fn gather(
        cluster: &Cluster,
        object: ObjectRef<'_>,
        body: &Body,
        storages: &Storages,
    ) -> Self {
        let now = Cluster::now();
        let (events, mut peers) = tokio::join!(cluster.events(body), cluster.peers());
        peers.retain(|peer| peer.serves(object.namespace));
        let mut handled = Handled::assess(body, storages, now);
        let events = events.map_err(|error| error.to_string());
        if let (State::Settled, Ok(events)) = (&handled.state, &events) {
            let mut outcome = EventOutcome::default();
            for event in events {
                outcome.add(event);
            }
            handled.state = outcome.failure().unwrap_or(State::Settled);
        }
        let last = |mut events: Vec<Event>| {
            let first = events.len().saturating_sub(EVENTS);
            events.split_off(first)
        };
        Self {
            title: object.to_string(),
            created: body.creation_timestamp().map(str::to_owned),
            deleted: body.deletion_timestamp().map(str::to_owned),
            request: storages
                .recognised(body)
                .iter()
                .find_map(|one| Request::fetch(&one.naming, body)),
            handled,
            events: events.map(last),
            peers,
        }
    }

    /// Returns the next step for the user.
    pub(crate) fn advice(&self, now: Timestamp) -> String {
        let state = &self.handled.state;
        let pause = pause_advice(&self.peers, now);
        let paused = pause.and_then(|pause| state.advice_when_paused(&pause));
        paused.unwrap_or_else(|| state.advice(now))
    }

    /// Returns the explanation as JSON.
    pub(crate) fn to_value(&self, now: Timestamp) -> Value {
        let handlers = self.handled.progress.records.iter();
        let handlers: Vec<Value> = handlers
            .map(|handler| handler_value(handler, now))
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
            |finalizer| json!({"name": finalizer.name(), "own": matches!(finalizer, Finalizer::Operator(_))}),
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
            "advice": self.advice(now),
            "created": self.created,
            "deleted": self.deleted,
            "handledOnce": self.handled.has_base,
            "diff": diff,
            "handlers": handlers,
            "requested": self.request.as_ref().map(|request| &request.handlers),
            "unknown": self.handled.progress.unknown,
            "finalizers": finalizers.collect::<Vec<_>>(),
            "peers": self.peers.iter().map(|peer| peer.to_value(now)).collect::<Vec<_>>(),
            "events": events.ok(),
        })
    }
}

fn handler_value(handler: &HandlerProgress, now: Timestamp) -> Value {
    let record = &handler.record;
    let time = |moment: Option<Timestamp>| moment.map(timestamp::format);
    json!({
        "id": handler.id,
        "parent": handler.parent,
        "progress": progress_line(handler, now, Start::Omitted).1,
        "seconds": handler.elapsed(now).map(|elapsed| elapsed.as_secs_f64()),
        "started": time(record.started),
        "stopped": time(record.stopped),
        "delayed": time(record.delayed),
        "purpose": record.purpose,
        "retries": record.retries,
        "success": record.success,
        "failure": record.failure,
        "message": handler.message(),
    })
}

#[cfg(test)]
mod tests {
    use kopf_core::peering::Peer;

    use super::*;
    use crate::paint::Colours;

    fn explanation(body: &Value) -> Explanation {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let storages = Storages::default();
        let body = Body::new(body.clone());
        Explanation {
            title: "thing ns/x".to_owned(),
            created: body.creation_timestamp().map(str::to_owned),
            deleted: None,
            request: Request::fetch(&storages.naming, &body),
            handled: Handled::assess(&body, &storages, now),
            events: Ok(Vec::new()),
            peers: Vec::new(),
        }
    }

    fn body() -> Value {
        let record = json!({
            "started": "2026-01-02T03:04:00Z", "delayed": "2026-01-02T03:04:17Z", "retries": 2,
            "purpose": "update", "message": "no\u{1b}[31m", "subrefs": ["fn/a"],
        });
        let sub = json!({
            "started": "2026-01-02T03:04:00Z", "stopped": "2026-01-02T03:04:01Z", "retries": 1,
            "success": true,
        });
        json!({
            "metadata": {
                "creationTimestamp": "2026-01-02T03:03:05Z",
                "annotations": {
                    "kopf.zalando.org/last-handled-configuration": r#"{"spec":{"field":1,"gone":2}}"#,
                    "kopf.zalando.org/fn": record.to_string(), "kopf.zalando.org/fn.a": sub.to_string(),
                    "kopf.zalando.org/odd": "?",
                },
                "finalizers": ["kopf.zalando.org/KopfFinalizerMarker", "foregroundDeletion"],
            },
            "spec": {"field": 3, "new": "x"},
        })
    }

    #[test]
    fn text_has_all_parts() {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let text = explanation(&body()).render(now, Colours::Off).join("\n");
        for part in [
            "thing ns/x\nstate: retrying in 12 s: fn (attempt 3): no",
            "created: 60 s ago",
            "  - spec.field: 1\n  + spec.field: 3",
            "  - spec.gone: 2",
            "  + spec.new: \"x\"",
            "  fn: next attempt in 12 s (update, 2 attempts, started 5 s ago): no\\u{1b}[31m",
            "    fn/a: succeeded (any reason, 1 attempt, 1.0 s)",
            "  odd",
            "  kopf.zalando.org/KopfFinalizerMarker: the operator",
            "  foregroundDeletion: the Kubernetes garbage collector",
        ] {
            assert!(text.contains(part), "{part}\n---\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        let colourful = explanation(&body()).render(now, Colours::On).join("\n");
        assert!(
            colourful.contains("\u{1b}[31m- spec.field: 1\u{1b}[0m"),
            "{colourful}"
        );
    }

    fn peer(identity: &str, priority: i64) -> Participant {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let lifetime = std::time::Duration::from_secs(60);
        Participant {
            peering: "default".to_owned(),
            namespace: None,
            peer: Peer::new(identity, priority, lifetime, now),
        }
    }

    #[test]
    fn unseen_objects_of_frozen_operators_are_explained_by_the_pause() {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let mut unseen = explanation(&json!({"metadata": {}}));
        unseen.peers = vec![peer("op", 0)];
        let text = unseen.render(now, Colours::Off).join("\n");
        assert!(text.contains("state: not seen") && text.contains("may be running"));
        unseen.peers.push(peer("freezer", 100));
        for text in [
            unseen.render(now, Colours::Off).join("\n"),
            unseen.to_value(now)["advice"].to_string(),
        ] {
            assert!(
                text.contains("Paused in the peering default: op."),
                "{text}"
            );
            assert!(
                text.contains("kopf resume -A -P default -i freezer"),
                "{text}"
            );
            assert!(!text.contains("not paused"), "{text}");
        }
    }

    #[test]
    fn pauses_do_not_concern_settled_objects_and_finalizers_of_others() {
        let own = Finalizer::Operator("own".to_owned());
        let other = Finalizer::Other("other".to_owned());
        let advice = |state: State| state.advice_when_paused("Paused.");
        let blocked = |finalizers| advice(State::Blocked { finalizers });
        assert_eq!(advice(State::Settled), None);
        assert_eq!(blocked(vec![other.clone()]), None);
        assert_eq!(blocked(vec![own.clone()]).as_deref(), Some("Paused."));
        let both = blocked(vec![own, other]).unwrap();
        assert!(both.starts_with("Paused. Other controllers") && both.ends_with("other."));
    }

    #[test]
    fn json_has_all_parts() {
        let now = timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let value = explanation(&body()).to_value(now);
        assert_eq!(value["state"]["name"], "retrying");
        assert_eq!(value["handlers"][1]["id"], "fn/a");
        assert_eq!(value["handlers"][0]["seconds"], 5.0);
        assert_eq!(value["handlers"][1]["seconds"], 1.0);
        // The page updates the start of unfinished handlers itself.
        let progress = "next attempt in 12 s (update, 2 attempts): no\u{1b}[31m";
        assert_eq!(value["handlers"][0]["progress"], progress);
        assert_eq!(
            value["diff"][0],
            json!({"sign": "added", "line": "+ spec.new: \"x\""})
        );
        assert_eq!(value["finalizers"][0]["own"], true);
    }
}
