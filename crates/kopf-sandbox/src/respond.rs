//! Conversion of results of verbs to HTTP responses.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::body::Body;
use crate::cluster::Cluster;
use crate::kinds::Kind;
use crate::request::accept::{Accepted, Encoding, Form, MetaVersion};
use crate::request::options::IncludeObject;
use crate::status::ApiError;
use crate::store::Stored;
use crate::table::{self, TableOptions};
use crate::verbs::list::Page;
use crate::verbs::{Call, Payload};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

/// Returns a response with a JSON body.
pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    typed(code, JSON, body)
}

/// Returns a response with a body of another type.
pub(crate) fn typed(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
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
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let mut response = json(error.code, error.body().to_string());
    if let Some(seconds) = error.retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds `Warning` headers in the format that kubectl prints.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
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

/// Returns the response with one object.
pub(crate) fn object(
    cluster: &Cluster,
    call: &Call,
    code: u16,
    payload: Payload,
) -> Response<Body> {
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
        Form::Metadata => metadata_only(&document, call.accepted.meta),
        Form::Table => {
            let metadata = document.get("metadata").cloned().unwrap_or_default();
            table::table_document(
                &call.kind,
                &call.version,
                &metadata,
                [&document],
                table_options(call.options.include_object, true, call.accepted.meta),
                cluster.clock.now(),
            )
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

fn table_options(
    include: IncludeObject,
    headers: bool,
    meta: MetaVersion,
) -> TableOptions<'static> {
    TableOptions {
        include,
        headers,
        api_version: meta.api_version(),
    }
}

fn metadata_only(object: &Value, meta: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": meta.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Returns the response with a list.
pub(crate) fn list(cluster: &Cluster, call: &Call, page: &Page) -> Response<Body> {
    let mut metadata = json!({ "resourceVersion": page.revision.to_string() });
    if let Some(token) = &page.continue_token {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    if let Some(selector) = &page.shard {
        metadata["shardInfo"] = json!({ "selector": selector });
    }
    match call.accepted.form {
        Form::Whole if call.accepted.encoding != Encoding::Yaml => {
            whole_list(call, page, &metadata)
        }
        Form::Whole => {
            let items: Vec<Value> = page
                .items
                .iter()
                .map(|stored| list_item(stored, call))
                .collect();
            let document = json!({
                "kind": call.kind.list_kind, "apiVersion": call.api_version(),
                "metadata": metadata, "items": items,
            });
            encoded(call.accepted, 200, &document)
        }
        Form::Metadata => {
            let items: Vec<Value> = page
                .items
                .iter()
                .map(|stored| {
                    let object = Cluster::object(stored, &call.kind, &call.version);
                    metadata_only(&object, call.accepted.meta)
                })
                .collect();
            let document = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": call.accepted.meta.api_version(),
                "metadata": metadata, "items": items,
            });
            encoded(call.accepted, 200, &document)
        }
        Form::Table => {
            let objects: Vec<Value> = page
                .items
                .iter()
                .map(|stored| Cluster::object(stored, &call.kind, &call.version))
                .collect();
            let document = table::table_document(
                &call.kind,
                &call.version,
                &metadata,
                &objects,
                table_options(call.options.include_object, true, call.accepted.meta),
                cluster.clock.now(),
            );
            encoded(call.accepted, 200, &document)
        }
    }
}

/// Concatenates the stored bytes into a list without parsing them.
fn whole_list(call: &Call, page: &Page, metadata: &Value) -> Response<Body> {
    let size: usize = page.items.iter().map(|stored| stored.raw.len() + 1).sum();
    let mut text = BytesMut::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(call.kind.list_kind),
        json!(call.api_version())
    );
    text.put_slice(head.as_bytes());
    for (at, stored) in page.items.iter().enumerate() {
        if at > 0 {
            text.put_u8(b',');
        }
        if call.kind.is_custom() {
            text.put_slice(&Cluster::bytes(stored, &call.kind, &call.version));
        } else if Cluster::is_as_stored(stored, &call.kind, &call.version) {
            // Items of built-in lists have neither `kind` nor `apiVersion`, as on a real server.
            text.put_u8(b'{');
            text.put_slice(stored.rest());
        } else {
            text.put_slice(list_item(stored, call).to_string().as_bytes());
        }
    }
    text.put_slice(b"]}\n");
    json(200, text.freeze())
}

/// Returns an object as an item of a list.
fn list_item(stored: &Stored, call: &Call) -> Value {
    let mut object = Cluster::object(stored, &call.kind, &call.version);
    if let Some(map) = object.as_object_mut()
        && !call.kind.is_custom()
    {
        map.remove("kind");
        map.remove("apiVersion");
    }
    object
}

/// The representation of the events of a watch.
#[derive(Debug)]
pub(crate) struct EventForm {
    form: Form,
    include: IncludeObject,
    meta: MetaVersion,
    /// `true` after the first event of a table: only that one has the columns.
    columns_sent: bool,
}

impl EventForm {
    pub(crate) fn of(call: &Call) -> Self {
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
            Form::Metadata => metadata_only(&object, self.meta),
            Form::Table => {
                let metadata = object.get("metadata").cloned().unwrap_or_default();
                let headers = !std::mem::replace(&mut self.columns_sent, true);
                let options = table_options(self.include, headers, self.meta);
                table::table_document(kind, version, &metadata, [&object], options, now)
            }
        }
    }
}
