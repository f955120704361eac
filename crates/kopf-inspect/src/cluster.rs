//! Requests of the commands: discovery, paged lists, single objects and events.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use kopf_client::connection::{self, Options};
use kopf_client::discovery::{self, Groups, Scan};
use kopf_client::{Client, Error};
use kopf_core::body::Body;
use kopf_core::resource::Resource;
use kopf_core::settings::{Backoffs, Networking};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::events::{Event, EventOutcome};
use crate::failure::{Failure, request_failure};
use crate::kinds::{self, prefer_served};

/// The number of objects per request. Only one page is in memory at a time.
const PAGE: u32 = 500;

/// Upper bound for the number of events that are read for one list.
const EVENTS: usize = 50_000;

/// The time limit for establishing a connection.
const CONNECTING: Duration = Duration::from_secs(10);

/// Delays before the retries of failed requests. They are short for interactive use.
const RETRIES: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(1)];

/// A client of a cluster, with the requests of the commands.
#[derive(Clone, Debug)]
pub struct Cluster {
    client: Client,
}

/// The objects to list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    pub(crate) resource: &'a Resource,
    /// `None` for all namespaces, and for cluster-scoped resources.
    pub(crate) namespace: Option<&'a str>,
    /// A label selector.
    pub(crate) labels: Option<&'a str>,
    /// A field selector.
    pub(crate) fields: Option<&'a str>,
}

impl Cluster {
    /// Connects with the service account of the pod or with the kubeconfig.
    ///
    /// # Errors
    /// If there are no credentials, or if they cannot be read.
    pub async fn connect(
        kubeconfig: Option<PathBuf>,
        context: Option<String>,
    ) -> Result<Self, Failure> {
        let mut options = Options::default();
        options.kubeconfig = kubeconfig;
        options.context = context;
        let client = connection::infer_with(options).await.map_err(|error| {
            Failure::new("cannot find a cluster", &error)
                .advise("set KUBECONFIG, or use --kubeconfig and --context")
        })?;
        Ok(Self::new(&client))
    }

    /// Uses a client, with shorter retries for interactive use.
    pub fn new(client: &Client) -> Self {
        let mut networking = Networking::default();
        networking.connect_timeout = Some(CONNECTING);
        networking.error_backoffs = Backoffs::finite(RETRIES);
        Self {
            client: client.with_networking(&networking),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the current time of the system.
    pub(crate) fn now() -> Timestamp {
        Timestamp::now()
    }

    /// Returns the namespace of the credentials, or `default`.
    pub(crate) fn namespace(&self) -> String {
        let namespace = self.client.default_namespace();
        namespace.map_or_else(|| "default".to_owned(), |namespace| namespace.to_string())
    }

    /// Discovers the resources of the cluster, with one preferred version of each.
    pub(crate) async fn scan(&self, groups: &Groups) -> Result<Scan, Failure> {
        let scan = discovery::scan(&self.client, groups).await;
        let mut scan = scan.map_err(|error| {
            request_failure("cannot discover the resources of the cluster", &error)
        })?;
        prefer_served(&mut scan);
        Ok(scan)
    }

    /// Finds a resource by any of its names.
    pub(crate) async fn resolve(&self, name: &str) -> Result<Resource, Failure> {
        kinds::resolve(name, &self.scan(&Groups::All).await?)
    }

    /// Reads one object.
    pub(crate) async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Body>, Error> {
        let path = resource.url(namespace, Some(name), None)?;
        match self.client.get_json(&path).await {
            Ok(value) => Ok(Some(Body::new(value))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists objects, page by page.
    pub(crate) async fn pages(
        &self,
        query: Query<'_>,
        mut each: impl FnMut(Vec<Body>) -> Paging,
    ) -> Result<(), Error> {
        let path = query.resource.url(query.namespace, None, None)?;
        let api_version = query.resource.api_version();
        let mut next = String::new();
        loop {
            let page = format!("{path}?{}", query.page(&next));
            let mut list = self.client.get_json(&page).await?;
            let items = list.get_mut("items").map(Value::take);
            let items = match items {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            let bodies = items.into_iter().map(|mut item| {
                if let Value::Object(fields) = &mut item {
                    let kind = || Value::from(query.resource.kind.as_str());
                    fields.entry("kind").or_insert_with(kind);
                    let version = || Value::from(api_version.as_str());
                    fields.entry("apiVersion").or_insert_with(version);
                }
                Body::new(item)
            });
            let paging = each(bodies.collect());
            let token = list.pointer("/metadata/continue").and_then(Value::as_str);
            let token = token.unwrap_or_default().to_owned();
            if paging == Paging::Stop || token.is_empty() || token == next {
                return Ok(());
            }
            next = token;
        }
    }

    /// Reads the events of one object, the oldest first. Those of namespaced objects are in the same
    /// namespace.
    pub(crate) async fn events(&self, body: &Body) -> Result<Vec<Event>, Error> {
        let uid = body.uid().unwrap_or_default();
        let fields = format!("involvedObject.uid={uid}");
        let mut events = Vec::new();
        self.each_event(body.namespace(), &fields, |event| events.push(event))
            .await?;
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// Returns the outcomes of the events of all objects of a kind, by uid.
    pub(crate) async fn outcomes(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<HashMap<String, EventOutcome>, Error> {
        let fields = format!("involvedObject.kind={}", resource.kind);
        let mut outcomes: HashMap<String, EventOutcome> = HashMap::new();
        self.each_event(namespace, &fields, |event| {
            outcomes.entry(event.uid.clone()).or_default().add(&event);
        })
        .await?;
        Ok(outcomes)
    }

    async fn each_event(
        &self,
        namespace: Option<&str>,
        fields: &str,
        mut each: impl FnMut(Event),
    ) -> Result<(), Error> {
        let resource = events();
        let query = Query {
            resource: &resource,
            namespace,
            labels: None,
            fields: Some(fields),
        };
        let mut count = 0;
        self.pages(query, |page| {
            count += page.len();
            page.iter()
                .filter_map(|body| Event::read(body.value()))
                .for_each(&mut each);
            if count < EVENTS {
                Paging::Continue
            } else {
                Paging::Stop
            }
        })
        .await
    }
}

/// The decision after a page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    Continue,
    Stop,
}

impl Query<'_> {
    fn page(&self, next: &str) -> String {
        let mut query = format!("limit={PAGE}");
        let parts = [
            ("labelSelector", self.labels.unwrap_or_default()),
            ("fieldSelector", self.fields.unwrap_or_default()),
            ("continue", next),
        ];
        for (key, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
            let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
            let _ = write!(query, "&{key}={value}");
        }
        query
    }
}

/// Returns the resource of CRDs.
pub(crate) fn definitions() -> Resource {
    Resource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        ..Resource::default()
    }
}

/// Returns the resource of k8s-events.
pub(crate) fn events() -> Resource {
    Resource {
        version: "v1".to_owned(),
        plural: "events".to_owned(),
        kind: "Event".to_owned(),
        namespaced: true,
        ..Resource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded() {
        let resource = events();
        let query = Query {
            resource: &resource,
            namespace: None,
            labels: Some("a=b,c!=d"),
            fields: None,
        };
        assert_eq!(
            query.page("x/y="),
            "limit=500&labelSelector=a%3Db%2Cc%21%3Dd&continue=x%2Fy%3D"
        );
    }
}
