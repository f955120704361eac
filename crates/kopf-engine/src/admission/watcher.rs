//! Watch of one webhook configuration object, or polling if watching is not permitted.

use std::sync::Arc;
use std::time::Duration;

use kopf_client::watching::{Item, Observer, Signal, observe};
use kopf_core::admission::{OWNER_ANNOTATION, Owner};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::settings::Watching;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::object::{ConfigurationObject, read};
use crate::health::StreamHealth;

/// Polling interval if the object cannot be watched.
const POLLING_INTERVAL: Duration = Duration::from_secs(60);

/// One observed version of a configuration object.
#[derive(Debug)]
pub(super) enum Seen {
    /// The object does not exist. Contains the version of its deletion, if that was observed.
    Absent { version: Option<String> },
    /// The object exists.
    Present(Present),
}

/// The observed parts of a configuration object.
#[derive(Debug)]
pub(super) struct Present {
    pub(super) owner: Option<Owner>,
    /// The webhooks; empty if the list is null or absent.
    pub(super) webhooks: Value,
    pub(super) version: Option<String>,
}

impl From<&Body> for Present {
    fn from(body: &Body) -> Self {
        let webhooks = match body.get("webhooks") {
            Value::Null => Value::Array(Vec::new()),
            webhooks => webhooks.clone(),
        };
        Self {
            owner: body.annotation(OWNER_ANNOTATION).map(Owner::parse),
            webhooks,
            version: body.resource_version().map(str::to_owned),
        }
    }
}

impl Seen {
    /// Returns `true` if this version is older than the other one. Versions that are not numbers
    /// cannot be compared and are never older.
    pub(super) fn is_older_than(&self, other: &str) -> bool {
        let version = match self {
            Self::Absent { version } => version,
            Self::Present(present) => &present.version,
        };
        let number = |version: &str| version.parse::<u128>().ok();
        let own = version.as_deref().and_then(number);
        matches!((own, number(other)), (Some(own), Some(other)) if own < other)
    }
}

impl From<Option<Body>> for Seen {
    fn from(body: Option<Body>) -> Self {
        body.map_or(Self::Absent { version: None }, |body| {
            Self::Present(Present::from(&body))
        })
    }
}

/// A watcher of one configuration object.
pub(super) struct Watcher {
    object: Arc<ConfigurationObject>,
    observer: Observer,
    health: StreamHealth,
    /// `true` if the object was in the current listing.
    is_listed: bool,
    /// `true` if anything was observed yet.
    has_seen: bool,
    /// Time of the next poll; `None` while the watch works.
    poll_at: Option<Instant>,
    is_failing: bool,
}

impl Watcher {
    pub(super) fn new(
        object: Arc<ConfigurationObject>,
        settings: &Watching,
        health: StreamHealth,
    ) -> Self {
        let resource = Arc::clone(&object.resource);
        let observer = observe(object.client.clone(), resource, None, settings);
        let observer = observer.named(&object.name);
        health.listening(observer.pulse());
        Self {
            object,
            observer,
            health,
            is_listed: false,
            has_seen: false,
            poll_at: None,
            is_failing: false,
        }
    }

    /// Waits for the next observed version. Cancel-safe.
    pub(super) async fn next(&mut self) -> Seen {
        loop {
            let poll_at = self.poll_at;
            let polling = async {
                match poll_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let seen = tokio::select! {
                signal = self.observer.next() => self.on_signal(signal),
                () = polling => self.poll().await,
            };
            if let Some(seen) = seen {
                self.has_seen = true;
                return seen;
            }
        }
    }

    async fn poll(&mut self) -> Option<Seen> {
        let outcome = read(&self.object.target()).await;
        self.poll_at = Some(Instant::now() + POLLING_INTERVAL);
        match outcome {
            Ok(body) => Some(body.into()),
            Err(error) => {
                let ConfigurationObject { type_, name, .. } = &*self.object;
                warn!("The {type_} webhook configuration {name} cannot be read: {error}");
                None
            }
        }
    }

    fn on_signal(&mut self, signal: Signal) -> Option<Seen> {
        match signal {
            Signal::Listing => {
                self.is_listed = false;
                None
            }
            Signal::Item(item) => {
                self.recovered();
                self.on_item(&item)
            }
            Signal::Listed { .. } => {
                self.recovered();
                (!self.is_listed).then_some(Seen::Absent { version: None })
            }
            Signal::Failure {
                error, permanent, ..
            } => {
                self.on_failure(&error, permanent);
                None
            }
        }
    }

    fn on_item(&mut self, item: &Item) -> Option<Seen> {
        if item.key.name.as_deref() != Some(&*self.object.name) {
            return None;
        }
        self.is_listed = true;
        if item.event == EventType::Deleted {
            let version = item.key.resource_version.as_deref().map(str::to_owned);
            return Some(Seen::Absent { version });
        }
        match Body::parse(&item.raw) {
            Ok(body) => Some(Some(body).into()),
            Err(error) => {
                let ConfigurationObject { type_, name, .. } = &*self.object;
                warn!("cannot parse the {type_} webhook configuration {name}: {error}");
                None
            }
        }
    }

    fn on_failure(&mut self, error: &kopf_client::Error, is_permanent: bool) {
        let ConfigurationObject {
            type_,
            name,
            resource,
            ..
        } = &*self.object;
        if is_permanent {
            self.health.refused(error.to_string());
        } else {
            self.health.failing(error.to_string());
        }
        if !std::mem::replace(&mut self.is_failing, true) {
            if is_permanent {
                warn!(
                    "The {type_} webhook configuration {name} cannot be watched, and is read every \
                     {} seconds instead: {error}. Grant the verbs list and watch for {resource}.",
                    POLLING_INTERVAL.as_secs()
                );
            } else {
                warn!(
                    "Watching of the {type_} webhook configuration {name} is interrupted, trying \
                     again: {error}"
                );
            }
        }
        // An interrupted watch continues by itself, but the first write must not wait for it.
        if self.poll_at.is_none() && (is_permanent || !self.has_seen) {
            self.poll_at = Some(Instant::now());
        }
    }

    fn recovered(&mut self) {
        self.health.healthy();
        self.poll_at = None;
        self.is_failing = false;
    }
}
