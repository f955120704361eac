//! Responses with lists, written in parts while they are sent.
//!
//! A list can have a hundred thousand objects. Only one part of its text is in memory at a time,
//! and other requests are served between two parts.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::Response;
use jiff::Timestamp;
use kopf_sandbox_kinds::table::{self, Cells, TableOptions};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::protobuf::{ListEncoder, PROTOBUF};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{JSON, YAML, encoded, metadata_only, table_options, typed};
use crate::body::{Body, BodyError};
use crate::call::Call;
use crate::cluster::Cluster;
use crate::request::accept::{Encoding, Form, MetaVersion};
use crate::store::Stored;
use crate::tap::Told;

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    pub revision: u64,
    pub items: Vec<Arc<Stored>>,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
    /// The shard selector of the list.
    pub(crate) shard: Option<String>,
}

/// Minimum size of a part, in bytes. A list that fits into one part is sent with its length.
const PART: usize = 64 << 10;

/// Returns the response with a list. A tap receives its size and version.
pub async fn list(cluster: &Cluster, call: &Call, page: Page) -> Response<Body> {
    let told = cluster.tap.as_ref().map(|_| Told::List {
        items: page.items.len(),
        revision: page.revision,
    });
    let mut response = encoded_list(cluster, call, page).await;
    if let Some(told) = told {
        response.extensions_mut().insert(told);
    }
    response
}

async fn encoded_list(cluster: &Cluster, call: &Call, mut page: Page) -> Response<Body> {
    let head = head(call, &page);
    let items = Items::new(cluster, call);
    let stored = std::mem::take(&mut page.items);
    match call.accepted.encoding {
        Encoding::Protobuf => match protobuf(&head, &items, &stored).await {
            Some(message) => typed(200, PROTOBUF, message),
            None => written(JSON, ListWriter::json(&head, items, stored)),
        },
        Encoding::Json => written(JSON, ListWriter::json(&head, items, stored)),
        Encoding::Yaml if stored.is_empty() => {
            let mut document = head;
            document[items.field()] = json!([]);
            encoded(call.accepted, 200, &document)
        }
        Encoding::Yaml => written(YAML, ListWriter::yaml(head, items, stored)),
    }
}

/// Returns the document of a list without its items.
fn head(call: &Call, page: &Page) -> Value {
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
    let meta = call.accepted.meta;
    match call.accepted.form {
        Form::Whole => json!({
            "kind": call.kind.list_kind, "apiVersion": call.api_version(), "metadata": metadata,
        }),
        Form::Metadata => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": meta.api_version(),
            "metadata": metadata,
        }),
        Form::Table => {
            let options = table_options(call.options.include_object, true, meta);
            table::head(&call.kind, &call.version, &metadata, options)
        }
    }
}

/// Returns a response whose parts are written when the connection can send them.
fn written(content_type: &str, mut list: ListWriter) -> Response<Body> {
    let first = list.part();
    let is_complete = list.end.is_none();
    let mut response = typed(200, content_type, first.clone());
    if !is_complete {
        *response.body_mut() =
            Body::stream(futures::stream::once(async { Ok(first) }).chain(parts(list)));
    }
    response
}

/// Returns the remaining parts of a list. Other tasks run between them.
fn parts(list: ListWriter) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
    futures::stream::unfold(list, |mut list| async move {
        list.end.as_ref()?;
        tokio::task::yield_now().await;
        let part = list.part();
        Some((Ok(part), list))
    })
}

/// Returns a list in protobuf, or `None` if its kind has no messages. A message begins with its
/// length, so it is complete before it is sent.
async fn protobuf(head: &Value, items: &Items, stored: &[Arc<Stored>]) -> Option<Vec<u8>> {
    let mut encoder = ListEncoder::new(head)?;
    let mut read = 0;
    for stored in stored {
        encoder.push(&items.value(stored)).ok()?;
        read += stored.raw.len();
        if read >= PART {
            read = 0;
            tokio::task::yield_now().await;
        }
    }
    Some(encoder.finish())
}

/// The form of the items of a list.
struct Items {
    kind: Arc<Kind>,
    version: Arc<str>,
    form: ItemForm,
}

enum ItemForm {
    Whole,
    Metadata(MetaVersion),
    Row {
        cells: Cells,
        options: TableOptions,
        now: Timestamp,
    },
}

impl Items {
    fn new(cluster: &Cluster, call: &Call) -> Self {
        let meta = call.accepted.meta;
        let form = match call.accepted.form {
            Form::Whole => ItemForm::Whole,
            Form::Metadata => ItemForm::Metadata(meta),
            Form::Table => ItemForm::Row {
                cells: Cells::of(&call.kind, &call.version),
                options: table_options(call.options.include_object, true, meta),
                now: cluster.clock.now(),
            },
        };
        Self {
            kind: Arc::clone(&call.kind),
            version: Arc::clone(&call.version),
            form,
        }
    }

    /// Returns the field of the list with the items.
    fn field(&self) -> &'static str {
        match self.form {
            ItemForm::Whole | ItemForm::Metadata(_) => "items",
            ItemForm::Row { .. } => "rows",
        }
    }

    fn value(&self, stored: &Stored) -> Value {
        let mut object = Cluster::object(stored, &self.kind, &self.version);
        match &self.form {
            ItemForm::Whole => {
                // Items of built-in lists have neither `kind` nor `apiVersion`, as on a real server.
                if let Some(map) = object.as_object_mut()
                    && !self.kind.is_custom()
                {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                object
            }
            ItemForm::Metadata(meta) => metadata_only(object, *meta),
            ItemForm::Row {
                cells,
                options,
                now,
            } => table::row(&self.kind, cells, object, *options, *now),
        }
    }

    /// Appends the JSON of an item, if possible by copying stored bytes instead of parsing them.
    fn write_json(&self, stored: &Stored, text: &mut Vec<u8>) {
        let as_stored = Cluster::is_as_stored(stored, &self.kind, &self.version);
        match &self.form {
            ItemForm::Whole if self.kind.is_custom() => {
                text.extend_from_slice(&Cluster::bytes(stored, &self.kind, &self.version));
            }
            ItemForm::Whole if as_stored => {
                text.push(b'{');
                text.extend_from_slice(stored.rest());
            }
            ItemForm::Metadata(meta) if as_stored => {
                let head = r#"{"kind":"PartialObjectMetadata","apiVersion":""#;
                text.extend_from_slice(head.as_bytes());
                text.extend_from_slice(meta.api_version().as_bytes());
                text.extend_from_slice(br#"","metadata":"#);
                text.extend_from_slice(raw_metadata(&stored.raw).as_bytes());
                text.push(b'}');
            }
            _ => text.extend_from_slice(self.value(stored).to_string().as_bytes()),
        }
    }

    /// Returns the YAML of an item in its place in the list.
    fn yaml(&self, stored: &Stored) -> String {
        let list = json!({ self.field(): [self.value(stored)] });
        // Serialising a JSON value to YAML cannot fail: keys are strings and numbers are finite.
        let text = serde_saphyr::to_string(&list);
        debug_assert!(text.is_ok(), "a JSON value is always serialisable");
        let text = text.unwrap_or_default();
        text.split_once('\n')
            .map_or_else(String::new, |(_, item)| item.to_owned())
    }
}

/// Returns the metadata of a serialised object without parsing it.
fn raw_metadata(raw: &[u8]) -> &str {
    #[derive(Deserialize)]
    struct Peek<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    serde_json::from_slice::<Peek<'_>>(raw).map_or("{}", |peek| peek.metadata.get())
}

/// A writer of the text of a list.
struct ListWriter {
    /// Text that is not returned yet.
    text: Vec<u8>,
    syntax: Syntax,
    items: Items,
    stored: std::vec::IntoIter<Arc<Stored>>,
    is_first: bool,
    /// The text after the items; `None` when it is written.
    end: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    Yaml,
}

impl ListWriter {
    fn new(
        syntax: Syntax,
        start: String,
        end: String,
        items: Items,
        stored: Vec<Arc<Stored>>,
    ) -> Self {
        Self {
            text: start.into_bytes(),
            syntax,
            items,
            stored: stored.into_iter(),
            is_first: true,
            end: Some(end),
        }
    }

    fn json(head: &Value, items: Items, stored: Vec<Arc<Stored>>) -> Self {
        let mut start = String::from("{");
        for field in ["kind", "apiVersion", "metadata", "columnDefinitions"] {
            if let Some(value) = head.get(field) {
                // Writing to a string cannot fail.
                let _ = write!(start, "\"{field}\":{value},");
            }
        }
        let _ = write!(start, "\"{}\":[", items.field());
        Self::new(Syntax::Json, start, "]}\n".to_owned(), items, stored)
    }

    /// Returns the writer of a list with items, with the fields of the list in alphabetical order.
    fn yaml(mut head: Value, items: Items, stored: Vec<Arc<Stored>>) -> Self {
        let field = items.field();
        head[field] = Value::Null;
        let text = serde_saphyr::to_string(&head).unwrap_or_default();
        let (start, end) = match text.split_once(&format!("{field}: null\n")) {
            Some((start, end)) => (format!("{start}{field}:\n"), end.to_owned()),
            None => (text, String::new()),
        };
        Self::new(Syntax::Yaml, start, end, items, stored)
    }

    /// Writes and returns the next part; the last one contains the end.
    fn part(&mut self) -> Bytes {
        let mut text = std::mem::take(&mut self.text);
        text.reserve(PART);
        while text.len() < PART {
            let Some(stored) = self.stored.next() else {
                text.extend_from_slice(self.end.take().unwrap_or_default().as_bytes());
                break;
            };
            match self.syntax {
                Syntax::Json => {
                    if !std::mem::take(&mut self.is_first) {
                        text.push(b',');
                    }
                    self.items.write_json(&stored, &mut text);
                }
                Syntax::Yaml => text.extend_from_slice(self.items.yaml(&stored).as_bytes()),
            }
        }
        Bytes::from(text)
    }
}
