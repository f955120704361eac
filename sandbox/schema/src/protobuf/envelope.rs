//! The envelope of a message: its `apiVersion` and its `kind`.

use serde_json::{Map, Value};

use super::message::{Reader, bytes, text};
use super::wire::Fields;
use crate::typing::TypeRef;

/// The magic bytes of a body.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// An opened envelope.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The encoded message.
    pub(super) raw: &'a [u8],
}

/// Opens the envelope of a body.
pub(super) fn open(body: &[u8]) -> Result<Envelope<'_>, String> {
    if body.is_empty() {
        return Err("empty data".to_owned());
    }
    let Some(message) = body.strip_prefix(MAGIC) else {
        return Err(format!(
            "provided data does not appear to be a protobuf message, expected prefix {}",
            "[107 56 115 0]"
        ));
    };
    if message.is_empty() {
        return Err("empty body".to_owned());
    }
    let mut envelope = Envelope::default();
    let mut fields = Fields::new(message, "Unknown");
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => {
                let mut fields = Fields::new(bytes(payload, "TypeMeta")?, "TypeMeta");
                while let Some((number, payload)) = fields.next()? {
                    match number {
                        1 => envelope.api_version = text(bytes(payload, "APIVersion")?),
                        2 => envelope.kind = text(bytes(payload, "Kind")?),
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = bytes(payload, "Raw")?,
            // The server ignores the encoding and the content type as well.
            _ => {}
        }
    }
    Ok(envelope)
}

impl Envelope<'_> {
    /// Returns the type of the message.
    pub(super) fn root(&self, reader: Reader<'_>) -> Result<TypeRef, String> {
        let Self {
            api_version, kind, ..
        } = self;
        let root = match &**kind {
            // Every group has them, including unknown ones.
            "DeleteOptions" => reader.types.root("v1", kind),
            _ => reader.types.root(api_version, kind),
        };
        let root = root.map(|root| reader.types.target(root));
        root.ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))
    }

    /// Reads the message.
    pub(super) fn read(&self, reader: Reader<'_>) -> Result<Value, String> {
        let root = self.root(reader)?;
        let mut object = Map::new();
        reader.message(root, self.raw, &mut object)?;
        object.insert("apiVersion".to_owned(), self.api_version.clone().into());
        object.insert("kind".to_owned(), self.kind.clone().into());
        // A message also contains the zero values that JSON omits.
        let checked = reader.types.check(root, Value::Object(object));
        Ok(checked.map_err(|mismatch| mismatch.text)?.object)
    }
}

/// Reads a body inside of a message.
pub(super) fn nested(reader: Reader<'_>, body: &[u8]) -> Result<Value, String> {
    open(body)?.read(reader)
}
