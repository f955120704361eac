//! Watching: the objects of one resource and all their changes, until the observer is dropped.
//!
//! # Flow
//!
//! All objects are listed, page by page. Then changes are watched from the version of the listing.
//! A watch that ends, breaks, or is silent for too long is opened again from the last received
//! version. If the server no longer has that version, everything is listed again.
//!
//! # Guarantees
//!
//! - An [`Observer`] never ends. Every failure is reported as [`Signal::Failure`] and retried.
//! - It never sends requests in a tight loop: every cycle without progress is followed by a delay,
//!   which grows up to 30 seconds. Progress is a newer resource version in an event or a bookmark,
//!   or a watch that lives for 10 seconds.
//! - `ADDED` and `MODIFIED` are passed on as sent.
//! - Objects that vanish while there is no watch are not reported as deleted. The caller detects
//!   them with [`Signal::Listing`] and [`Signal::Listed`].
//! - Objects outside of a shard selector are left out, by the server if it confirms the selector
//!   (`shardInfo`), otherwise by the observer.
//! - A line of a watch is limited to 32 MiB, a page of a listing to 512 MiB.

mod backoff;
mod line;
mod lines;
mod observer;
mod pulse;
mod stream;
#[cfg(test)]
mod tests;
mod version;

use std::sync::Arc;
use std::time::Duration;

use kopf_core::resource::Resource;
use kopf_core::settings::Watching;

pub use self::observer::Observer;
pub use self::pulse::Pulse;
use crate::client::Client;
use crate::error::Error;
pub use crate::item::{Item, Peek};

/// An output of an [`Observer`].
#[derive(Clone, Debug)]
pub enum Signal {
    /// A listing starts. An unfinished one is void. Items until [`Signal::Listed`] are listed
    /// objects.
    Listing,
    /// A listed object, or a change of an object.
    Item(Item),
    /// A listing is complete: objects that were not in it do not exist.
    Listed {
        /// The number of objects.
        objects: usize,
    },
    /// A failure, for logs and health. The observer recovers by itself.
    Failure {
        /// The failure.
        error: Error,
        /// The delay before the next request.
        retry_in: Duration,
        /// `true` if the failure lasts until a person changes something, such as permissions.
        permanent: bool,
    },
}

/// Observes the objects of a resource in a namespace, or in the whole cluster.
///
/// Nothing is sent until [`Observer::next`] is called. Later changes of the settings have no effect.
pub fn observe(
    client: Client,
    resource: Arc<Resource>,
    namespace: Option<String>,
    settings: &Watching,
) -> Observer {
    Observer::new(client, resource, namespace, settings.clone())
}
