//! Conversion of results of verbs to HTTP responses.

mod layout;
mod list;
pub mod protobuf;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use kopf_sandbox_kinds::table::{self, TableOptions};
use kopf_sandbox_schema::kind::Kind;
use serde_json::{Value, json};

pub use self::layout::{Layout, Verbatim};
pub use self::list::{Page, list};
use crate::body::Body;
use crate::call::{Call, Payload};
use crate::cluster::Cluster;
use crate::request::accept::{Accepted, Encoding, Form, MetaVersion};
use crate::request::options::IncludeObject;
use crate::status::ApiError;
use crate::tap::Told;

/// The media type of JSON.
pub const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Returns a response with a JSON document, which ends with a line break.
pub fn json(code: u16, document: impl AsRef<[u8]>) -> Response<Body> {
    typed(code, JSON, [document.as_ref(), b"\n"].concat())
}

/// Returns a response whose text does not depend on the options of the request.
pub(crate) fn verbatim(text: impl Into<Bytes>) -> Response<Body> {
    let mut response = typed(200, JSON, text);
    response.extensions_mut().insert(Verbatim);
    response
}

/// Returns a response with a document that is always indented.
pub(crate) fn indented(document: &Value) -> Response<Body> {
    verbatim(format!("{document:#}"))
}

/// Returns a response of the type JSON without a body.
pub fn empty(code: u16) -> Response<Body> {
    typed(code, JSON, Bytes::new())
}

/// Returns a response with a body of another type.
pub fn typed(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body.into()));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

/// Returns the response of a rejected request.
pub fn error(error: &ApiError) -> Response<Body> {
    let mut response = json(error.code(), error.body().to_string());
    if let Some(seconds) = error.retry_after() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds `Warning` headers in the format that kubectl prints.
pub fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for text in warnings {
        let escaped = text
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace(['\r', '\n'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Returns the response with one object. A tap receives the whole object, in any form of the response.
pub fn object(cluster: &Cluster, call: &Call, code: u16, payload: Payload) -> Response<Body> {
    let told = cluster.tap.as_ref().map(|_| told(call, &payload));
    let mut response = shown(cluster, call, code, payload);
    if let Some(told) = told {
        response.extensions_mut().insert(told);
    }
    response
}

/// Returns the payload for the tap.
fn told(call: &Call, payload: &Payload) -> Told {
    let text = |document: &Value| Told::Document(document.to_string().into());
    match payload {
        Payload::Stored(stored) => {
            Told::Document(Cluster::bytes(stored, &call.kind, &call.version))
        }
        Payload::Object(object) => text(object),
        Payload::Document(document) => match document.get("items").and_then(Value::as_array) {
            Some(items) => Told::List {
                items: items.len(),
                revision: list_version(document).unwrap_or_default(),
            },
            None => text(document),
        },
    }
}

/// Returns the resource version of a list.
fn list_version(list: &Value) -> Option<u64> {
    let version = list.pointer("/metadata/resourceVersion")?;
    version.as_str()?.parse().ok()
}

fn shown(cluster: &Cluster, call: &Call, code: u16, payload: Payload) -> Response<Body> {
    let document = match payload {
        Payload::Document(document) => return encoded(call.accepted, code, &document),
        Payload::Stored(stored) if call.accepted == Accepted::default() => {
            return json(code, Cluster::bytes(&stored, &call.kind, &call.version));
        }
        Payload::Stored(stored) => Cluster::object(&stored, &call.kind, &call.version),
        Payload::Object(object) => object,
    };
    let shown = match call.accepted.form {
        Form::Whole => document,
        Form::Metadata => metadata_only(document, call.accepted.meta),
        Form::Table => {
            let options = table_options(call.options.include_object, true, call.accepted.meta);
            let now = cluster.clock.now();
            table::single(&call.kind, &call.version, document, options, now)
        }
    };
    encoded(call.accepted, code, &shown)
}

fn encoded(accepted: Accepted, code: u16, document: &Value) -> Response<Body> {
    match accepted.encoding {
        // Protobuf is encoded from the JSON when the response is complete.
        Encoding::Json | Encoding::Protobuf => json(code, document.to_string()),
        Encoding::Yaml => match serde_saphyr::to_string(document) {
            Ok(text) => typed(code, YAML, text),
            Err(problem) => error(&ApiError::internal(problem.to_string())),
        },
    }
}

fn table_options(include: IncludeObject, headers: bool, meta: MetaVersion) -> TableOptions {
    TableOptions {
        include,
        headers,
        api_version: meta.api_version(),
    }
}

fn metadata_only(mut object: Value, meta: MetaVersion) -> Value {
    let metadata = object.get_mut("metadata").map(Value::take);
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": meta.api_version(),
        "metadata": metadata.unwrap_or_else(|| json!({})),
    })
}

/// The representation of the events of a watch.
#[derive(Debug)]
pub struct EventForm {
    form: Form,
    include: IncludeObject,
    meta: MetaVersion,
    /// `true` after the first event of a table: only that one has the columns.
    columns_sent: bool,
}

impl EventForm {
    pub fn of(call: &Call) -> Self {
        Self {
            form: call.accepted.form,
            include: call.options.include_object,
            meta: call.accepted.meta,
            columns_sent: false,
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.form == Form::Whole
    }

    pub(crate) fn show(
        &mut self,
        kind: &Arc<Kind>,
        version: &str,
        object: Value,
        now: Timestamp,
    ) -> Value {
        match self.form {
            Form::Whole => object,
            Form::Metadata => metadata_only(object, self.meta),
            Form::Table => {
                let headers = !std::mem::replace(&mut self.columns_sent, true);
                let options = table_options(self.include, headers, self.meta);
                table::single(kind, version, object, options, now)
            }
        }
    }
}
