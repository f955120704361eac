//! One object of the output.

use jiff::Timestamp;
use kopf_core::body::Body;
use serde_json::{Value, json};

use super::EventOutcomes;
use crate::args::Output;
use crate::cluster::Cluster;
use crate::events::EventOutcome;
use crate::handled::Handled;
use crate::paint::{Style, cut};
use crate::state::{Finalizer, State};
use crate::storages::Storages;
use crate::table::Cell;
use crate::time::age;

/// The longest details in a table, in characters. `kopf explain` shows all of them.
const DETAILS: usize = 400;

/// An object with its state; its body is not kept.
#[derive(Clone, Debug)]
pub(super) struct Row {
    api_version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: String,
    uid: Option<String>,
    created: Option<String>,
    handled: Handled,
    /// The state by the object and its events.
    state: Shown,
}

/// The state in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    State(State),
    /// The object no longer exists.
    Deleted,
}

/// The columns of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) with_namespace: bool,
    pub(super) output: Option<Output>,
}

impl Columns {
    pub(super) fn names(self) -> Vec<&'static str> {
        let mut names = Vec::new();
        if self.with_namespace {
            names.push("NAMESPACE");
        }
        names.extend(["NAME", "STATE", "AGE"]);
        if self.output == Some(Output::Wide) {
            names.extend(["HANDLERS", "CHANGES", "FINALIZERS"]);
        }
        names.push("DETAILS");
        names
    }
}

impl Row {
    pub(super) fn new(body: &Body, storages: &Storages, outcomes: &EventOutcomes) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let handled = Handled::assess(body, storages, Cluster::now());
        let mut row = Self {
            api_version: owned(body.api_version()),
            kind: owned(body.kind()),
            namespace: owned(body.namespace()),
            name: body.name().unwrap_or_default().to_owned(),
            uid: owned(body.uid()),
            created: owned(body.creation_timestamp()),
            state: Shown::State(handled.state.clone()),
            handled,
        };
        row.apply_outcome(body.uid().and_then(|uid| outcomes.get(uid)));
        row
    }

    /// Applies the events of the object, which show failures whose records are purged.
    pub(super) fn apply_outcome(&mut self, outcome: Option<&EventOutcome>) {
        let own = &self.handled.state;
        let failure = outcome.and_then(EventOutcome::failure);
        let failure = failure.filter(|_| *own == State::Settled);
        self.state = Shown::State(failure.unwrap_or_else(|| own.clone()));
    }

    /// Returns the row of the same object after its deletion.
    pub(super) fn deleted(mut self) -> Self {
        self.state = Shown::Deleted;
        self
    }

    /// Returns `true` if both rows have the same state.
    pub(super) fn has_state_of(&self, other: &Self) -> bool {
        self.state == other.state
    }

    fn state_name(&self) -> &'static str {
        match &self.state {
            Shown::State(state) => state.name(),
            Shown::Deleted => "deleted",
        }
    }

    fn details(&self, now: Timestamp) -> String {
        match &self.state {
            Shown::State(state) => state.details(now),
            Shown::Deleted => String::new(),
        }
    }

    pub(super) fn cells(&self, columns: Columns, now: Timestamp) -> Vec<Cell> {
        let mut cells = Vec::new();
        if columns.with_namespace {
            cells.push(Cell::new(self.namespace.as_deref().unwrap_or_default()));
        }
        let state = self.state_name();
        cells.push(Cell::new(&self.name));
        cells.push(Cell::styled(state, Style::of_state(state)));
        cells.push(Cell::new(&age(now, self.created.as_deref())));
        if columns.output == Some(Output::Wide) {
            let records = &self.handled.progress.records;
            let finished = records.iter().filter(|handler| handler.is_finished());
            let handlers = match records.len() {
                0 => String::new(),
                known => format!("{}/{known}", finished.count()),
            };
            cells.push(Cell::new(&handlers));
            cells.push(Cell::new(&self.handled.diff.len().to_string()));
            cells.push(Cell::new(&self.finalizers().join(",")));
        }
        cells.push(Cell::new(&cut(self.details(now), DETAILS)));
        cells
    }

    pub(super) fn to_value(&self, now: Timestamp) -> Value {
        let records = self.handled.progress.records.iter();
        let state = match &self.state {
            Shown::State(state) => state.to_value(),
            Shown::Deleted => json!({"name": "deleted"}),
        };
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "state": state,
            "details": self.details(now),
            "handlers": records.map(|handler| handler.id.as_str()).collect::<Vec<_>>(),
            "finalizers": self.finalizers(),
            "diff": &*self.handled.diff,
        })
    }

    fn finalizers(&self) -> Vec<&str> {
        self.handled
            .finalizers
            .iter()
            .map(Finalizer::name)
            .collect()
    }
}
