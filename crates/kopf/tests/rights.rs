//! Operators with exactly the permissions that are derived from their handlers, on a sandbox that checks
//! them; and their manifests, as the API server sees them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kopf::prelude::*;
use kopf::{CancellationToken, OperatorBuilder};
use kopf_client::Client;
use kopf_core::rights::{Permission, Place, Requirements};
use kopf_sandbox::Sandbox;
use kopf_sandbox::manifests::Manifests;
use kopf_shipping::{Deployment, Identity, Launch, Plan, Webhooks};
use tower::ServiceExt as _;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  scope: Namespaced
  group: example.com
  names: {kind: Thing, plural: things, singular: thing}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

const THING: &str = "/apis/example.com/v1/namespaces/default/things/one";

/// A request of the operator: the verb, the resource with its subresource, the status code.
type Request = (String, String, u16);

/// A sandbox that checks permissions.
struct Cluster {
    sandbox: Sandbox,
    admin: Client,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Cluster {
    async fn start() -> Self {
        let sandbox = Sandbox::builder().rbac().build().unwrap();
        let admin = Client::from_service(sandbox.service(), "default");
        let cluster = Self {
            sandbox,
            admin,
            requests: Arc::default(),
        };
        cluster.load(DEFINITION).await;
        cluster
    }

    async fn load(&self, yaml: &str) {
        let manifests = Manifests::parse([("manifest", yaml)]).unwrap();
        manifests.load(&self.sandbox).await.unwrap();
    }

    /// A client with the rights of the service account. Its requests are recorded.
    fn client(&self) -> Client {
        let requests = Arc::clone(&self.requests);
        let service = self.sandbox.service();
        let service = tower::service_fn(move |mut request: http::Request<_>| {
            let (requests, service) = (Arc::clone(&requests), service.clone());
            let user = "system:serviceaccount:ops:op".parse().unwrap();
            request.headers_mut().insert("impersonate-user", user);
            let (verb, resource) = described(request.method().as_str(), request.uri());
            async move {
                let response = service.oneshot(request).await?;
                let code = response.status().as_u16();
                requests.lock().unwrap().push((verb, resource, code));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response)
            }
        });
        Client::from_service(service, "default")
    }

    async fn permit(&self, plan: &Plan, operator: &Operator) -> Requirements {
        let requirements = plan
            .requirements(&operator.registry(), &settings())
            .unwrap();
        self.load(&kopf_shipping::rbac(&plan.identity, &requirements))
            .await;
        requirements
    }

    /// Runs the operator while an object is created and deleted.
    async fn handle(&self, operator: Operator) {
        let stop = CancellationToken::new();
        let mut running = tokio::task::JoinSet::new();
        running.spawn(operator.run(self.client(), stop.clone()));
        let (path, _) = THING.rsplit_once('/').unwrap();
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
                           "metadata": {"name": "one"}, "spec": {"size": 1}});
        self.admin.post_json(path, &thing).await.unwrap();
        self.until(|thing| thing["status"]["make"] == "made").await;
        let api = self.admin.kube();
        let request = http::Request::delete(THING).body(Vec::new()).unwrap();
        api.request::<Value>(request).await.unwrap();
        for _ in 0..1000 {
            if self.admin.get_json(THING).await.is_err() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(
            self.admin.get_json(THING).await.is_err(),
            "it is not released"
        );
        stop.cancel();
        running.join_next().await.unwrap().unwrap().unwrap();
    }

    async fn until(&self, holds: impl Fn(&Value) -> bool) {
        for _ in 0..1000 {
            let thing = self.admin.get_json(THING).await.unwrap();
            if holds(&thing) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let requests = self.requests.lock().unwrap();
        panic!("it is not handled; the requests: {requests:?}");
    }

    /// The permitted requests, and those that were refused.
    fn requests(&self) -> (BTreeSet<(String, String)>, Vec<Request>) {
        let requests = self.requests.lock().unwrap();
        let (refused, permitted): (Vec<_>, Vec<_>) = requests
            .iter()
            .cloned()
            .partition(|(_, _, code)| *code == 403);
        let permitted = permitted.into_iter();
        let resources = permitted.filter(|(verb, _, _)| !verb.is_empty());
        let permitted = resources.map(|(verb, resource, _)| (verb, resource));
        (permitted.collect(), refused)
    }
}

/// The verb and the resource of a request to a resource; nothing for discovery and reviews.
fn described(method: &str, uri: &http::Uri) -> (String, String) {
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let parts = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let (resource, name) = match parts {
        ["namespaces", _, plural, name, subresource] => {
            (format!("{plural}/{subresource}"), Some(name))
        }
        ["namespaces", _, plural, name] => ((*plural).to_owned(), Some(name)),
        ["namespaces", _, plural] | [plural] => ((*plural).to_owned(), None),
        _ => return (String::new(), String::new()),
    };
    let is_watch = uri.query().is_some_and(|query| query.contains("watch="));
    let verb = match (method, name) {
        ("GET", None) if is_watch => "watch",
        ("GET", None) => "list",
        ("GET", Some(_)) => "get",
        ("POST", _) if resource.ends_with("reviews") => "",
        ("POST", _) => "create",
        ("PATCH", _) => "patch",
        _ => "other",
    };
    (verb.to_owned(), resource)
}

fn settings() -> kopf::Settings {
    kopf::Settings::default()
}

fn plan(launch: Launch) -> Plan {
    Plan {
        identity: Identity::new("op", "ops").unwrap(),
        launch,
        extras: Vec::new(),
        managed_webhooks: None,
        definitions: Vec::new(),
        other_definitions: kopf_shipping::definitions("things", DEFINITION).unwrap(),
    }
}

fn builder() -> OperatorBuilder {
    Operator::builder()
        .handler(on::create("things", || "made").id("make"))
        .handler(on::delete("things", || ()).id("remove"))
        .handler(on::event("configmaps", || ()).id("seen"))
        .settings(|settings| settings.peering.standalone = true)
}

fn needed(requirements: &Requirements) -> BTreeSet<(String, String)> {
    let permissions = requirements.permissions.iter();
    permissions
        .map(|permission| (permission.verb.clone(), permission.resource.clone()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_operator_of_the_cluster_needs_all_of_its_permissions_and_no_other() {
    let cluster = Cluster::start().await;
    let launch = Launch {
        standalone: true,
        ..Launch::default()
    };
    let operator = builder().build().unwrap();
    let requirements = cluster.permit(&plan(launch), &operator).await;
    cluster.handle(operator).await;
    let (permitted, refused) = cluster.requests();
    assert_eq!(refused, []);
    assert_eq!(permitted, needed(&requirements));
}

#[tokio::test(start_paused = true)]
async fn an_operator_of_a_namespace_has_permissions_there_only() {
    let cluster = Cluster::start().await;
    let launch = Launch {
        namespaces: vec!["default".to_owned()],
        standalone: true,
        ..Launch::default()
    };
    let operator = builder().namespaces(["default"]).build().unwrap();
    let requirements = cluster.permit(&plan(launch), &operator).await;
    let is_cluster_wide = |permission: &&Permission| permission.place == Place::Cluster;
    let permissions = requirements.permissions.iter();
    let cluster_wide: BTreeSet<_> = permissions
        .filter(is_cluster_wide)
        .map(|one| &*one.resource)
        .collect();
    assert_eq!(
        cluster_wide,
        BTreeSet::from(["customresourcedefinitions", "namespaces"])
    );
    cluster.handle(operator).await;
    let (permitted, refused) = cluster.requests();
    assert_eq!(refused, []);
    assert_eq!(permitted, needed(&requirements));
}

#[tokio::test(start_paused = true)]
async fn an_operator_without_a_permission_is_refused() {
    let cluster = Cluster::start().await;
    let launch = Launch {
        standalone: true,
        ..Launch::default()
    };
    let operator = builder().build().unwrap();
    let plan = plan(launch);
    let mut requirements = plan
        .requirements(&operator.registry(), &settings())
        .unwrap();
    requirements
        .permissions
        .retain(|permission| permission.resource != "events");
    cluster
        .load(&kopf_shipping::rbac(&plan.identity, &requirements))
        .await;
    cluster.handle(operator).await;
    let (_, refused) = cluster.requests();
    let refused: BTreeSet<_> = refused.into_iter().collect();
    let events = ("create".to_owned(), "events".to_owned(), 403);
    assert_eq!(refused, BTreeSet::from([events]));
}

#[tokio::test]
async fn manifests_are_accepted_by_the_server() {
    let cluster = Cluster::start().await;
    let operator = builder().build().unwrap();
    let plan = plan(Launch {
        namespaces: vec!["default".to_owned()],
        lease: Some("op".to_owned()),
        ..Launch::default()
    });
    let requirements = plan
        .requirements(&operator.registry(), &settings())
        .unwrap();
    let deployment = Deployment {
        image: "registry.example/op:1".to_owned(),
        replicas: 2,
        command: Vec::new(),
        arguments: plan.launch.arguments(),
        files: Vec::new(),
        webhooks: Webhooks::Served,
    };
    let definitions = &plan.other_definitions;
    let text = kopf_shipping::manifests(&plan.identity, &requirements, definitions, &deployment);
    // Loading creates each object: the server checks it as for a dry run, and keeps it.
    let cluster_without = Sandbox::builder().rbac().build().unwrap();
    let manifests = Manifests::parse([("manifests", text.unwrap())]).unwrap();
    let loaded = manifests.load(&cluster_without).await.unwrap();
    // Namespace, CRD, ServiceAccount, two roles with bindings in three places, Deployment, Service.
    assert_eq!(loaded.len(), 11);
    let client = Client::from_service(cluster_without.service(), "default");
    let path = "/apis/apps/v1/namespaces/ops/deployments/op";
    let stored = client.get_json(path).await.unwrap();
    let container = &stored["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["port"], "probes");
    cluster.sandbox.shutdown().await;
}
