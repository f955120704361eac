//! Custom resource definitions for the cases, small by default and bendable where needed.

use serde_json::{Value, json};

use crate::{Api, eventually};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of `widgets` in the test's group, before it is created.
///
/// Without further words: kind Widget, namespaced, version v1, spec and status of any content, no
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

    /// Other names: `gadgets` instead of `widgets`, kind Gadget, and so on.
    pub fn named(self, plural: &str, singular: &str, kind: &str) -> Self {
        let name = format!("{plural}.{}", self.api.group());
        self.edit(|crd| {
            crd["metadata"]["name"] = json!(name);
            crd["spec"]["names"] = json!({
                "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
            });
        })
    }

    /// The whole schema of the first version.
    pub fn schema(self, schema: Value) -> Self {
        self.edit(|crd| {
            crd["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": schema});
        })
    }

    /// The schema of `spec` alone; the status keeps its free form.
    pub fn spec_schema(self, schema: Value) -> Self {
        self.edit(|crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema;
        })
    }

    /// With a status subresource.
    pub fn with_status(self) -> Self {
        self.edit(|crd| crd["spec"]["versions"][0]["subresources"]["status"] = json!({}))
    }

    /// With a scale subresource over `.spec.replicas`, `.status.replicas` and `.status.selector`.
    pub fn with_scale(self) -> Self {
        self.edit(|crd| {
            crd["spec"]["versions"][0]["subresources"]["scale"] = json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            });
        })
    }

    /// Outside of namespaces.
    pub fn cluster_scoped(self) -> Self {
        self.edit(|crd| crd["spec"]["scope"] = json!("Cluster"))
    }

    /// Any other change of the definition.
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.definition);
        self
    }

    /// The definition as it would be sent.
    pub fn definition(&self) -> &Value {
        &self.definition
    }

    /// Creates the definition and waits until all of its served versions answer.
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

/// A definition that exists and is served.
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
    /// The definition's name: `widgets.<group>`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The API group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// `<group>/<version>` of the first version.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The path of the definition itself.
    pub fn definition_path(&self) -> String {
        format!("{CRDS}/{}", self.name)
    }

    /// The path of the objects: of those in the test's namespace, if they live in namespaces.
    pub fn path(&self) -> String {
        if self.namespaced {
            self.api.group_path(&self.api_version(), &self.plural)
        } else {
            self.path_everywhere()
        }
    }

    /// The path of the objects in all namespaces.
    pub fn path_everywhere(&self) -> String {
        format!("/apis/{}/{}", self.api_version(), self.plural)
    }

    /// The path of one object, or with `name/status` of its subresource.
    pub fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// A custom object with a name and a spec, not yet created.
    pub fn object(&self, name: &str, spec: Value) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version(), "kind": self.kind, "metadata": {"name": name},
        });
        if !spec.is_null() {
            object["spec"] = spec;
        }
        object
    }

    /// Waits until the definition is established and its objects can be listed.
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
