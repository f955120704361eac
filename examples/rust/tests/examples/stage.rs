//! The fixture of all examples: a server with a namespace, and the resources of the example.

use std::slice;
use std::sync::LazyLock;

use kopf_testing::Manifest;
use kopf_tests::{Api, eventually};
use serde_json::{Value, json};

use crate::program::Program;

/// The name of the object in `examples/obj.yaml`.
pub(crate) const OBJECT: &str = "kopf-example-1";

const CRDS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the only object of a manifest.
pub(crate) fn only(yaml: &str) -> Value {
    let manifest = Manifest::from(yaml);
    let [object] = manifest.objects() else {
        panic!("not one object: {manifest:?}")
    };
    object.clone()
}

static CRD: LazyLock<Value> = LazyLock::new(|| only(include_str!("../../../crd.yaml")));
static EXAMPLE: LazyLock<Value> = LazyLock::new(|| only(include_str!("../../../obj.yaml")));

/// A server with the custom resources of an example.
pub(crate) struct Stage {
    pub(crate) api: Api,
    kubeconfig: String,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        Self::start_with(slice::from_ref(&*CRD)).await
    }

    /// Starts a server with these CRDs.
    pub(crate) async fn start_with(crds: &[Value]) -> Self {
        let api = Api::start_over_tls().await;
        for crd in crds {
            // On a control plane, tests share the CRDs, which are not removed.
            let response = api.create(CRDS_PATH, crd).await;
            assert!(matches!(response.code, 201 | 409), "{}", response.text());
            let [group, version, plural] = ["/group", "/versions/0/name", "/names/plural"]
                .map(|field| crd["spec"].pointer(field).unwrap().as_str().unwrap());
            eventually(plural, async || {
                let list = api.get(&format!("/apis/{group}/{version}/{plural}")).await;
                (list.code == 200).then_some(())
            })
            .await;
        }
        let kubeconfig = api.kubeconfig_path().to_str().unwrap().to_owned();
        Self { api, kubeconfig }
    }

    /// Runs an example in the test's namespace.
    pub(crate) fn run(&self, name: &str) -> Program {
        self.run_with(name, &[], &[])
    }

    /// Runs an example in the test's namespace, with further arguments and variables.
    pub(crate) fn run_with(
        &self,
        name: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Program {
        let own = ["run", "--log-format", "plain", "-n", self.api.namespace()];
        let arguments: Vec<_> = own.iter().chain(arguments).copied().collect();
        self.command(name, &arguments, variables)
    }

    /// Runs any command of an example.
    pub(crate) fn command(
        &self,
        name: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Program {
        let mut all = vec![("KUBECONFIG", self.kubeconfig.as_str())];
        all.extend(variables);
        Program::start(name, arguments, &all)
    }

    /// Runs an example without the command line of operators.
    pub(crate) fn start_alone(&self, name: &str, arguments: &[&str]) -> Program {
        Program::start(name, arguments, &[("KUBECONFIG", &self.kubeconfig)])
    }

    /// Returns the path of a KopfExample.
    pub(crate) fn path(&self, name: &str) -> String {
        self.api
            .group_path("kopf.dev/v1", &format!("kopfexamples/{name}"))
    }

    /// Creates the object of `examples/obj.yaml`, and returns it.
    pub(crate) async fn create(&self) -> Value {
        self.create_changed(|_| {}).await
    }

    /// Creates the object of `examples/obj.yaml` with changes, and returns it.
    pub(crate) async fn create_changed(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut object = EXAMPLE.clone();
        change(&mut object);
        let path = self.api.group_path("kopf.dev/v1", "kopfexamples");
        self.api.created(&path, &object).await.json
    }

    /// Changes the spec of the object by a merge patch.
    pub(crate) async fn change(&self, spec: Value) {
        let patch = json!({"spec": spec});
        let path = self.path(OBJECT);
        self.api.merged(&path, &patch).await;
    }

    /// Deletes the object, and waits until it is gone.
    pub(crate) async fn delete(&self) {
        let path = self.path(OBJECT);
        self.api.delete(&path).await.ok();
        self.gone(&path).await;
    }

    /// Waits until a path returns 404.
    pub(crate) async fn gone(&self, path: &str) {
        eventually(&format!("{path} to be gone"), async || {
            (self.api.get(path).await.code == 404).then_some(())
        })
        .await;
    }

    /// Waits until the object at a path meets a condition, and returns it.
    pub(crate) async fn until(
        &self,
        path: &str,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(&format!("{path}: {what}"), async || {
            let found = self.api.get(path).await;
            (found.code == 200 && condition(&found.json)).then_some(found.json)
        })
        .await
    }

    /// Returns the current object.
    pub(crate) async fn object(&self) -> Value {
        let path = self.path(OBJECT);
        self.api.found(&path).await.json
    }

    /// Waits for the result of a handler in the status, which is written after it is logged.
    pub(crate) async fn result(&self, handler: &str) -> Value {
        eventually(&format!("the result of {handler}"), async || {
            let result = self.object().await["status"][handler].take();
            (!result.is_null()).then_some(result)
        })
        .await
    }

    /// Waits until the object has a diff-base, and returns it.
    pub(crate) async fn handled(&self) -> Value {
        eventually("the object to be handled", async || {
            let object = self.object().await;
            let annotations = &object["metadata"]["annotations"];
            let handled = "kopf.zalando.org/last-handled-configuration";
            annotations[handled].is_string().then_some(object)
        })
        .await
    }

    /// Waits for an event of the object with this type, reason and message.
    pub(crate) async fn event(&self, event_type: &str, reason: &str, message: &str) {
        let what = format!("the event {event_type} {reason} {message:?}");
        eventually(&what, async || {
            let events = self.api.get(&self.api.ns_path("events")).await;
            let matches = |event: &Value| {
                event["involvedObject"]["name"] == OBJECT
                    && event["type"] == event_type
                    && event["reason"] == reason
                    && event["message"] == message
            };
            events.items().iter().any(matches).then_some(())
        })
        .await;
    }
}
