//! Encoding of JSON documents in protobuf. Custom resources and tables have no messages, as on a real
//! server.

use bytes::Bytes;
use serde_json::Value;

use super::envelope::MAGIC;
use super::writer::{Message, Writer};
use crate::typing::{self, TypeRef, TypeTable};

/// The media type.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Encodes a document with its envelope.
pub fn encode(document: &Value) -> Result<Vec<u8>, String> {
    let text = |field: &str| document.get(field).and_then(Value::as_str);
    let (Some(api_version), Some(kind)) = (text("apiVersion"), text("kind")) else {
        return Err("the document has no kind".to_owned());
    };
    let writer = Writer {
        types: typing::built_in(),
    };
    if let Some(root) = root(writer.types, api_version, kind) {
        let message = writer.message(root, document)?;
        return Ok(enveloped(api_version, kind, &message));
    }
    let mut list = ListEncoder::new(document)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let items = document.get("items").and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        list.push(item)?;
    }
    Ok(list.finish())
}

/// Returns a message with its envelope.
fn enveloped(api_version: &str, kind: &str, message: &Message) -> Vec<u8> {
    let mut type_meta = Message::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut envelope = Message::default();
    envelope.message(1, &type_meta);
    envelope.message(2, message);
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    [MAGIC, &envelope.into_bytes()].concat()
}

fn root(types: &TypeTable, api_version: &str, kind: &str) -> Option<TypeRef> {
    match (api_version, kind) {
        // Metadata is field 1 of every object, and here the only one.
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => {
            types.root("v1", "ConfigMap")
        }
        _ => types.root(api_version, kind),
    }
}

/// An encoder of a list, item by item.
#[derive(Debug)]
pub struct ListEncoder {
    api_version: String,
    kind: String,
    item: TypeRef,
    message: Message,
}

impl ListEncoder {
    /// Returns the encoder of a list without its items, or `None` if the kind has no message.
    pub fn new(head: &Value) -> Option<Self> {
        let text = |field: &str| head.get(field).and_then(Value::as_str);
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let types = typing::built_in();
        let item = root(types, api_version, kind.strip_suffix("List")?)?;
        // The metadata of every list is field 1, and its items are field 2.
        let status = types.get(types.target(types.root("v1", "Status")?));
        let metadata = status.field("metadata")?;
        let mut message = Message::default();
        if let Some(value) = head.get("metadata") {
            let writer = Writer { types };
            writer.value(metadata.of, 1, value, &mut message).ok()?;
        }
        Some(Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            item,
            message,
        })
    }

    /// Appends an item. Fails if a value does not have its type.
    pub fn push(&mut self, item: &Value) -> Result<(), String> {
        let types = typing::built_in();
        let item = (Writer { types }).message(self.item, item)?;
        self.message.message(2, &item);
        Ok(())
    }

    /// Returns the whole list with its envelope.
    pub fn finish(self) -> Vec<u8> {
        enveloped(&self.api_version, &self.kind, &self.message)
    }
}

/// Converts lines with events to frames: messages prefixed by their lengths.
pub fn frames(lines: &[u8]) -> Bytes {
    let mut frames = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            continue; // the end of the last line
        };
        let object = event.get("object").map(encode);
        // Only kinds with messages are watched in this form.
        let Some(Ok(object)) = object else { continue };
        let mut raw = Message::default();
        raw.bytes(1, &object);
        let mut message = Message::default();
        let change = event.get("type").and_then(Value::as_str);
        message.bytes(1, change.unwrap_or_default().as_bytes());
        message.message(2, &raw);
        let message = message.into_bytes();
        if let Ok(length) = u32::try_from(message.len()) {
            frames.extend_from_slice(&length.to_be_bytes());
            frames.extend_from_slice(&message);
        }
    }
    Bytes::from(frames)
}
