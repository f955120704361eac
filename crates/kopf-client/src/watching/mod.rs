//! Watching: everything that happens to the objects of one kind, for as long as it is wanted.
//!
//! # Flow
//!
//! All objects are listed, page by page, then changes are watched from the version of the listing.
//! A watch that ends, breaks, or is silent for too long is opened again from the last seen version.
//! If the server has forgotten that version, everything is listed again.
//!
//! # Guarantees
//!
//! An [`Observer`] never ends by itself and is never silently dead: whatever is wrong is told as
//! [`Signal::Trouble`], and tried again. `ADDED` and `MODIFIED` are kept apart. Objects that vanish
//! unseen are not invented as deleted: that is for those who know which objects there were, with the
//! help of [`Signal::Listing`] and [`Signal::Listed`].

mod backoff;
mod line;
mod lines;
mod observer;
mod pulse;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kopf_core::resource::Resource;
use kopf_core::settings::Watching;

pub use self::observer::Observer;
pub use self::pulse::Pulse;
use crate::client::Client;
use crate::error::Error;
pub use crate::item::{Item, Peek};

/// What an [`Observer`] has to say.
#[derive(Clone, Debug)]
pub enum Signal {
    /// A listing begins, also when an unfinished one is given up for it. What follows is either
    /// listed or has happened meanwhile, until [`Signal::Listed`].
    Listing,
    /// An object is there, or something has happened to it.
    Item(Item),
    /// A complete listing has ended: what was not in it does not exist.
    Listed {
        /// How many objects there were.
        objects: usize,
    },
    /// Something is wrong. It is to be logged; the observer goes on by itself.
    Trouble {
        /// What is wrong.
        error: Error,
        /// When it is tried again.
        retry_in: Duration,
        /// Whether somebody has to do something about it, such as granting permissions.
        permanent: bool,
    },
}

/// Observes the objects of a kind in a namespace, or in the whole cluster.
///
/// Nothing is sent until [`Observer::next`] is called. The settings are taken over as they are now.
pub fn observe(
    client: Client,
    resource: Arc<Resource>,
    namespace: Option<String>,
    settings: &Watching,
) -> Observer {
    Observer::new(client, resource, namespace, settings.clone())
}
