//! Rows of the groups about access and of those with one or two kinds: `rbac`, `admissionregistration`,
//! `coordination`, `scheduling`, `node`, `certificates`.

use serde_json::{Value, json};

use super::object::Object;

pub(super) fn cells(kind: &str, object: Object<'_>) -> Option<Vec<Value>> {
    let text = |pointer: &str| json!(object.text(pointer));
    Some(match kind {
        "RoleBinding" | "ClusterRoleBinding" => {
            let role = format!(
                "{}/{}",
                object.text("/roleRef/kind"),
                object.text("/roleRef/name")
            );
            vec![
                object.name(),
                json!(role),
                object.age(),
                subjects(object, "User"),
                subjects(object, "Group"),
                subjects(object, "ServiceAccount"),
            ]
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![object.name(), json!(object.size("/webhooks")), object.age()]
        }
        "Lease" => vec![object.name(), text("/spec/holderIdentity"), object.age()],
        "PriorityClass" => vec![
            object.name(),
            json!(object.integer("/value")),
            json!(object.is_true("/globalDefault")),
            object.age(),
            text("/preemptionPolicy"),
        ],
        "RuntimeClass" => vec![object.name(), text("/handler"), object.age()],
        _ => return None,
    })
}

fn subjects(object: Object<'_>, kind: &str) -> Value {
    let of_kind = object
        .items("/subjects")
        .filter(|subject| subject.text("/kind") == kind);
    let names: Vec<String> = of_kind
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("/namespace"), subject.text("/name")),
            _ => subject.text("/name").to_owned(),
        })
        .collect();
    json!(names.join(", "))
}
