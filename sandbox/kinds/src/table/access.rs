//! Rows of access control and of small groups: `rbac`, `admissionregistration`, `coordination`,
//! `scheduling`, `node`, `certificates`.

use serde_json::{Value, json};

use super::duration::human;
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
        "CertificateSigningRequest" => {
            let duration = if object.has("/spec/expirationSeconds") {
                human(object.integer("/spec/expirationSeconds"))
            } else {
                "<none>".to_owned()
            };
            vec![
                object.name(),
                object.age(),
                text("/spec/signerName"),
                text("/spec/username"),
                json!(duration),
                json!(request_state(object)),
            ]
        }
        "RuntimeClass" => vec![object.name(), text("/handler"), object.age()],
        _ => return None,
    })
}

/// Returns the state of a certificate signing request.
fn request_state(object: Object<'_>) -> String {
    let has = |kind: &str| {
        object
            .items("/status/conditions")
            .any(|c| c.text("/type") == kind)
    };
    let mut state = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !object.text("/status/certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
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
