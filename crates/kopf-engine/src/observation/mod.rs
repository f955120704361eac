//! Observation of the resources and namespaces in the cluster.
//!
//! The observers publish the discovered resources and namespaces; `orchestration` selects the
//! streams. Without the permission to watch, they publish the initial state and keep retrying.

mod known_resources;
mod namespaces;
mod resources;
mod scan_schedule;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kopf_client::Error;
use kopf_core::resource::Resource;
use tokio::sync::watch;

use crate::health::{HealthTracker, StreamHealth};

pub(crate) use self::namespaces::NamespaceObserver;
pub(crate) use self::resources::{ResourceObserver, wanted_groups};

/// All resources of the selected API groups. Replaced as a whole when anything changes.
pub(crate) type Resources = Arc<BTreeSet<Arc<Resource>>>;

/// The namespaces to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// The whole cluster; namespaces are not observed.
    All,
    /// Namespaces that match the patterns of the operator.
    Listed(BTreeSet<String>),
}

/// Creates the channel from the observers to the rest of the operator.
pub(crate) fn discovery_channel() -> (DiscoverySender, DiscoveryReceiver) {
    let resources = watch::channel(None);
    let namespaces = watch::channel(None);
    (
        DiscoverySender {
            resources: resources.0,
            namespaces: namespaces.0,
        },
        DiscoveryReceiver {
            resources: resources.1,
            namespaces: namespaces.1,
        },
    )
}

/// The sender of the observers.
#[derive(Debug)]
pub(crate) struct DiscoverySender {
    pub(crate) resources: watch::Sender<Option<Resources>>,
    pub(crate) namespaces: watch::Sender<Option<Namespaces>>,
}

/// The receiver. Every clone receives all changes.
#[derive(Debug, Clone)]
pub(crate) struct DiscoveryReceiver {
    resources: watch::Receiver<Option<Resources>>,
    namespaces: watch::Receiver<Option<Namespaces>>,
}

impl DiscoveryReceiver {
    /// Returns a receiver of the resources alone.
    pub(crate) fn resources(&self) -> watch::Receiver<Option<Resources>> {
        self.resources.clone()
    }

    /// Waits until anything has changed. The first call waits until both the resources and the
    /// namespaces are known. Cancel-safe.
    ///
    /// Returns `None` if the observers have ended.
    pub(crate) async fn next(&mut self) -> Option<(Resources, Namespaces)> {
        loop {
            tokio::select! {
                changed = self.resources.changed() => changed.ok()?,
                changed = self.namespaces.changed() => changed.ok()?,
            }
            let resources = self.resources.borrow_and_update().clone();
            let namespaces = self.namespaces.borrow_and_update().clone();
            if let (Some(resources), Some(namespaces)) = (resources, namespaces) {
                return Some((resources, namespaces));
            }
        }
    }
}

/// Failure log of an observer's stream. A missing permission is logged once until it is granted.
#[derive(Debug)]
struct FailureLog {
    what: String,
    forbidden: &'static str,
    is_forbidden: bool,
    health: StreamHealth,
}

impl FailureLog {
    fn new(resource: &Resource, forbidden: &'static str, tracker: &HealthTracker) -> Self {
        tracing::debug!("Starting the watch-stream for {resource} cluster-wide.");
        let what = format!("{resource} cluster-wide");
        Self {
            health: tracker.stream(what.clone()),
            what,
            forbidden,
            is_forbidden: false,
        }
    }

    fn failed(&mut self, error: &Error, retry_in: Duration) {
        let retry_in = retry_in.as_secs_f64();
        if error.is_forbidden() {
            self.health.refused(error.to_string());
        } else {
            self.health.failing(error.to_string());
        }
        if !error.is_forbidden() {
            tracing::warn!(
                "Watching of {} is interrupted: {error}. Trying again in {retry_in:.1} seconds.",
                self.what
            );
        } else if !std::mem::replace(&mut self.is_forbidden, true) {
            tracing::warn!("{}", self.forbidden);
        }
    }

    fn recovered(&mut self) {
        self.health.healthy();
        self.is_forbidden = false;
    }
}

impl Drop for FailureLog {
    fn drop(&mut self) {
        tracing::debug!("Stopping the watch-stream for {}.", self.what);
    }
}

/// Returns a resource that exists in every cluster and needs no discovery.
pub(crate) fn builtin(group: &str, plural: &str, kind: &str) -> Arc<Resource> {
    Arc::new(Resource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
        namespaced: false,
        preferred: true,
        ..Resource::default()
    })
}
