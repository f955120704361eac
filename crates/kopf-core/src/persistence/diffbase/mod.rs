//! Storages of the diff-base: the essence of an object as last handled.
//!
//! An object without a diff-base is new. Update handlers react to the difference between the
//! diff-base and the current essence. Storages read from bodies and write to patches; they send no
//! requests.

mod annotations;
mod asynchronous;
mod multi;
mod status;

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

pub use self::annotations::AnnotationsDiffBaseStorage;
pub use self::asynchronous::{AsyncDiffBaseStorage, AwaitedDiffBaseStorage, DiffBaseSession};
pub use self::multi::MultiDiffBaseStorage;
pub use self::status::StatusDiffBaseStorage;
// What implementations outside of this crate need.
pub use crate::patch::Patch;
pub use crate::storage::{StorageError, StorageFuture};

use crate::body::Body;
use crate::essence;
use crate::field::FieldPath;
use crate::key_order::KeyOrder;
use crate::keys::KeyNaming;
use crate::lenient;

/// A storage of the essence of an object between changes and across restarts.
///
/// It is called synchronously in the cycle of one object, so it must not block for long.
pub trait DiffBaseStorage: Send + Sync + Debug {
    /// Returns the essence of a body, without the data of this storage.
    ///
    /// Override it only to track another part of objects.
    fn build(&self, body: &Body, extra_fields: &[FieldPath]) -> Result<Value, StorageError> {
        let mut essence = essence::build(body, extra_fields, &[])?;
        self.strip(body, &mut essence);
        Ok(essence)
    }

    /// Returns `true` if the essence is built by the default [`build`](Self::build), so that for
    /// most objects it depends only on `spec`, labels and annotations. Then own writes need not be
    /// read again. `false` by default, because `build` may be overridden.
    fn is_usual(&self) -> bool {
        false
    }

    /// Removes the data of this storage and all ignored fields from an essence. Storages outside of
    /// objects have nothing to remove.
    fn strip(&self, body: &Body, essence: &mut Value);

    /// Returns the naming of annotations, if this storage keeps the essence in one. The attempted
    /// essences are kept under the same prefix.
    fn naming(&self) -> Option<&KeyNaming> {
        None
    }

    /// Reads the stored essence; `None` if the object was never handled.
    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError>;

    /// Returns `true` if this essence is known to be stored, without parsing the stored one: the
    /// most frequent case, since most events change nothing. `false` means unknown: then
    /// [`fetch`](Self::fetch) decides. Worth implementing only if it is cheaper than that.
    fn is_stored(&self, _body: &Body, _essence: &Value) -> bool {
        false
    }

    /// Returns the order of keys in the stored essence, for frontends that show it to users. `None`
    /// if they are sorted, or if the storage does not keep it: then the order of the body is shown.
    fn key_order(&self, _body: &Body) -> Option<Arc<KeyOrder>> {
        None
    }

    /// Stores an essence, usually by adding it to the patch.
    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError>;

    /// Returns the asynchronous storage behind this one, if there is one: see
    /// [`AwaitedDiffBaseStorage`].
    fn asynchronous(&self) -> Option<&dyn AsyncDiffBaseStorage> {
        None
    }
}

/// Parses an encoded essence; null becomes `None`.
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

/// Removes the ignored fields from an essence, with parents that become empty.
fn remove_fields(essence: &mut Value, paths: &[FieldPath]) {
    if let Value::Object(map) = essence {
        for path in paths {
            crate::field::remove(map, path);
        }
    }
}
