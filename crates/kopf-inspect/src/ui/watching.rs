//! Watches of the objects and their events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kopf_client::discovery::Groups;
use kopf_client::watching::{Item, Signal, observe};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use kopf_core::settings::Watching;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::api::Api;
use super::watched::Selection;
use crate::cluster::{Cluster, definitions, events};
use crate::events::Event;
use crate::handled::Handled;
use crate::kinds::full;

/// The key of problems with k8s-events.
const EVENTS: &str = "events";

/// The key of problems with the discovery of resources.
const DISCOVERY: &str = "discovery";

/// The delay of scans for new resources after a change of a CRD.
const SCANNING: Duration = Duration::from_secs(1);

/// Watches all resources until it is dropped.
pub(super) async fn run(api: &Arc<Api>, namespace: Option<&str>) {
    let mut watches = Watches {
        api: Arc::clone(api),
        namespace: namespace.map(str::to_owned),
        tasks: JoinSet::new(),
        running: HashMap::new(),
    };
    let events = watch_events(Arc::clone(api), watches.namespace.clone());
    watches.tasks.spawn(events);
    watches.update();
    if api.watched.selection() == Selection::Custom {
        watches.follow().await;
    }
    while watches.tasks.join_next().await.is_some() {}
}

/// One task per resource.
struct Watches {
    api: Arc<Api>,
    namespace: Option<String>,
    tasks: JoinSet<()>,
    running: HashMap<String, (Arc<Resource>, AbortHandle)>,
}

impl Watches {
    /// Scans for custom resources whenever a CRD changes.
    async fn follow(&mut self) {
        let changed = Arc::new(Notify::new());
        let definitions = watch_definitions(Arc::clone(&self.api), Arc::clone(&changed));
        self.tasks.spawn(definitions);
        let api = Arc::clone(&self.api);
        loop {
            tokio::select! {
                () = changed.notified() => {
                    // Several CRDs are often applied at once.
                    sleep(SCANNING).await;
                    self.scan().await;
                }
                () = api.adopted.notified() => {
                    // The states are derived again, with the storages of the operator.
                    for (_, (_, task)) in self.running.drain() {
                        task.abort();
                    }
                    api.rows.clear();
                    self.scan().await;
                }
            }
        }
    }

    async fn scan(&mut self) {
        match self.api.cluster.scan(&Groups::All).await {
            Ok(scan) => {
                self.api.rows.recovered(DISCOVERY);
                let operator = self.api.operator();
                self.api.watched.update(&scan, operator.as_deref());
                self.update();
            }
            Err(failure) => self.api.rows.fail(DISCOVERY, failure.to_string()),
        }
    }

    /// Starts watching new resources, and ends watching those that are gone.
    fn update(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        let resources = self.api.watched.all();
        self.running.retain(|kind, (watched, task)| {
            let is_kept = resources.iter().any(|one| one.is_identical(watched));
            if !is_kept {
                task.abort();
                self.api.rows.retain(kind, &HashSet::new());
                self.api.rows.recovered(kind);
            }
            is_kept
        });
        for resource in resources {
            let namespace = self.namespace.clone().filter(|_| resource.namespaced);
            let (api, tasks) = (&self.api, &mut self.tasks);
            self.running.entry(full(&resource)).or_insert_with(|| {
                let watch = watch(Arc::clone(api), Arc::clone(&resource), namespace);
                (resource, tasks.spawn(watch))
            });
        }
    }
}

async fn watch(api: Arc<Api>, resource: Arc<Resource>, namespace: Option<String>) {
    let kind = full(&resource);
    let client = api.cluster.client().clone();
    let mut observer = observe(client, resource, namespace, &Watching::default());
    let mut listed: Option<HashSet<String>> = None;
    loop {
        match observer.next().await {
            Signal::Listing => listed = Some(HashSet::new()),
            Signal::Item(item) => {
                api.rows.recovered(&kind);
                if let (Some(listed), Some(uid)) = (&mut listed, &item.key.uid) {
                    listed.insert(uid.to_string());
                }
                take(&api, &kind, &item);
            }
            Signal::Listed { .. } => {
                api.rows.recovered(&kind);
                if let Some(listed) = listed.take() {
                    api.rows.retain(&kind, &listed);
                }
            }
            Signal::Failure { error, .. } => api.rows.fail(&kind, error.to_string()),
        }
    }
}

fn take(api: &Api, kind: &str, item: &Item) {
    let now = Cluster::now();
    if item.event == EventType::Deleted {
        if let Some(uid) = &item.key.uid {
            api.rows.remove(uid);
        }
    } else if let Ok(body) = Body::parse(&item.raw) {
        let handled = Handled::assess(&body, &api.storages(), now);
        api.rows.put(kind, &body, handled.state, now);
    }
}

/// Notifies about changes of CRDs.
///
/// Without the permission for CRDs, it notifies at every retry of the failed request.
async fn watch_definitions(api: Arc<Api>, changed: Arc<Notify>) {
    let client = api.cluster.client().clone();
    let resource = Arc::new(definitions());
    let mut observer = observe(client, resource, None, &Watching::default());
    loop {
        if !matches!(observer.next().await, Signal::Listing) {
            changed.notify_one();
        }
    }
}

async fn watch_events(api: Arc<Api>, namespace: Option<String>) {
    let client = api.cluster.client().clone();
    let resource = Arc::new(events());
    let mut observer = observe(client, resource, namespace, &Watching::default());
    loop {
        let signal = observer.next().await;
        if matches!(signal, Signal::Item(_) | Signal::Listed { .. }) {
            api.rows.recovered(EVENTS);
        }
        match signal {
            Signal::Item(item) if item.event != EventType::Deleted => {
                let event = Body::parse(&item.raw).ok();
                let event = event.and_then(|body| Event::read(body.value()));
                if let Some(event) = event.filter(Event::is_relevant) {
                    api.rows.note(&event, Cluster::now());
                }
            }
            Signal::Failure { error, .. } => api.rows.fail(EVENTS, error.to_string()),
            _ => {}
        }
    }
}
