//! Watches of the objects and their events.

use std::collections::HashSet;
use std::sync::Arc;

use kopf_client::watching::{Item, Signal, observe};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use kopf_core::settings::Watching;
use tokio::task::JoinSet;

use super::api::Api;
use crate::cluster::{Cluster, events};
use crate::events::Event;
use crate::handled::Handled;
use crate::kinds::full;

/// The key of problems with k8s-events.
const EVENTS: &str = "events";

/// Watches all resources until it is dropped.
pub(super) async fn run(api: &Arc<Api>, namespace: Option<&str>) {
    let mut tasks = JoinSet::new();
    for resource in &api.kinds {
        let namespace = namespace.filter(|_| resource.namespaced).map(str::to_owned);
        tasks.spawn(watch(Arc::clone(api), Arc::clone(resource), namespace));
    }
    tasks.spawn(watch_events(Arc::clone(api), namespace.map(str::to_owned)));
    while tasks.join_next().await.is_some() {}
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
        let handled = Handled::assess(&body, &api.storages, now);
        api.rows.put(kind, &body, handled.state, now);
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
