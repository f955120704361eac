//! Changes of persistent volumes.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Map, Value};

use super::{Change, IMMUTABLE, field};

/// Fields of a specification that are not the source of the volume.
const NO_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// Checks the change of a volume: its source, mode and affinity are immutable.
pub(crate) fn check(change: &mut Change<'_>) {
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    let (mut is, was) = (source(new), source(old));
    // The secret for expansions can be set once.
    let secret = "controllerExpandSecretRef";
    if was
        .get("csi")
        .is_some_and(|csi| field(csi, secret).is_null())
        && let Some(csi) = is.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove(secret);
    }
    if is != was {
        let why = "spec.persistentvolumesource is immutable after creation";
        let error = FieldError::forbidden("spec.persistentvolumesource", why);
        change.errors.push(error);
    }
    change.keep("/spec/volumeMode", "volumeMode");
    let (affinity, before) = (field(new, "nodeAffinity"), field(old, "nodeAffinity"));
    if !before.is_null() && modern(affinity) != modern(before) {
        let why = format!("{IMMUTABLE}, except for updating from beta label to GA");
        let error = FieldError::invalid("nodeAffinity", affinity, &why);
        change.errors.push(error);
    }
    let class = "volumeAttributesClassName";
    if !field(old, class).is_null() && field(new, class).is_null() {
        let why = "update from non-nil value to nil is forbidden";
        let error = FieldError::forbidden("spec.volumeAttributesClassName", why);
        change.errors.push(error);
    }
}

fn source(spec: &Value) -> Map<String, Value> {
    let fields = spec.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| !NO_SOURCE.contains(&&***name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns an affinity with the stable names of labels.
fn modern(affinity: &Value) -> Value {
    match affinity {
        Value::String(text) => Value::from(match &**text {
            "beta.kubernetes.io/os" => "kubernetes.io/os",
            "beta.kubernetes.io/arch" => "kubernetes.io/arch",
            "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
            "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
            "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
            other => other,
        }),
        Value::Array(items) => items.iter().map(modern).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (name.clone(), modern(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
