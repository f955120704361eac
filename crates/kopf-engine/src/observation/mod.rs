//! What there is in the cluster: kinds and namespaces, now and as they come and go.
//!
//! The observers publish what they find; `orchestration` makes streams of
//! it. They decide neither what is served nor how. If it is not permitted to observe, they fall
//! back to what is known without that, and keep on trying.

mod agenda;
mod known;
mod namespaces;
mod resources;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kopf_client::Error;
use kopf_core::resource::Resource;
use tokio::sync::watch;

use crate::health::{Sign, Vitals};

pub(crate) use self::namespaces::NamespaceObserver;
pub(crate) use self::resources::{ResourceObserver, wanted_groups};

/// All kinds of the groups that the operator looks into. Replaced as a whole when anything changes.
pub(crate) type Resources = Arc<BTreeSet<Arc<Resource>>>;

/// The namespaces to be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespaces {
    /// The whole cluster, without looking at what namespaces it has.
    All,
    /// Those that match the patterns of the operator.
    Listed(BTreeSet<String>),
}

/// Makes the place where observers publish, and where the rest of the operator reads.
pub(crate) fn insights() -> (Findings, Insights) {
    let resources = watch::channel(None);
    let namespaces = watch::channel(None);
    (
        Findings {
            resources: resources.0,
            namespaces: namespaces.0,
        },
        Insights {
            resources: resources.1,
            namespaces: namespaces.1,
        },
    )
}

/// The observers' side.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) resources: watch::Sender<Option<Resources>>,
    pub(crate) namespaces: watch::Sender<Option<Namespaces>>,
}

/// The readers' side. Each clone is told of all changes.
#[derive(Debug, Clone)]
pub(crate) struct Insights {
    resources: watch::Receiver<Option<Resources>>,
    namespaces: watch::Receiver<Option<Namespaces>>,
}

impl Insights {
    /// The kinds alone.
    pub(crate) fn resources(&self) -> watch::Receiver<Option<Resources>> {
        self.resources.clone()
    }

    /// Waits until anything has changed. The first time, until everything is known. Cancel-safe.
    ///
    /// `None` if nothing can change any more: the observers have ended.
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

/// Logs what goes wrong with the stream of an observer: what is not permitted only once, until it
/// is.
#[derive(Debug)]
struct Complaints {
    what: String,
    forbidden: &'static str,
    is_forbidden: bool,
    /// What it tells to those who ask how the operator is.
    sign: Sign,
}

impl Complaints {
    fn new(resource: &Resource, forbidden: &'static str, vitals: &Vitals) -> Self {
        tracing::debug!("Starting the watch-stream for {resource} cluster-wide.");
        let what = format!("{resource} cluster-wide");
        Self {
            sign: vitals.stream(what.clone()),
            what,
            forbidden,
            is_forbidden: false,
        }
    }

    fn complain(&mut self, error: &Error, retry_in: Duration) {
        let retry_in = retry_in.as_secs_f64();
        if error.is_forbidden() {
            self.sign.refused(error.to_string());
        } else {
            self.sign.troubled(error.to_string());
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

    fn forget(&mut self) {
        self.sign.fine();
        self.is_forbidden = false;
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        tracing::debug!("Stopping the watch-stream for {}.", self.what);
    }
}

/// A kind that the observers look at, as every cluster has it: it needs no discovery.
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
