//! The store of [`Kind`]s.

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_store::objects;

pub use kopf_sandbox_store::objects::{
    Change, Expect, Key, Parent, Range, Reader, Unexpected, Window, event_line, labels_of, uid_of,
};

pub type Store = objects::Store<Kind>;
pub type Stored = objects::Stored<Kind>;
pub type Entry = objects::Entry<Kind>;
pub type Snapshot = objects::Snapshot<Kind>;
pub type Subscription = objects::Subscription<Kind>;
