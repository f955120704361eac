//! The names that most operators use: `use kopf::prelude::*;`
//!
//! None of them conflicts with a name of the crate `kube`, so that both can be imported as a whole.
//! Other names are written with the crate: `kopf::Patch`, `kopf::Object<K>`.

pub use kube::Client;
pub use serde_json::{Value, json};
pub use tracing;

pub use crate::extract::{Logger, Name, Retry, Spec, State, Stopped};
pub use crate::indexing::Index;
pub use crate::memos::Memo;
pub use crate::{ABSENT, Diff, EVERYTHING, Operator, PRESENT, on};
