//! `kopf get`: objects with the state of their handling.

use std::collections::HashMap;

use jiff::Timestamp;
use kopf_core::body::Body;
use serde_json::{Value, json};

use super::need;
use crate::args::{GetArgs, Output};
use crate::cluster::{Cluster, Going, Query};
use crate::events::Verdict;
use crate::failure::Failure;
use crate::handled::Handled;
use crate::kinds::full;
use crate::paint::Style;
use crate::places::Places;
use crate::screen::Screen;
use crate::state::{Holder, State};
use crate::table::{Cell, Table};
use crate::time::age;
use crate::writing::Named;

pub(super) async fn run(args: &GetArgs, screen: &Screen) -> Result<(), Failure> {
    let places = args.common.places()?;
    let cluster = args.common.connect().await?;
    let resource = cluster.resolve(&args.kind).await?;
    let namespace = args.scope.of(&cluster, &resource);
    if args.name.is_some() && args.scope.all_namespaces && resource.namespaced {
        return Err(Failure::plain("a name cannot be combined with -A")
            .advise("name the namespace of the object by -n"));
    }
    let verdicts = match cluster.verdicts(&resource, namespace.as_deref()).await {
        Ok(verdicts) => verdicts,
        Err(error) => {
            let reason = "failures without records are not shown: cannot list events";
            screen.warning(&format!("{reason}: {error}"));
            HashMap::new()
        }
    };
    let mut printer = Printer::new(args, screen);
    let assess = |body: Body| Row::new(body, &places, &verdicts);
    if let Some(name) = &args.name {
        let object = Named {
            resource: &resource,
            namespace: namespace.as_deref(),
            name,
        };
        printer.page(&[assess(need(&cluster, object).await?)]);
    } else {
        let query = Query {
            resource: &resource,
            namespace: namespace.as_deref(),
            labels: args.selector.as_deref(),
            fields: None,
        };
        let listed = cluster.pages(query, |page| {
            let rows: Vec<_> = page.into_iter().map(assess).collect();
            printer.page(&rows);
            Going::On
        });
        listed.await.map_err(|error| {
            Failure::request(format!("cannot list {}", full(&resource)), &error)
        })?;
    }
    printer.finish(&match &namespace {
        Some(namespace) => format!("no {} in the namespace {namespace}", full(&resource)),
        None => format!("no {}", full(&resource)),
    });
    Ok(())
}

/// One object of the output.
struct Row {
    body: Body,
    handled: Handled,
}

impl Row {
    fn new(body: Body, places: &Places, verdicts: &HashMap<String, Verdict>) -> Self {
        let mut handled = Handled::assess(&body, places, Cluster::now());
        if handled.state == State::Settled {
            let verdict = body.uid().and_then(|uid| verdicts.get(uid));
            let failure = verdict.and_then(Verdict::failure);
            handled.state = failure.unwrap_or(State::Settled);
        }
        Self { body, handled }
    }

    fn cells(&self, printer: &Printer<'_>, now: Timestamp) -> Vec<Cell> {
        let state = &self.handled.state;
        let name = self.body.name().unwrap_or_default();
        let mut cells = Vec::new();
        if printer.with_namespace {
            cells.push(Cell::new(self.body.namespace().unwrap_or_default()));
        }
        cells.push(Cell::new(name));
        cells.push(Cell::styled(state.name(), Style::of_state(state.name())));
        cells.push(Cell::new(&age(now, self.body.creation_timestamp())));
        if printer.output == Some(Output::Wide) {
            let records = &self.handled.findings.records;
            let finished = records
                .iter()
                .filter(|finding| finding.is_finished())
                .count();
            let handlers = match records.len() {
                0 => String::new(),
                known => format!("{finished}/{known}"),
            };
            let finalizers = self.handled.finalizers.iter();
            let finalizers: Vec<_> = finalizers.map(Holder::name).collect();
            cells.push(Cell::new(&handlers));
            cells.push(Cell::new(&self.handled.diff.len().to_string()));
            cells.push(Cell::new(&finalizers.join(",")));
        }
        cells.push(Cell::new(&state.details(now)));
        cells
    }

    fn to_value(&self, now: Timestamp) -> Value {
        let records = self.handled.findings.records.iter();
        let finalizers = self.handled.finalizers.iter();
        json!({
            "apiVersion": self.body.api_version(),
            "kind": self.body.kind(),
            "namespace": self.body.namespace(),
            "name": self.body.name(),
            "uid": self.body.uid(),
            "state": self.handled.state.to_value(),
            "details": self.handled.state.details(now),
            "handlers": records.map(|finding| finding.id.as_str()).collect::<Vec<_>>(),
            "finalizers": finalizers.map(Holder::name).collect::<Vec<_>>(),
            "diff": &*self.handled.diff,
        })
    }
}

/// Prints the rows page by page.
struct Printer<'a> {
    screen: &'a Screen,
    output: Option<Output>,
    with_namespace: bool,
    table: Table,
    count: usize,
}

impl<'a> Printer<'a> {
    fn new(args: &GetArgs, screen: &'a Screen) -> Self {
        let with_namespace = args.scope.all_namespaces;
        let mut header = Vec::new();
        if with_namespace {
            header.push("NAMESPACE");
        }
        header.extend(["NAME", "STATE", "AGE"]);
        if args.output == Some(Output::Wide) {
            header.extend(["HANDLERS", "CHANGES", "FINALIZERS"]);
        }
        header.push("DETAILS");
        Self {
            screen,
            output: args.output,
            with_namespace,
            table: Table::new(&header, screen.colours()),
            count: 0,
        }
    }

    fn page(&mut self, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        let now = Cluster::now();
        if self.output == Some(Output::Json) {
            let mut text = String::new();
            for row in rows {
                text.push_str(if self.count == 0 {
                    "{\"items\": [\n"
                } else {
                    ",\n"
                });
                text.push_str(&row.to_value(now).to_string());
                self.count += 1;
            }
            self.screen.print(&text);
            return;
        }
        self.count += rows.len();
        let rows = rows.iter().map(|row| row.cells(self, now)).collect();
        let lines = self.table.page(rows);
        self.screen.lines(&lines);
    }

    fn finish(&self, nothing: &str) {
        match (self.output, self.count) {
            (Some(Output::Json), 0) => self.screen.print("{\"items\": []}\n"),
            (Some(Output::Json), _) => self.screen.print("\n]}\n"),
            (_, 0) => self.screen.warning(nothing),
            _ => {}
        }
    }
}
