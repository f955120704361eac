//! The commands `freeze` and `resume`, which write a peer record for a person or script that is not
//! renewed.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_client::Client;
use kopf_client::discovery::Groups;
use kopf_core::namespace::Scope;
use kopf_core::peering::{Assessment, GROUPS, Peer, listed};
use kopf_core::settings::{Peering, Settings};
use tracing::{debug, warn};

use super::peering_object::PeeringObject;
use super::{kinds, peering_scopes};
use crate::clock::Clock;
use crate::health::HealthTracker;
use crate::observation::{DiscoverySender, NamespaceObserver, ResourceObserver, discovery_channel};

/// Error of a `freeze` or `resume` command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The discovery of resources failed.
    #[error("cannot discover the resources of the cluster")]
    Discovery(#[source] Box<kopf_client::Error>),
    /// The CRD of peering objects does not exist.
    #[error("cannot find the peering resource: there are no {plural} in the cluster")]
    NoKind {
        /// The plural name of the missing resource.
        plural: &'static str,
    },
    /// No namespace matches the selection.
    #[error("no namespace matches the selection")]
    NoNamespace,
    /// The peering object does not exist in any of the searched namespaces.
    #[error("the peering {name:?} is not found {places}")]
    NotFound {
        /// The name of the peering.
        name: String,
        /// The searched namespaces.
        places: String,
    },
    /// The server rejected the change.
    #[error("cannot change the peering {object}")]
    Refused {
        /// The peering object.
        object: String,
        /// The cause.
        #[source]
        source: Box<kopf_client::Error>,
    },
}

/// Result of a `freeze` or `resume` command.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// Changed peering objects, such as `'default' in 'ns'`.
    pub changed: Vec<String>,
    /// Peering objects without a record to remove.
    pub unchanged: Vec<String>,
    /// Other live peers. For `freeze`: those of a higher priority, which are not paused. For
    /// `resume`: all peers, if there was no record to remove.
    pub others: Vec<Peer>,
}

/// Messages for the user about a finished command.
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The change, if there is one.
    pub done: Option<String>,
    /// Peers that the command does not affect, and the option that selects them.
    pub warnings: Vec<String>,
}

/// Returns the default identity for commands: `POD_ID`, or the current user and host.
pub fn own_identity() -> String {
    super::own_identity::detect_manual()
}

/// Pauses all operators of a lower priority for `settings.peering.lifetime`.
///
/// The peering, the priority and the lifetime are those of the settings.
pub async fn freeze(
    client: &Client,
    settings: Settings,
    scope: &Scope,
    identity: &str,
) -> Result<CommandOutcome, Error> {
    execute(client, settings, scope, identity, Command::Freeze).await
}

/// Ends a [`freeze`] of the same identity.
pub async fn resume(
    client: &Client,
    settings: Settings,
    scope: &Scope,
    identity: &str,
) -> Result<CommandOutcome, Error> {
    execute(client, settings, scope, identity, Command::Resume).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Freeze,
    Resume,
}

async fn execute(
    client: &Client,
    mut settings: Settings,
    scope: &Scope,
    identity: &str,
    command: Command,
) -> Result<CommandOutcome, Error> {
    settings.peering.clusterwide = matches!(scope, Scope::Cluster);
    settings.peering.standalone = false;
    let settings = Arc::new(settings);
    let client = client.with_networking(&settings.networking);
    let objects = peering_objects(&client, &settings, scope).await?;
    let peering = &settings.peering;
    let now = Clock::system().now();
    let peer = Peer::new(identity, peering.priority, peering.lifetime, now);
    let (mut outcome, mut absent) = (CommandOutcome::default(), Vec::new());
    for object in objects {
        let is_found = outcome.apply(&object, &peer, command, now).await;
        let is_found = is_found.map_err(|source| Error::Refused {
            object: object.to_string(),
            source: Box::new(source),
        })?;
        if !is_found {
            absent.push(object);
        }
    }
    // There can be two peering resources, of which one is used.
    outcome
        .unchanged
        .retain(|place| !outcome.changed.contains(place));
    let is_reported =
        |place: &String| outcome.changed.contains(place) || outcome.unchanged.contains(place);
    absent.retain(|object| !is_reported(&object.to_string()));
    if outcome.changed.is_empty() && outcome.unchanged.is_empty() {
        return Err(not_found(&peering.name, &absent));
    }
    for object in absent {
        warn!("The peering {object} is not found.");
    }
    Ok(outcome)
}

impl CommandOutcome {
    /// Describes a [`freeze`] with these settings.
    pub fn freeze_report(&self, peering: &Peering, identity: &str) -> Report {
        let (places, seconds) = (self.changed.join(", "), peering.lifetime.as_secs());
        let mut report = Report {
            done: Some(format!(
                "Operators are frozen in the peering {places} by {identity}, for {seconds} seconds."
            )),
            warnings: Vec::new(),
        };
        if !self.others.is_empty() {
            report.warnings.push(format!(
                "These operators keep running, because their priority is higher than {}: {}. \
                 Freeze them with a higher --priority or with --dev.",
                peering.priority,
                listed(&self.others)
            ));
        }
        report
    }

    /// Describes a [`resume`].
    pub fn resume_report(&self, identity: &str) -> Report {
        let mut report = Report::default();
        if !self.changed.is_empty() {
            let places = self.changed.join(", ");
            report.done = Some(format!(
                "Operators are resumed in the peering {places} by {identity}, unless other records \
                 pause them."
            ));
        }
        if !self.unchanged.is_empty() {
            let places = self.unchanged.join(", ");
            report.warnings.push(format!(
                "Nothing is resumed in the peering {places}: nothing is frozen by {identity} there."
            ));
            if !self.others.is_empty() {
                report.warnings.push(format!(
                    "Records of other identities: {}. Select one by --id.",
                    listed(&self.others)
                ));
            }
        }
        report
    }

    /// Applies the command to one peering object. Returns `false` if it does not exist.
    async fn apply(
        &mut self,
        object: &PeeringObject,
        peer: &Peer,
        command: Command,
        now: Timestamp,
    ) -> Result<bool, kopf_client::Error> {
        let identity = &*peer.identity;
        let status = match command {
            Command::Freeze => object.exchange(peer).await?,
            Command::Resume => object.records().await?,
        };
        let Some(status) = status else {
            return Ok(false);
        };
        let mut others = Assessment::of(&status, identity, i64::MIN, now).peers;
        others.retain(|peer| peer.identity != identity && !peer.is_dead(now));
        let is_there = status.get(identity).is_some_and(|record| !record.is_null());
        match command {
            Command::Freeze => others.retain(|other| other.priority > peer.priority),
            Command::Resume if is_there => {
                others.clear();
                object.remove([identity]).await?;
            }
            Command::Resume => {}
        }
        debug!("Keep-alive in {object}: ok.");
        let place = object.to_string();
        let places = if is_there {
            &mut self.changed
        } else {
            &mut self.unchanged
        };
        if !places.contains(&place) {
            places.push(place);
        }
        self.others.extend(others);
        Ok(true)
    }
}

fn not_found(name: &str, absent: &[PeeringObject]) -> Error {
    let places = absent.iter().map(|object| match &object.namespace {
        Some(namespace) => format!("in '{namespace}'"),
        None => "cluster-wide".to_owned(),
    });
    let mut places = places.collect::<Vec<_>>();
    places.dedup();
    Error::NotFound {
        name: name.to_owned(),
        places: places.join(", "),
    }
}

/// Returns all selected peering objects, whether or not they exist.
async fn peering_objects(
    client: &Client,
    settings: &Arc<Settings>,
    scope: &Scope,
) -> Result<Vec<PeeringObject>, Error> {
    let (sender, mut discovery) = discovery_channel();
    let DiscoverySender {
        resources,
        namespaces,
    } = sender;
    let resource_observer = ResourceObserver {
        health_tracker: HealthTracker::default(),
        client: client.clone(),
        settings: Arc::clone(settings),
        groups: Groups::Only(GROUPS.map(str::to_owned).into()),
        sender: resources,
    };
    let namespace_observer = NamespaceObserver {
        health_tracker: HealthTracker::default(),
        client: client.clone(),
        settings: Arc::clone(settings),
        scope: scope.clone(),
        sender: namespaces,
    };
    let found = tokio::select! {
        outcome = resource_observer.run() => {
            return match outcome {
                Err(error) => Err(Error::Discovery(Box::new(error))),
                Ok(()) => Ok(Vec::new()),
            };
        }
        () = namespace_observer.run() => None,
        found = discovery.next() => found,
    };
    let peering = &settings.peering;
    let (resources, namespaces) = found.unwrap_or_else(|| (Arc::default(), super::Namespaces::All));
    let kinds = kinds(peering, &resources);
    if kinds.is_empty() {
        return Err(Error::NoKind {
            plural: if peering.clusterwide {
                kopf_core::peering::CLUSTER_PLURAL
            } else {
                kopf_core::peering::NAMESPACED_PLURAL
            },
        });
    }
    let scopes = peering_scopes(&kinds, &namespaces);
    if scopes.is_empty() {
        return Err(Error::NoNamespace);
    }
    let objects = scopes.into_iter().map(|at| PeeringObject {
        client: client.clone(),
        resource: at.resource,
        namespace: at.namespace,
        name: peering.name.clone(),
    });
    Ok(objects.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(identity: &str) -> Peer {
        let now = "2026-11-15T00:00:00Z".parse().unwrap();
        Peer::new(identity, 5, std::time::Duration::from_secs(60), now)
    }

    #[test]
    fn unaffected_operators_are_named_after_freezing() {
        let mut outcome = CommandOutcome {
            changed: vec!["'default'".to_owned()],
            ..CommandOutcome::default()
        };
        let peering = Peering::default();
        let report = outcome.freeze_report(&peering, "me");
        assert!(report.done.unwrap().contains("'default' by me"));
        assert_eq!(report.warnings, [""; 0]);
        outcome.others = vec![peer("higher")];
        let report = outcome.freeze_report(&peering, "me");
        assert!(report.warnings[0].contains("higher"), "{report:?}");
    }

    #[test]
    fn other_identities_are_named_if_nothing_is_resumed() {
        let mut outcome = CommandOutcome {
            changed: vec!["'default'".to_owned()],
            others: vec![peer("other")],
            ..CommandOutcome::default()
        };
        let report = outcome.resume_report("me");
        assert!(report.done.is_some() && report.warnings.is_empty());
        outcome.unchanged = std::mem::take(&mut outcome.changed);
        let report = outcome.resume_report("me");
        assert_eq!(report.done, None);
        assert!(report.warnings[0].starts_with("Nothing is resumed in the peering 'default'"));
        assert!(report.warnings[1].contains("other"), "{report:?}");
    }
}
