//! Management of `spec.conversion` of CRDs.
//!
//! Every CRD with conversion handlers is read every [`POLLING_INTERVAL`], and whenever the address
//! of the webhook server or the resources of the cluster change. Replicas also watch it, since they
//! take over the conversions of a replica that exits. It is written if its conversion differs. The
//! rules for several operators are those of webhook configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select_all};
use kopf_client::patching::Target;
use kopf_client::watching::{Observer, Signal, observe};
use kopf_core::admission::{ClientConfig, Content, Decision, OWNER_ANNOTATION, Owner, decide};
use kopf_core::conversion::{is_configured, no_strategy, strategy};
use kopf_core::handler::Handler;
use kopf_core::resource::Resource;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::object::{merge, read};
use super::release::{Precondition, Release, Removal};
use super::{CLEANING, Error, situation};
use crate::invocation::Function;
use crate::observation::DiscoveryReceiver;
use crate::shared::Shared;

/// Interval of checks for changes by other clients.
const POLLING_INTERVAL: Duration = Duration::from_secs(30);

/// Manager of the conversions of CRDs.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) handlers: Vec<Arc<Handler<Function>>>,
    /// The resource of CRDs.
    pub(super) resource: Arc<Resource>,
    pub(super) me: Owner,
    pub(super) shared: Arc<Shared>,
    pub(super) discovery: DiscoveryReceiver,
    pub(super) announced: watch::Receiver<Option<ClientConfig>>,
}

/// The conversion of a CRD at the end of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persistence {
    Persistent,
    Temporary,
}

impl Manager {
    /// Manages the conversions until stopped. Then only persistent ones are kept.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        let mut managed: BTreeMap<String, Persistence> = BTreeMap::new();
        let mut written: BTreeSet<String> = BTreeSet::new();
        let mut observers: BTreeMap<String, Observer> = BTreeMap::new();
        let mut members = self.shared.members.subscribe();
        loop {
            let config = self.announced.borrow_and_update().clone();
            members.borrow_and_update();
            managed.extend(self.definitions());
            self.observe(managed.keys(), &mut observers);
            if let Some(config) = config {
                let desired = strategy(&config);
                let keeping = self.keep(managed.keys(), &desired, &mut written);
                if halt.run_until_cancelled(keeping).await.is_none() {
                    break;
                }
            }
            let is_over = tokio::select! {
                () = halt.cancelled() => break,
                changed = self.announced.changed() => changed.is_err(),
                changed = self.discovery.next() => changed.is_none(),
                () = any_change(&mut observers) => false,
                changed = members.changed() => changed.is_err(),
                () = sleep(POLLING_INTERVAL) => false,
            };
            if is_over {
                // The senders end only with the operator.
                halt.cancelled().await;
                break;
            }
        }
        let owned = managed.iter().filter(|(name, _)| written.contains(*name));
        join_all(owned.map(|(name, persistence)| self.clean_up(name, *persistence))).await;
        Ok(())
    }

    /// Starts watches of the CRDs, if this operator has replicas. Failing watches, such as those
    /// without permission, leave the polling.
    fn observe<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
        observers: &mut BTreeMap<String, Observer>,
    ) {
        if self.me.group().is_none() {
            return;
        }
        let context = &self.shared.context;
        for name in names {
            observers.entry(name.clone()).or_insert_with(|| {
                let resource = Arc::clone(&self.resource);
                let settings = &context.settings.watching;
                observe(context.client.clone(), resource, None, settings).named(name)
            });
        }
    }

    /// Returns the names of the CRDs with conversion handlers.
    fn definitions(&self) -> BTreeMap<String, Persistence> {
        let resources = self.discovery.resources().borrow().clone();
        let mut names = BTreeMap::new();
        for resource in resources.iter().flat_map(|resources| resources.iter()) {
            for handler in &self.handlers {
                if !super::conversion::selects(handler, std::slice::from_ref(resource)) {
                    continue;
                }
                let name = format!("{}.{}", resource.plural, resource.group);
                let persistence = names.entry(name).or_insert(Persistence::Temporary);
                if handler.webhook.persistent {
                    *persistence = Persistence::Persistent;
                }
            }
        }
        names
    }

    async fn keep(
        &self,
        names: impl Iterator<Item = &String>,
        desired: &Value,
        written: &mut BTreeSet<String>,
    ) {
        for name in names {
            match self.reconcile(name, desired, written).await {
                Ok(true) => drop(written.insert(name.clone())),
                Ok(false) => {}
                Err(error) => {
                    let hint = if error.is_forbidden() {
                        ": grant the operator the verb patch for customresourcedefinitions, or set \
                         spec.conversion yourself and unset settings.admission.managed"
                    } else {
                        ""
                    };
                    let seconds = POLLING_INTERVAL.as_secs();
                    warn!(
                        "The conversion of {name} cannot be configured: {error}{hint}. It is retried \
                         in {seconds} seconds."
                    );
                }
            }
        }
    }

    /// Writes the conversion of a CRD if needed. Returns `true` if this operator owns it.
    async fn reconcile(
        &self,
        name: &str,
        desired: &Value,
        written: &BTreeSet<String>,
    ) -> Result<bool, kopf_client::Error> {
        let was_written = written.contains(name);
        let Some(body) = read(&self.target(name)).await? else {
            return Ok(false);
        };
        let is_equal = is_configured(&body.spec()["conversion"], desired);
        let owner = body.annotation(OWNER_ANNOTATION).map(Owner::parse);
        let is_mine = owner.as_ref() == Some(&self.me);
        let content = match (is_equal, was_written) {
            (true, true) if is_mine => Content::Intact,
            (_, true) => Content::Edited,
            (_, false) => Content::Outdated,
        };
        let owner = owner.as_ref();
        let decision = decide(&self.me, situation(&self.shared, &self.me, owner, content));
        let Decision::Write(reason) = decision else {
            return Ok(is_mine);
        };
        if was_written {
            info!("Restoring the conversion of {name}: {reason}.");
        } else {
            info!("Configuring the conversion of {name}.");
        }
        let payload = json!({
            "metadata": {"annotations": {OWNER_ANNOTATION: self.me.annotation()}},
            "spec": {"conversion": desired},
        });
        Ok(merge(&self.target(name), &payload).await?.is_some())
    }

    async fn clean_up(&self, name: &str, persistence: Persistence) {
        info!("Cleaning up the conversion of {name}.");
        let releasing = timeout(CLEANING, self.release(name, persistence));
        let reason = match releasing.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not respond".to_owned(),
        };
        error!(
            "The conversion of {name} cannot be cleaned up: {reason}. Objects cannot be read in other \
             versions until an operator runs again. To remove it: kubectl patch crd {name} --type=merge \
             -p '{{\"spec\":{{\"conversion\":{{\"strategy\":\"None\",\"webhook\":null}}}}}}'"
        );
    }

    /// Removes the conversion unless it is persistent, and the ownership.
    async fn release(
        &self,
        name: &str,
        persistence: Persistence,
    ) -> Result<(), kopf_client::Error> {
        let (removal, remaining) = match persistence {
            Persistence::Persistent => (Removal::Ownership, json!({})),
            Persistence::Temporary => (
                Removal::Webhooks,
                json!({"spec": {"conversion": no_strategy()}}),
            ),
        };
        let release = Release {
            target: self.target(name),
            me: &self.me,
            title: format!("The conversion of {name}"),
            removal: removal.of(&self.shared.members),
            remaining,
        };
        release.run(Precondition::Unknown).await
    }

    fn target<'a>(&'a self, name: &'a str) -> Target<'a> {
        Target {
            client: &self.shared.context.client,
            resource: &self.resource,
            namespace: None,
            name,
            uid: None,
        }
    }
}

/// Returns the resource of CRDs.
pub(super) fn resource() -> Resource {
    Resource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        ..Resource::default()
    }
}

/// Waits for a change of any of the observed CRDs; forever if there are none. Cancel-safe.
async fn any_change(observers: &mut BTreeMap<String, Observer>) {
    loop {
        let signals = observers.values_mut();
        let signals: Vec<_> = signals.map(|observer| Box::pin(observer.next())).collect();
        if signals.is_empty() {
            return std::future::pending().await;
        }
        let (signal, ..) = select_all(signals).await;
        match signal {
            Signal::Item(_) => return,
            Signal::Failure { error, .. } => debug!("A watch of CRDs is interrupted: {error}"),
            Signal::Listing | Signal::Listed { .. } => {}
        }
    }
}
