//! The names that most operators use: `use kopf::prelude::*;`
//!
//! None of them is a name of the crate `kube` for something else, so that both can be imported as a whole.
//! All other names are written with the name of the crate: `kopf::Patch`, `kopf::Object<K>`.

pub use kube::Client;
pub use serde_json::{Value, json};

pub use crate::extract::{Logger, Memo, Name, Retry, Spec, State, Stopped};
pub use crate::indexing::Index;
pub use crate::{Diff, Operator, on};
