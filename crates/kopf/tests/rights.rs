//! Operators with exactly the permissions derived from their handlers, on a sandbox with RBAC; and
//! their manifests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "failures fail the test")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kopf::prelude::*;
use kopf::{CancellationToken, OperatorBuilder};
use kopf_client::Client;
use kopf_core::rights::{Permission, PermissionScope, Requirements};
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

    /// Returns a client with the permissions of the service account. Its requests are recorded.
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
            "the finalizer is not removed"
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
        panic!("the object is not handled; requests: {requests:?}");
    }

    /// Returns the permitted and the rejected requests.
    fn requests(&self) -> (BTreeSet<(String, String)>, Vec<Request>) {
        let requests = self.requests.lock().unwrap();
        let (rejected, permitted): (Vec<_>, Vec<_>) = requests
            .iter()
            .cloned()
            .partition(|(_, _, code)| *code == 403);
        let permitted = permitted.into_iter();
        let resources = permitted.filter(|(verb, _, _)| !verb.is_empty());
        let permitted = resources.map(|(verb, resource, _)| (verb, resource));
        (permitted.collect(), rejected)
    }
}

/// Returns the verb and the resource of a request; empty for discovery and reviews.
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
async fn cluster_wide_operators_need_exactly_their_permissions() {
    let cluster = Cluster::start().await;
    let launch = Launch {
        standalone: true,
        ..Launch::default()
    };
    let operator = builder().build().unwrap();
    let requirements = cluster.permit(&plan(launch), &operator).await;
    cluster.handle(operator).await;
    let (permitted, rejected) = cluster.requests();
    assert_eq!(rejected, []);
    assert_eq!(permitted, needed(&requirements));
}

#[tokio::test(start_paused = true)]
async fn namespaced_operators_have_permissions_in_their_namespace() {
    let cluster = Cluster::start().await;
    let launch = Launch {
        namespaces: vec!["default".to_owned()],
        standalone: true,
        ..Launch::default()
    };
    let operator = builder().namespaces(["default"]).build().unwrap();
    let requirements = cluster.permit(&plan(launch), &operator).await;
    let is_cluster_wide = |permission: &&Permission| permission.scope == PermissionScope::Cluster;
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
    let (permitted, rejected) = cluster.requests();
    assert_eq!(rejected, []);
    assert_eq!(permitted, needed(&requirements));
}

#[tokio::test(start_paused = true)]
async fn requests_without_permission_are_rejected() {
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
    let (_, rejected) = cluster.requests();
    let rejected: BTreeSet<_> = rejected.into_iter().collect();
    let events = ("create".to_owned(), "events".to_owned(), 403);
    assert_eq!(rejected, BTreeSet::from([events]));
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
    // Loading creates each object, so that the server validates it.
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
