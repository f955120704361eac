//! CRDs for test cases.

use serde_json::{Value, json};

use crate::api::expect;
use crate::{Api, ApiResponse, eventually};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A builder of the CRD `widgets` in the test's group.
///
/// Defaults: kind Widget, namespaced, version v1, spec and status with unknown fields preserved, no
/// subresources.
#[derive(Debug)]
#[must_use = "a definition does nothing until `.create().await`"]
pub struct CrdBuilder<'a> {
    api: &'a Api,
    definition: Value,
}

impl<'a> CrdBuilder<'a> {
    pub(crate) fn new(api: &'a Api) -> Self {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let group = api.group();
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {
                    "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList",
                },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": anything, "status": anything},
                    }},
                }],
            },
        });
        Self { api, definition }
    }

    /// Sets the names: `gadgets` instead of `widgets`, kind Gadget, and so on.
    pub fn named(self, plural: &str, singular: &str, kind: &str) -> Self {
        let name = format!("{plural}.{}", self.api.group());
        self.edit(|crd| {
            crd["metadata"]["name"] = json!(name);
            crd["spec"]["names"] = json!({
                "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
            });
        })
    }

    /// Sets the whole schema of the first version.
    pub fn schema(self, schema: Value) -> Self {
        self.edit(|crd| {
            crd["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": schema});
        })
    }

    /// Sets the schema of `spec`; the status preserves unknown fields.
    pub fn spec_schema(self, schema: Value) -> Self {
        self.edit(|crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema;
        })
    }

    /// Adds the status subresource.
    pub fn with_status(self) -> Self {
        self.edit(|crd| crd["spec"]["versions"][0]["subresources"]["status"] = json!({}))
    }

    /// Adds the scale subresource with `.spec.replicas`, `.status.replicas` and `.status.selector`.
    pub fn with_scale(self) -> Self {
        self.edit(|crd| {
            crd["spec"]["versions"][0]["subresources"]["scale"] = json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            });
        })
    }

    /// Adds the version `v2`, a copy of the stored one.
    pub fn with_second_version(self) -> Self {
        self.edit(|crd| {
            let mut second = crd["spec"]["versions"][0].clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            let versions = crd["spec"]["versions"].as_array_mut();
            versions.expect("a CRD has versions").push(second);
        })
    }

    /// Makes the resource cluster-scoped.
    pub fn cluster_scoped(self) -> Self {
        self.edit(|crd| crd["spec"]["scope"] = json!("Cluster"))
    }

    /// Applies any other change to the CRD.
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.definition);
        self
    }

    /// Returns the CRD.
    pub fn definition(&self) -> &Value {
        &self.definition
    }

    /// Creates the CRD and waits until all its served versions respond.
    pub async fn create(self) -> Crd<'a> {
        let created = self
            .api
            .create(CRDS, &self.definition)
            .await
            .expect_code(201);
        let crd = Crd {
            api: self.api,
            name: created.name().to_owned(),
            group: text(&created.json["spec"]["group"]),
            version: text(&created.json["spec"]["versions"][0]["name"]),
            kind: text(&created.json["spec"]["names"]["kind"]),
            plural: text(&created.json["spec"]["names"]["plural"]),
            namespaced: created.json["spec"]["scope"] == "Namespaced",
        };
        self.api.delete_at_end(crd.definition_path());
        crd.served().await;
        let versions = created.json["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten();
        for version in versions.filter(|version| version["served"] == true) {
            let version = text(&version["name"]);
            let path = format!("/apis/{}/{version}/{}", crd.group, crd.plural);
            eventually("a version of the definition to be served", async || {
                (self.api.get(&path).await.code == 200).then_some(())
            })
            .await;
        }
        crd
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A CRD that exists and is served.
#[derive(Debug)]
pub struct Crd<'a> {
    api: &'a Api,
    name: String,
    group: String,
    version: String,
    kind: String,
    plural: String,
    namespaced: bool,
}

impl Crd<'_> {
    /// Returns the name of the CRD: `widgets.<group>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the API group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns `<group>/<version>` of the first version.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns the path of the CRD itself.
    pub fn definition_path(&self) -> String {
        format!("{CRDS}/{}", self.name)
    }

    /// Returns the path of the objects, in the test's namespace if they are namespaced.
    pub fn path(&self) -> String {
        if self.namespaced {
            self.api.group_path(&self.api_version(), &self.plural)
        } else {
            self.path_everywhere()
        }
    }

    /// Returns the path of the objects in all namespaces.
    pub fn path_everywhere(&self) -> String {
        format!("/apis/{}/{}", self.api_version(), self.plural)
    }

    /// Returns the path of one object, or with `name/status` of its subresource.
    pub fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// Returns a custom object with a name and a spec. It is not created.
    pub fn object(&self, name: &str, spec: Value) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version(), "kind": self.kind, "metadata": {"name": name},
        });
        if !spec.is_null() {
            object["spec"] = spec;
        }
        object
    }

    /// Creates an object with a name and a spec. Fails the test unless the status is 201.
    #[track_caller]
    pub fn created(&self, name: &str, spec: Value) -> impl Future<Output = ApiResponse> {
        let (path, object) = (self.path(), self.object(name, spec));
        expect(201, async move { self.api.create(&path, &object).await })
    }

    /// Returns an object by its name. Fails the test unless the status is 200.
    #[track_caller]
    pub fn found(&self, name: &str) -> impl Future<Output = ApiResponse> {
        let path = self.path_of(name);
        expect(200, async move { self.api.get(&path).await })
    }

    /// Sends a merge patch for an object. Fails the test unless the status is 200.
    #[track_caller]
    pub fn merged(&self, name: &str, patch: &Value) -> impl Future<Output = ApiResponse> {
        let path = self.path_of(name);
        expect(200, async move { self.api.merge(&path, patch).await })
    }

    /// Deletes an object. Fails the test unless the status is 200.
    #[track_caller]
    pub fn deleted(&self, name: &str) -> impl Future<Output = ApiResponse> {
        let path = self.path_of(name);
        expect(200, async move { self.api.delete(&path).await })
    }

    /// Waits until the CRD is established and its objects can be listed.
    pub async fn served(&self) {
        eventually("the custom resources to be served", async || {
            let crd = self.api.get(&self.definition_path()).await;
            let conditions = crd
                .at("/status/conditions")
                .as_array()
                .cloned()
                .unwrap_or_default();
            let established = conditions
                .iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True");
            (established && self.api.get(&self.path_everywhere()).await.code == 200).then_some(())
        })
        .await;
    }
}
