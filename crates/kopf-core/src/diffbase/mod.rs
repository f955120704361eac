//! Storages of the diff-base: the essence of an object as it was last handled.
//!
//! Without it, an object is new; with it, the difference to the current essence is what handlers
//! of updates react to. Storages read from bodies and write to patches; they never talk.

mod annotations;
mod asynchronous;
mod multi;
mod status;

use std::fmt::Debug;

use serde_json::Value;

pub use self::annotations::AnnotationsDiffBaseStorage;
pub use self::asynchronous::{AsyncDiffBaseStorage, AwaitedDiffBaseStorage, DiffBaseSession};
pub use self::multi::MultiDiffBaseStorage;
pub use self::status::StatusDiffBaseStorage;
pub use crate::storage::StorageError;

use crate::body::Body;
use crate::essence;
use crate::field::FieldPath;
use crate::keys::KeyNaming;
use crate::lenient;
use crate::patch::Patch;

/// Keeps the essence of an object between the changes, also across restarts.
///
/// It is called synchronously inside the cycle of one object, so it must not block for long.
pub trait DiffBaseStorage: Send + Sync + Debug {
    /// Takes the essence of a body, without what this storage keeps in it.
    ///
    /// Override it only if another part of objects is to be tracked.
    fn build(&self, body: &Body, extra_fields: &[FieldPath]) -> Result<Value, StorageError> {
        let mut essence = essence::build(body, extra_fields, &[])?;
        self.strip(body, &mut essence);
        Ok(essence)
    }

    /// Whether the essence is the usual one, made by [`build`](Self::build) as it is here, so that it
    /// depends on nothing but the `spec`, the labels and the annotations in most objects. Then own
    /// writes are known to change nothing without being read again. Not assumed by default: `build`
    /// may be overridden.
    fn is_usual(&self) -> bool {
        false
    }

    /// Takes everything that this storage keeps on the object (and all that it was told to
    /// ignore) out of an essence. Nothing to do for storages outside of objects.
    fn strip(&self, body: &Body, essence: &mut Value);

    /// Returns the naming of annotations, if this storage keeps the essence in one. The attempted
    /// essences are kept under the same prefix.
    fn naming(&self) -> Option<&KeyNaming> {
        None
    }

    /// Reads the stored essence; none if the object was never handled.
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError>;

    /// Whether this very essence is stored, as far as it can be told without reading it: the most
    /// frequent question of all, since most events change nothing. "No" means "not known", and
    /// then [`fetch`](Self::fetch) tells. Worth implementing only if it is cheaper than that.
    fn is_stored(&self, _body: &Body, _essence: &Value) -> bool {
        false
    }

    /// Stores an essence, usually by adding it to the patch.
    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError>;

    /// The asynchronous storage behind this one, if there is any: see [`AwaitedDiffBaseStorage`].
    fn asynchronous(&self) -> Option<&dyn AsyncDiffBaseStorage> {
        None
    }
}

/// Reads an encoded essence; null is the same as none.
fn decode(text: &str, place: impl FnOnce() -> String) -> Result<Option<Value>, StorageError> {
    match lenient::from_str(text) {
        Ok(Value::Null) => Ok(None),
        Ok(essence @ Value::Object(_)) => Ok(Some(essence)),
        Ok(_) => Err(StorageError::Unexpected {
            place: place(),
            expected: "a JSON object",
        }),
        Err(source) => Err(StorageError::Undecodable {
            place: place(),
            source,
        }),
    }
}

/// Removes the ignored fields from an essence, with their emptied parents.
fn remove_fields(essence: &mut Value, paths: &[FieldPath]) {
    if let Value::Object(map) = essence {
        for path in paths {
            crate::field::remove(map, path);
        }
    }
}
