//! ControllerRevisions: named templates of StatefulSets and DaemonSets.

use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::client::Client;
use super::fields::{number, owner_reference};
use super::{REVISIONS, templates};

/// The label with the hash of a pod's template.
pub(super) const HASH: &str = "controller-revision-hash";

/// Returns the name of the revision of the current template.
pub(super) fn present(set: &Value) -> String {
    let hash = templates::hash(set.pointer("/spec/template").unwrap_or(&Value::Null));
    format!("{}-{hash}", meta::name(set))
}

/// Records the current template if it is new, and gives it the highest revision.
pub(super) async fn record(client: Client<'_>, set: &Value) -> Result<()> {
    let name = present(set);
    let known = client.owned(REVISIONS, set);
    let highest = known
        .iter()
        .map(|known| number(known, "/revision", 0))
        .max();
    let highest = highest.unwrap_or_default();
    if let Some(same) = known.iter().find(|known| meta::name(known) == name) {
        if number(same, "/revision", 0) == highest {
            return Ok(());
        }
        let key = Key::new(meta::namespace(set), &name);
        let raise = |object: &mut Value| object["revision"] = json!(highest + 1);
        return client.change(REVISIONS, &key, raise).await;
    }
    let mut template = set.pointer("/spec/template").cloned().unwrap_or_default();
    template["$patch"] = json!("replace");
    let labels = set.pointer("/spec/template/metadata/labels");
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": meta::namespace(set),
            "labels": labels.cloned().unwrap_or_else(|| json!({})),
            "ownerReferences": [owner_reference(set)],
        },
        "data": { "spec": { "template": template } },
        "revision": highest + 1,
    });
    templates::set_label(&mut object, HASH, &name);
    client.create(REVISIONS, object).await
}

/// Returns the template of a revision, or the current one if the revision does not exist.
pub(super) fn template(client: Client<'_>, set: &Value, name: &str) -> Value {
    let key = Key::new(meta::namespace(set), name);
    let recorded = client.get(REVISIONS, &key);
    let recorded = recorded
        .as_ref()
        .and_then(|it| it.pointer("/data/spec/template"));
    let mut template = recorded
        .or_else(|| set.pointer("/spec/template"))
        .cloned()
        .unwrap_or_default();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    template
}
