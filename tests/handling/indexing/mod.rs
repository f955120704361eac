//! Indices and memos: in-memory data shared by handlers.

mod barrier;
mod entries;
mod failures;
mod leaving;
mod memos;

use serde_json::json;

use crate::front::{Declaration, indexed, on};

/// Indexes objects by `spec.key`, with their names.
fn by_key(id: &str) -> Declaration {
    on::index(id).does(|call| async move {
        let key = call.body().spec()["key"].as_str().unwrap_or("-").to_owned();
        let name = call.body().name().unwrap_or_default().to_owned();
        indexed(&call, json!({ key: name }))
    })
}
