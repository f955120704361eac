//! `kopf get --watch`: a row for each new state of an object, until Ctrl-C.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use kopf_client::Error;
use kopf_client::watching::{Item, Observer, Signal, observe};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;
use kopf_core::settings::{StreamSelector, Watching};

use super::printer::Printer;
use super::row::Row;
use super::{EventOutcomes, Selection};
use crate::cluster::{Cluster, events};
use crate::commands::need;
use crate::events::Event;
use crate::failure::{Failure, request_failure};
use crate::kinds::full;
use crate::storages::Storages;

/// Upper bound for the number of watched objects: their rows are in memory.
const ROWS: usize = 100_000;

/// The number of rows of a list that are printed together with aligned columns.
const PAGE: usize = 500;

/// Prints the rows of all objects, then a row for each new state.
pub(super) async fn run(
    cluster: &Cluster,
    selection: &Selection<'_>,
    storages: Storages,
    outcomes: Option<EventOutcomes>,
    mut printer: Printer<'_>,
) -> Result<(), Failure> {
    if let Some(object) = selection.object_ref() {
        need(cluster, object).await?;
    }
    let mut objects = observe_objects(cluster, selection);
    let mut events = outcomes
        .is_some()
        .then(|| observe_events(cluster, selection));
    let mut states = LastStates::new(storages, outcomes.unwrap_or_default());
    let mut phase = Phase::Listing;
    while printer.screen().is_open() {
        let changes = tokio::select! {
            signal = objects.next() => match signal {
                Signal::Failure { error, .. } if error.is_forbidden() => {
                    return Err(selection.unwatched(phase, &error));
                }
                Signal::Failure { error, .. } => {
                    interrupt(&error, phase, selection, &printer)?;
                    phase = phase.interrupted();
                    Vec::new()
                }
                Signal::Listed { objects } => {
                    let changes = states.listed();
                    if objects == 0 && changes.is_empty() && phase == Phase::Listing {
                        printer.screen().warning(&selection.nothing());
                    }
                    phase = Phase::Watching;
                    changes
                }
                signal => {
                    phase = phase.after(&signal);
                    states.object(signal)?
                }
            },
            signal = next(&mut events) => states.event(&signal),
        };
        printer.page(&changes);
    }
    Ok(())
}

impl Selection<'_> {
    /// A missing permission does not come back by itself.
    fn unwatched(&self, phase: Phase, error: &Error) -> Failure {
        match phase {
            Phase::Listing => self.unlisted(error),
            Phase::Watching | Phase::Interrupted => {
                request_failure(format!("cannot watch {}", full(self.resource)), error)
            }
        }
    }
}

/// The progress of the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The initial list is incomplete.
    Listing,
    Watching,
    /// The server does not respond. This was reported.
    Interrupted,
}

impl Phase {
    /// Any object shows that the server responds again.
    fn after(self, signal: &Signal) -> Self {
        match (self, signal) {
            (Self::Interrupted, Signal::Item(_)) => Self::Watching,
            _ => self,
        }
    }

    fn interrupted(self) -> Self {
        match self {
            Self::Listing => Self::Listing,
            Self::Watching | Self::Interrupted => Self::Interrupted,
        }
    }
}

/// Fails before the initial list is complete. Later interruptions are reported once, as the watch
/// retries.
fn interrupt(
    error: &Error,
    phase: Phase,
    selection: &Selection<'_>,
    printer: &Printer<'_>,
) -> Result<(), Failure> {
    match phase {
        Phase::Listing => return Err(selection.unlisted(error)),
        Phase::Watching => {
            let text = format!("the watch is interrupted and is being retried: {error}");
            printer.screen().warning(&text);
        }
        Phase::Interrupted => {}
    }
    Ok(())
}

fn observe_objects(cluster: &Cluster, selection: &Selection<'_>) -> Observer {
    let mut settings = Watching::default();
    if let Some(labels) = selection.labels {
        let mut selector = selector_of(selection.resource);
        selector.labels = Some(labels.to_owned());
        settings.selectors = vec![selector];
    }
    let namespace = selection.namespace.map(str::to_owned);
    let resource = Arc::new(selection.resource.clone());
    let observer = observe(cluster.client().clone(), resource, namespace, &settings);
    match selection.name {
        Some(name) => observer.named(name),
        None => observer,
    }
}

fn observe_events(cluster: &Cluster, selection: &Selection<'_>) -> Observer {
    let resource = events();
    let mut selector = selector_of(&resource);
    selector.fields = Some(format!("involvedObject.kind={}", selection.resource.kind));
    let mut settings = Watching::default();
    settings.selectors = vec![selector];
    let namespace = selection.namespace.map(str::to_owned);
    let client = cluster.client().clone();
    observe(client, Arc::new(resource), namespace, &settings)
}

fn selector_of(resource: &Resource) -> StreamSelector {
    let Resource {
        group,
        version,
        plural,
        ..
    } = resource;
    let resources = Selector::parse(&[group, version, plural]);
    StreamSelector::new(resources.unwrap_or_else(|_| Selector::everything()))
}

async fn next(events: &mut Option<Observer>) -> Signal {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// The last states of all objects.
struct LastStates {
    storages: Storages,
    rows: HashMap<String, Row>,
    outcomes: EventOutcomes,
    /// The uids of an incomplete list.
    listing: Option<HashSet<String>>,
    /// Rows of an incomplete list that are not printed yet.
    pending: Vec<Row>,
}

impl LastStates {
    fn new(storages: Storages, outcomes: EventOutcomes) -> Self {
        Self {
            storages,
            rows: HashMap::new(),
            outcomes,
            listing: None,
            pending: Vec::new(),
        }
    }

    /// Applies a signal of the objects. Returns the rows with a new state.
    fn object(&mut self, signal: Signal) -> Result<Vec<Row>, Failure> {
        match signal {
            Signal::Listing => {
                self.listing = Some(HashSet::new());
                Ok(Vec::new())
            }
            Signal::Item(item) => self.item(&item),
            Signal::Listed { .. } | Signal::Failure { .. } => Ok(Vec::new()),
        }
    }

    fn item(&mut self, item: &Item) -> Result<Vec<Row>, Failure> {
        let Some(uid) = item.key.uid.as_deref() else {
            return Ok(Vec::new());
        };
        if let Some(listing) = &mut self.listing {
            listing.insert(uid.to_owned());
        }
        if item.event == EventType::Deleted {
            return Ok(self.removed(uid).into_iter().collect());
        }
        let Ok(body) = Body::parse(&item.raw) else {
            return Ok(Vec::new());
        };
        let row = Row::new(&body, &self.storages, &self.outcomes);
        match self.rows.insert(uid.to_owned(), row.clone()) {
            Some(known) if known.has_state_of(&row) => return Ok(Vec::new()),
            None if self.rows.len() > ROWS => {
                let reason = format!("more than {ROWS} objects cannot be watched");
                return Err(Failure::plain(reason).advise("select a namespace (-n) or labels (-l)"));
            }
            _ => self.pending.push(row),
        }
        Ok(match &self.listing {
            Some(_) if self.pending.len() < PAGE => Vec::new(),
            _ => mem::take(&mut self.pending),
        })
    }

    /// Completes a list: known objects that are not in it are deleted.
    fn listed(&mut self) -> Vec<Row> {
        let mut rows = mem::take(&mut self.pending);
        let Some(listing) = self.listing.take() else {
            return rows;
        };
        let gone = self.rows.keys().filter(|uid| !listing.contains(*uid));
        let gone: Vec<String> = gone.cloned().collect();
        rows.extend(gone.iter().filter_map(|uid| self.removed(uid)));
        rows
    }

    fn removed(&mut self, uid: &str) -> Option<Row> {
        self.outcomes.remove(uid);
        self.rows.remove(uid).map(Row::deleted)
    }

    /// Applies a signal of k8s-events, which show failures whose records are purged.
    fn event(&mut self, signal: &Signal) -> Vec<Row> {
        let Signal::Item(item) = signal else {
            return Vec::new();
        };
        let body = Body::parse(&item.raw).ok();
        let event = body.and_then(|body| Event::read(body.value()));
        let event = event.filter(|_| item.event != EventType::Deleted);
        let Some(event) = event.filter(Event::is_relevant) else {
            return Vec::new();
        };
        if self.outcomes.len() >= ROWS && !self.outcomes.contains_key(&event.uid) {
            return Vec::new();
        }
        let outcome = self.outcomes.entry(event.uid.clone()).or_default();
        outcome.add(&event);
        let Some(row) = self.rows.get_mut(&event.uid) else {
            return Vec::new();
        };
        let known = row.clone();
        row.apply_outcome(Some(outcome));
        if row.has_state_of(&known) {
            Vec::new()
        } else {
            vec![row.clone()]
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::args::Output;
    use crate::commands::get::row::Columns;

    const BASE: &str = "kopf.zalando.org/last-handled-configuration";

    fn item(event: EventType, uid: &str, value: &Value) -> Signal {
        let mut item = Item {
            event,
            key: kopf_client::watching::Peek::default(),
            raw: value.to_string().into(),
        };
        item.key.uid = Some(uid.into());
        Signal::Item(item)
    }

    fn thing(event: EventType, uid: &str, annotations: &Value) -> Signal {
        let metadata = json!({"name": format!("name-of-{uid}"), "uid": uid,
                              "annotations": annotations});
        let spec = json!({"x": 1});
        item(event, uid, &json!({"metadata": metadata, "spec": spec}))
    }

    fn states() -> LastStates {
        LastStates::new(Storages::default(), EventOutcomes::new())
    }

    fn shown(rows: &[Row]) -> Vec<String> {
        let columns = Columns {
            with_namespace: false,
            output: Some(Output::Json),
        };
        assert_eq!(columns.names().len(), 4);
        let rows = rows.iter().map(|row| row.to_value(Cluster::now()));
        rows.map(|row| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            format!("{}: {}", text(&row["name"]), text(&row["state"]["name"]))
        })
        .collect()
    }

    fn settled() -> Value {
        json!({BASE: r#"{"spec":{"x":1}}"#})
    }

    #[test]
    fn changes_follow_the_listed_objects() {
        let mut states = states();
        states.object(Signal::Listing).unwrap();
        for uid in ["a", "b"] {
            let rows = states.object(thing(EventType::Listed, uid, &settled()));
            assert!(rows.unwrap().is_empty());
        }
        let rows = states.listed();
        assert_eq!(shown(&rows), ["name-of-a: settled", "name-of-b: settled"]);
        let changed = json!({BASE: r#"{"spec":{"x":2}}"#});
        let rows = states.object(thing(EventType::Modified, "a", &changed));
        assert_eq!(shown(&rows.unwrap()), ["name-of-a: changed"]);
        let rows = states.object(thing(EventType::Modified, "a", &changed));
        assert!(rows.unwrap().is_empty(), "the state is the same");
        let rows = states.object(thing(EventType::Deleted, "a", &changed));
        assert_eq!(shown(&rows.unwrap()), ["name-of-a: deleted"]);
    }

    #[test]
    fn objects_that_vanish_during_an_interruption_are_deleted() {
        let mut states = states();
        for uids in [&["a", "b"][..], &["b"][..]] {
            states.object(Signal::Listing).unwrap();
            for uid in uids {
                states
                    .object(thing(EventType::Listed, uid, &settled()))
                    .unwrap();
            }
            if uids.len() == 1 {
                assert_eq!(shown(&states.listed()), ["name-of-a: deleted"]);
            } else {
                states.listed();
            }
        }
    }

    #[test]
    fn events_show_failures_of_settled_objects() {
        let mut states = states();
        states
            .object(thing(EventType::Added, "a", &settled()))
            .unwrap();
        let event = |message: &str| {
            item(
                EventType::Added,
                "event",
                &json!({"metadata": {"uid": "event"}, "involvedObject": {"uid": "a"}, "type": "Error",
                        "lastTimestamp": "2026-01-02T03:04:05Z", "message": message}),
            )
        };
        let rows = states.event(&event("Handler 'fn' failed permanently: no flour"));
        assert_eq!(shown(&rows), ["name-of-a: failed"]);
        let rows = states.event(&event("Handler 'fn' failed permanently: no flour"));
        assert!(rows.is_empty(), "the state is the same");
    }
}
