//! The steps of a transcript, as they are written.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::PatchType;

/// The keys of a step, except for requests.
const KEYS: &str = "anonymous base64 causes closed compact crd do event events eventually for gone has headers \
    in includes let message names of raw returns save some_causes start status text warnings";

/// The names of columns, and the rows.
type Rows = (Vec<String>, Vec<Value>);

/// One step with the line of the file.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) line: u64,
    /// The step is repeated for each row.
    pub(super) rows: Option<Rows>,
    pub(super) action: Action,
    pub(super) expected: Expected,
    /// Names for values of the response, by path.
    pub(super) save: Map<String, Value>,
    /// The step is repeated until its expectations hold.
    pub(super) eventually: bool,
}

/// The action of a step.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Request(Request),
    /// Creates a CRD and waits until it is served.
    Crd(Value),
    Let(Map<String, Value>),
    /// Opens a watch with this name.
    Watch(Request, String),
    /// The type and the name in the next event of the watch.
    Event(String, String),
    /// The next events of the watch, in any order.
    Events(Value, String),
    /// The watch ends without further events.
    Closed(String),
    Compact,
    /// The kind of the server, `rbac` or `tls`; only as the first step.
    Start(String),
    Do(Vec<Step>),
}

/// A request as it is written.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The method and the path, as in the file.
    pub(super) line: String,
    pub(super) method: Method,
    pub(super) content_type: Option<&'static str>,
    pub(super) path: String,
    pub(super) body: Value,
    pub(super) raw: Option<Raw>,
    pub(super) headers: Map<String, Value>,
    pub(super) anonymous: bool,
}

/// A body that is sent as it is.
#[derive(Debug, Clone)]
pub(super) enum Raw {
    Text(String),
    Bytes(Bytes),
}

/// The expectations of a step.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) status: Option<Value>,
    pub(super) message: Option<Value>,
    pub(super) causes: Option<Value>,
    pub(super) some_causes: Option<Value>,
    pub(super) has: Map<String, Value>,
    pub(super) includes: Map<String, Value>,
    pub(super) names: Option<Value>,
    pub(super) warnings: Option<Value>,
    pub(super) text: Option<Value>,
    pub(super) returns: Map<String, Value>,
}

/// The cases of a file by name, with the steps before and after each of them.
#[derive(Debug)]
pub(super) struct File {
    pub(super) before: Vec<Step>,
    pub(super) after: Vec<Step>,
    pub(super) cases: BTreeMap<String, Vec<Step>>,
}

impl File {
    /// Parses a file. Errors begin with the line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let limits = serde_saphyr::options! {
            strict_booleans: true,
            budget: serde_saphyr::budget! { max_nodes: 1_000_000, max_total_scalar_bytes: 16 << 20 },
        };
        let cases: BTreeMap<String, Vec<Spanned<Map<String, Value>>>> =
            serde_saphyr::from_str_with_options(text, limits).map_err(|error| error.to_string())?;
        let mut parsed = BTreeMap::new();
        for (name, steps) in cases {
            let steps = steps.into_iter().map(|step| {
                let line = step.referenced.line();
                Step::parse(step.value, line).map_err(|error| format!("{line}: {name}: {error}"))
            });
            let steps: Vec<Step> = steps.collect::<Result<_, _>>()?;
            parsed.insert(name, steps);
        }
        Ok(Self {
            before: parsed.remove("before").unwrap_or_default(),
            after: parsed.remove("after").unwrap_or_default(),
            cases: parsed,
        })
    }
}

/// The fields of a step that are not read yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    fn map(&mut self, key: &str) -> Result<Map<String, Value>, String> {
        match self.take(key) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(other) => Err(format!("{key}: expected a mapping, got {other}")),
        }
    }

    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{key}: expected a text, got {other}")),
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.take(key) {
            None => Ok(false),
            Some(Value::Bool(true)) => Ok(true),
            Some(other) => Err(format!("{key}: expected true, got {other}")),
        }
    }
}

impl Step {
    pub(super) fn parse(fields: Map<String, Value>, line: u64) -> Result<Self, String> {
        let mut fields = Fields(fields);
        let rows = rows(&mut fields)?;
        if let Some(path) = fields.text("gone")? {
            let waited = [("eventually", true.into()), ("status", 404.into())];
            let waited = waited.map(|(key, value): (&str, Value)| (key.to_owned(), value));
            fields.0.extend(waited);
            fields.0.insert(format!("GET {path}"), Value::Null);
        }
        let (save, eventually) = (fields.map("save")?, fields.flag("eventually")?);
        let expected = Expected::parse(&mut fields)?;
        let action = Action::parse(&mut fields, line)?;
        if let Some(key) = fields.0.keys().next() {
            let known = if KEYS.split(' ').any(|known| known == key) {
                "misplaced"
            } else {
                "unknown"
            };
            return Err(format!("{known} field {key:?}: expected {KEYS}"));
        }
        Ok(Self {
            line,
            rows,
            action,
            expected,
            save,
            eventually,
        })
    }
}

fn rows(fields: &mut Fields) -> Result<Option<Rows>, String> {
    let names = match fields.take("for") {
        None => return Ok(None),
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<_>>().ok_or("for: expected names")?
        }
        Some(other) => return Err(format!("for: expected names, got {other}")),
    };
    match fields.take("in") {
        Some(Value::Array(rows)) if !rows.is_empty() => Ok(Some((names, rows))),
        _ => Err("in: expected a list with a row for each repetition".to_owned()),
    }
}

impl Expected {
    fn parse(fields: &mut Fields) -> Result<Self, String> {
        Ok(Self {
            status: fields.take("status"),
            message: fields.take("message"),
            causes: fields.take("causes"),
            some_causes: fields.take("some_causes"),
            has: fields.map("has")?,
            includes: fields.map("includes")?,
            names: fields.take("names"),
            warnings: fields.take("warnings"),
            text: fields.take("text"),
            returns: fields.map("returns")?,
        })
    }
}

impl Action {
    fn parse(fields: &mut Fields, line: u64) -> Result<Self, String> {
        let of =
            |fields: &mut Fields| Ok::<_, String>(fields.text("of")?.unwrap_or("watch".into()));
        if let Some(definition) = fields.take("crd") {
            return Ok(Self::Crd(definition));
        }
        if fields.0.contains_key("let") {
            return Ok(Self::Let(fields.map("let")?));
        }
        if let Some(event) = fields.text("event")? {
            return Ok(Self::Event(event, of(fields)?));
        }
        if let Some(events) = fields.take("events") {
            return Ok(Self::Events(events, of(fields)?));
        }
        if fields.flag("closed")? {
            return Ok(Self::Closed(of(fields)?));
        }
        if fields.flag("compact")? {
            return Ok(Self::Compact);
        }
        if let Some(kind) = fields.text("start")? {
            if !["rbac", "tls"].contains(&kind.as_str()) {
                return Err(format!("start: expected rbac or tls, got {kind}"));
            }
            return Ok(Self::Start(kind));
        }
        if let Some(steps) = fields.take("do") {
            let Value::Array(steps) = steps else {
                return Err("do: expected a list of steps".to_owned());
            };
            let steps = steps.into_iter().map(|step| match step {
                Value::Object(fields) => Step::parse(fields, line),
                other => Err(format!("do: expected a step, got {other}")),
            });
            return Ok(Self::Do(steps.collect::<Result<_, _>>()?));
        }
        let asked = fields.0.keys().find(|key| key.contains(' ')).cloned();
        let asked = asked.ok_or_else(|| {
            let given = fields.0.keys().cloned().collect::<Vec<_>>().join(", ");
            format!("no action; unknown fields: [{given}]; expected a request or {KEYS}")
        })?;
        let request = Request::parse(asked, fields)?;
        if request.line.starts_with("WATCH ") {
            let name = request.body.as_str().unwrap_or("watch").to_owned();
            return Ok(Self::Watch(request, name));
        }
        Ok(Self::Request(request))
    }
}

impl Request {
    fn parse(line: String, fields: &mut Fields) -> Result<Self, String> {
        let (word, path) = line.split_once(' ').unwrap_or_default();
        let json = Some("application/json");
        let patch = |kind: PatchType| (Method::PATCH, Some(kind.content_type()));
        let (method, content_type) = match word {
            "GET" | "WATCH" => (Method::GET, None),
            "HEAD" => (Method::HEAD, None),
            "OPTIONS" => (Method::OPTIONS, None),
            "POST" => (Method::POST, json),
            "PUT" => (Method::PUT, json),
            "DELETE" => (Method::DELETE, json),
            "PATCH" => (Method::PATCH, None),
            "MERGE" => patch(PatchType::Merge),
            "JSON" => patch(PatchType::Json),
            "STRATEGIC" => patch(PatchType::Strategic),
            "APPLY" => patch(PatchType::Apply),
            other => return Err(format!("unknown field {line:?}: {other:?} is not a method")),
        };
        Ok(Self {
            method,
            content_type,
            path: path.to_owned(),
            body: fields.take(&line).unwrap_or_default(),
            raw: match (fields.text("raw")?, fields.text("base64")?) {
                (Some(text), None) => Some(Raw::Text(text)),
                (None, Some(text)) => {
                    let bytes = STANDARD
                        .decode(text)
                        .map_err(|error| format!("base64: {error}"))?;
                    Some(Raw::Bytes(bytes.into()))
                }
                (None, None) => None,
                _ => return Err("a body is either raw or base64".to_owned()),
            },
            headers: fields.map("headers")?,
            anonymous: fields.flag("anonymous")?,
            line,
        })
    }
}
