//! Freezing and resuming: a record of somebody who is no operator, and is not renewed.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_client::Client;
use kopf_client::discovery::Groups;
use kopf_core::namespace::Scope;
use kopf_core::peering::{Assessment, GROUPS, Peer};
use kopf_core::settings::Settings;
use tracing::{debug, warn};

use super::board::Board;
use super::{kinds, places};
use crate::clock::Clock;
use crate::health::Vitals;
use crate::observation::{Findings, NamespaceObserver, ResourceObserver, insights};

/// Why operators were not told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server does not tell what kinds it has.
    #[error("the resources of the cluster cannot be discovered")]
    Discovery(#[source] Box<kopf_client::Error>),
    /// There is nothing to write to.
    #[error("cannot find the peering resource: there are no {plural} in the cluster")]
    NoKind {
        /// The missing kind.
        plural: &'static str,
    },
    /// There are kinds of peering objects, but no namespaces.
    #[error("no namespace is selected")]
    NoNamespace,
    /// There is no such peering object anywhere.
    #[error("the peering {name:?} is not found {places}")]
    NotFound {
        /// The name that was looked for.
        name: String,
        /// Where it was looked for.
        places: String,
    },
    /// The server does not accept it.
    #[error("the peering {board} cannot be changed")]
    Refused {
        /// Which one.
        board: String,
        /// Why.
        #[source]
        source: Box<kopf_client::Error>,
    },
}

/// Where operators were told, and what has come of it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Told {
    /// Where: texts such as `'default' in 'ns'`.
    pub places: Vec<String>,
    /// Where there was nothing to take back.
    pub vain: Vec<String>,
    /// Those who are there, too: when freezing, those of a higher priority, who go on; when there was
    /// nothing to take back, all others.
    pub others: Vec<Peer>,
}

/// Who gives the commands, if nobody is named: `POD_ID`, or the person at the machine.
pub fn own_identity() -> String {
    super::own_identity::detect_manual()
}

/// Pauses all operators of a lower priority, for as long as `settings.peering.lifetime` says.
///
/// The peering, the priority and the lifetime are those of the settings.
pub async fn freeze(
    client: &Client,
    settings: Settings,
    scope: &Scope,
    identity: &str,
) -> Result<Told, Error> {
    tell(client, settings, scope, identity, Command::Freeze).await
}

/// Takes back what [`freeze`] has done under the same identity.
pub async fn resume(
    client: &Client,
    settings: Settings,
    scope: &Scope,
    identity: &str,
) -> Result<Told, Error> {
    tell(client, settings, scope, identity, Command::Resume).await
}

/// A command to other operators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Freeze,
    Resume,
}

async fn tell(
    client: &Client,
    mut settings: Settings,
    scope: &Scope,
    identity: &str,
    command: Command,
) -> Result<Told, Error> {
    settings.peering.clusterwide = matches!(scope, Scope::Cluster);
    settings.peering.standalone = false;
    let settings = Arc::new(settings);
    let client = client.with_networking(&settings.networking);
    let boards = boards(&client, &settings, scope).await?;
    let peering = &settings.peering;
    let now = Clock::system().now();
    let peer = Peer::new(identity, peering.priority, peering.lifetime, now);
    let (mut told, mut absent) = (Told::default(), Vec::new());
    for board in boards {
        let is_found = told.tell(&board, &peer, command, now).await;
        let is_found = is_found.map_err(|source| Error::Refused {
            board: board.to_string(),
            source: Box::new(source),
        })?;
        if !is_found {
            absent.push(board);
        }
    }
    // There can be two peering resources, of which one is used.
    told.vain.retain(|place| !told.places.contains(place));
    let is_told = |place: &String| told.places.contains(place) || told.vain.contains(place);
    absent.retain(|board| !is_told(&board.to_string()));
    if told.places.is_empty() && told.vain.is_empty() {
        return Err(not_found(&peering.name, &absent));
    }
    for board in absent {
        warn!("The peering {board} is not found.");
    }
    Ok(told)
}

impl Told {
    /// Sends the command by one peering object. Returns `false` if there is no such object.
    async fn tell(
        &mut self,
        board: &Board,
        peer: &Peer,
        command: Command,
        now: Timestamp,
    ) -> Result<bool, kopf_client::Error> {
        let identity = &*peer.identity;
        let status = match command {
            Command::Freeze => board.exchange(peer).await?,
            Command::Resume => board.look().await?,
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
                board.remove([identity]).await?;
            }
            Command::Resume => {}
        }
        debug!("Keep-alive in {board}: ok.");
        let place = board.to_string();
        let places = if is_there {
            &mut self.places
        } else {
            &mut self.vain
        };
        if !places.contains(&place) {
            places.push(place);
        }
        self.others.extend(others);
        Ok(true)
    }
}

fn not_found(name: &str, absent: &[Board]) -> Error {
    let places = absent.iter().map(|board| match &board.namespace {
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

/// All objects to write to, whether they exist or not.
async fn boards(
    client: &Client,
    settings: &Arc<Settings>,
    scope: &Scope,
) -> Result<Vec<Board>, Error> {
    let (findings, mut insights) = insights();
    let Findings {
        resources,
        namespaces,
    } = findings;
    let resource_observer = ResourceObserver {
        vitals: Vitals::default(),
        client: client.clone(),
        settings: Arc::clone(settings),
        groups: Groups::Only(GROUPS.map(str::to_owned).into()),
        findings: resources,
    };
    let namespace_observer = NamespaceObserver {
        vitals: Vitals::default(),
        client: client.clone(),
        settings: Arc::clone(settings),
        scope: scope.clone(),
        findings: namespaces,
    };
    let found = tokio::select! {
        outcome = resource_observer.run() => {
            return match outcome {
                Err(error) => Err(Error::Discovery(Box::new(error))),
                Ok(()) => Ok(Vec::new()),
            };
        }
        () = namespace_observer.run() => None,
        found = insights.next() => found,
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
    let places = places(&kinds, &namespaces);
    if places.is_empty() {
        return Err(Error::NoNamespace);
    }
    let boards = places.into_iter().map(|place| Board {
        client: client.clone(),
        resource: place.resource,
        namespace: place.namespace,
        name: peering.name.clone(),
    });
    Ok(boards.collect())
}
