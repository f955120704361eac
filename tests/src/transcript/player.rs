//! Performing the steps of a case on a server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::checking::{event_differences, response_differences};
use super::path::Path;
use super::places::{absolute, kind_at};
use super::scope::Scope;
use super::step::{Action, Raw, Request, Step};
use crate::{Api, ApiResponse, PATIENCE, RequestBuilder, Watch};

/// A case in progress.
pub(super) struct Player<'a> {
    api: &'a Api,
    scope: Scope,
    watches: BTreeMap<String, Watch>,
}

impl<'a> Player<'a> {
    pub(super) fn new(api: &'a Api, mut scope: Scope) -> Self {
        scope.set("namespace", api.namespace());
        scope.set("group", api.group());
        let suffix = api.unique("").trim_start_matches('-').to_owned();
        // Unique as well, for objects that are named by addresses.
        scope.set(
            "address",
            format!("fe80::42:1{}:1{}", &suffix[..3], &suffix[3..6]),
        );
        scope.set("suffix", suffix);
        scope.set("crd", api.crd().definition().clone());
        Self {
            api,
            scope,
            watches: BTreeMap::new(),
        }
    }

    /// Performs steps until one fails. Errors begin with its line.
    pub(super) async fn perform(&mut self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            let Some((names, rows)) = &step.rows else {
                self.once(step)
                    .await
                    .map_err(|error| format!("{}: {error}", step.line))?;
                continue;
            };
            // Rows mean the values before the loop, also if a column has the name of one of them.
            let rows = self
                .scope
                .value(&json!(rows))
                .map_err(|error| format!("{}: {error}", step.line))?;
            for row in rows.as_array().into_iter().flatten() {
                self.row(step, names, row)
                    .await
                    .map_err(|error| format!("{}: for {row}: {error}", step.line))?;
            }
        }
        Ok(())
    }

    async fn row(&mut self, step: &Step, names: &[String], row: &Value) -> Result<(), String> {
        if let [name] = names {
            self.scope.set(name, row.clone());
        } else {
            let values = row.as_array().filter(|row| row.len() == names.len());
            let values = values.ok_or(format!("expected a row with {} values", names.len()))?;
            for (name, value) in names.iter().zip(values) {
                self.scope.set(name, value.clone());
            }
        }
        self.once(step).await
    }

    async fn once(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Start(_) => Ok(()),
            Action::Let(values) => {
                for (name, value) in values {
                    let value = self.scope.value(value)?;
                    self.scope.set(name, value);
                }
                Ok(())
            }
            Action::Compact => {
                self.api.compact().await;
                Ok(())
            }
            Action::Crd(definition) => self.define(definition).await,
            Action::Do(steps) => {
                let deadline = Instant::now() + PATIENCE;
                loop {
                    let outcome = Box::pin(self.perform(steps)).await;
                    if outcome.is_ok() || !step.eventually || Instant::now() > deadline {
                        return outcome;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Action::Request(request) => self.ask(request, step).await,
            Action::Watch(request, name) => {
                let (builder, _) = self.prepared(request).await?;
                self.watches.insert(name.clone(), builder.watch().await);
                Ok(())
            }
            Action::Event(brief, watch) => self.event(brief, watch, step).await,
            Action::Events(briefs, name) => self.events(briefs, name).await,
            Action::Closed(name) => {
                let watch = self
                    .watches
                    .remove(name)
                    .ok_or(format!("no watch {name}"))?;
                let rest = watch.closed().await;
                if rest.is_empty() {
                    return Ok(());
                }
                Err(format!("expected no more events, got {rest:?}"))
            }
        }
    }

    /// Creates a CRD: a whole one, or the test's own with some options.
    async fn define(&mut self, options: &Value) -> Result<(), String> {
        let given = self.scope.value(options)?;
        let mut builder = self.api.crd();
        if given["kind"] == "CustomResourceDefinition" {
            builder = builder.edit(|definition| *definition = given.clone());
        } else {
            for (option, value) in given.as_object().into_iter().flatten() {
                builder = match (option.as_str(), value) {
                    ("schema", schema) => builder.schema(schema.clone()),
                    ("spec", schema) => builder.spec_schema(schema.clone()),
                    ("status", Value::Bool(true)) => builder.with_status(),
                    ("scale", Value::Bool(true)) => builder.with_scale(),
                    ("cluster", Value::Bool(true)) => builder.cluster_scoped(),
                    ("second", Value::Bool(true)) => builder.with_second_version(),
                    _ => return Err(format!("crd: unknown field {option:?} or value {value}")),
                };
            }
        }
        builder.create().await;
        Ok(())
    }

    /// Returns the request, and its absolute path.
    async fn prepared(&self, request: &Request) -> Result<(RequestBuilder, String), String> {
        let mut path = absolute(&request.path, &self.scope)?;
        if request.line.starts_with("WATCH ") {
            path.push_str(if path.contains('?') {
                "&watch=1"
            } else {
                "?watch=1"
            });
        }
        let mut builder = if request.anonymous {
            self.api
                .request_without_credentials(request.method.clone(), &path)
                .await
        } else {
            self.api.request(request.method.clone(), &path)
        };
        let body = match &request.raw {
            Some(Raw::Text(raw)) => Some(Bytes::from(self.scope.text(raw)?)),
            Some(Raw::Bytes(bytes)) => Some(bytes.clone()),
            None if request.line.starts_with("WATCH ") => None,
            None => self
                .body(request, &path)?
                .map(|body| Bytes::from(body.to_string())),
        };
        let given = request.headers.keys().any(|name| name == "content-type");
        if let (Some(_), Some(kind), false) = (&body, request.content_type, given) {
            builder = builder.header("content-type", kind);
        }
        for (name, value) in &request.headers {
            if let Some(value) = value.as_str() {
                builder = builder.header(name, &self.scope.text(value)?);
            }
        }
        Ok((builder.body(body.unwrap_or_default()), path))
    }

    /// Returns the body with its version and kind, if it has neither and the path implies them.
    fn body(&self, request: &Request, path: &str) -> Result<Option<Value>, String> {
        let mut body = self.scope.value(&request.body)?;
        if body.is_null() {
            return Ok(None);
        }
        let is_object = [Method::POST, Method::PUT].contains(&request.method)
            || request.line.starts_with("APPLY ");
        if let Some(fields) = body.as_object_mut()
            && !fields.contains_key("kind")
            && !fields.contains_key("apiVersion")
        {
            let (version, kind) = match request.method {
                Method::DELETE => ("v1".to_owned(), "DeleteOptions"),
                _ if !is_object => return Ok(Some(body)),
                _ => kind_at(path).ok_or("the body needs a kind")?,
            };
            fields.insert("apiVersion".to_owned(), version.into());
            fields.insert("kind".to_owned(), kind.into());
        }
        Ok(Some(body))
    }

    /// Sends a request, again while the step expects it eventually, and checks the response.
    async fn ask(&mut self, request: &Request, step: &Step) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(5);
        loop {
            let (builder, path) = self.prepared(request).await?;
            let response = builder.send().await;
            self.clean_up(request, &path, &response);
            // Expectations may name values of the same response.
            let mut scope = self.scope.clone();
            save(&mut scope, &step.save, &response.json)?;
            let wrong = response_differences(step, &request.method, &response, &scope)?;
            if wrong.is_empty() {
                self.scope = scope;
                return Ok(());
            }
            if !step.eventually || Instant::now() > deadline {
                let (asked, wrong) = (&request.line, wrong.join("\n  "));
                let (code, text) = (response.code, response.text());
                return Err(format!("{asked}\n  {wrong}\nresponse: {code} {text}"));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Registers created objects outside of the test's namespace for deletion.
    fn clean_up(&self, request: &Request, path: &str, response: &ApiResponse) {
        let own = format!("/namespaces/{}/", self.api.namespace());
        let name = response.name();
        if response.code != 201 || path.contains(&own) || path.contains("dryRun") || name.is_empty()
        {
            return;
        }
        let path = path.split('?').next().unwrap_or_default();
        self.api.delete_at_end(match request.method {
            Method::POST => format!("{path}/{name}"),
            _ => path.to_owned(),
        });
    }

    /// Reads as many events as expected, in any order.
    async fn events(&mut self, expected: &Value, name: &str) -> Result<(), String> {
        let mut expected = self.scope.value(expected)?;
        let list = expected.as_array_mut().ok_or("events: expected a list")?;
        list.sort_by_key(Value::to_string);
        let watch = self
            .watches
            .get_mut(name)
            .ok_or(format!("no watch {name}"))?;
        let mut found = Vec::new();
        for _ in 0..list.len() {
            let event = watch.next_event().await;
            found.push(json!(format!("{} {}", event.kind, event.name())));
        }
        found.sort_by_key(Value::to_string);
        if *list == found {
            return Ok(());
        }
        Err(format!("expected the events {expected}, got {found:?}"))
    }

    async fn event(&mut self, brief: &str, name: &str, step: &Step) -> Result<(), String> {
        let brief = self.scope.text(brief)?;
        let watch = self
            .watches
            .get_mut(name)
            .ok_or(format!("no watch {name}"))?;
        let event = watch.next_event().await;
        let (kind, object) = brief.split_once(' ').unwrap_or((&brief, event.name()));
        save(&mut self.scope, &step.save, &event.object)?;
        let mut wrong = event_differences(step, &event.object, &self.scope)?;
        if event.brief() != (kind, object) {
            wrong.push(format!(
                "event: expected {brief}, got {} {}",
                event.kind,
                event.name()
            ));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong = wrong.join("\n  ");
        Err(format!(
            "event {brief}\n  {wrong}\nevent: {}",
            json!(event.object)
        ))
    }
}

/// Saves values of a response under their names.
fn save(
    scope: &mut Scope,
    names: &serde_json::Map<String, Value>,
    body: &Value,
) -> Result<(), String> {
    for (name, path) in names {
        let path = path
            .as_str()
            .ok_or(format!("save: the path of {name} is not a text"))?;
        scope.set(name, Path::parse(&scope.text(path)?)?.get(body));
    }
    Ok(())
}
