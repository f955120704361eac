//! Rows of volumes and their claims, and of the group `storage.k8s.io`.

use serde_json::{Value, json};

use super::object::Object;

pub(super) fn cells(kind: &str, object: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "PersistentVolume" => volume(object),
        "PersistentVolumeClaim" => claim(object),
        "StorageClass" => storage_class(object),
        "CSIDriver" => driver(object),
        "CSINode" => vec![
            object.name(),
            json!(object.size("/spec/drivers")),
            object.age(),
        ],
        "CSIStorageCapacity" => vec![
            object.name(),
            json!(object.text("/storageClassName")),
            json!(
                object
                    .printed("/capacity")
                    .unwrap_or_else(|| "<unset>".to_owned())
            ),
        ],
        "VolumeAttachment" => vec![
            object.name(),
            json!(object.text("/spec/attacher")),
            json!(object.text("/spec/source/persistentVolumeName")),
            json!(object.text("/spec/nodeName")),
            json!(object.is_true("/status/attached")),
            object.age(),
        ],
        "VolumeAttributesClass" => {
            vec![
                object.name(),
                json!(object.text("/driverName")),
                object.age(),
            ]
        }
        _ => return None,
    })
}

fn volume(object: Object<'_>) -> Vec<Value> {
    let claim = if object.has("/spec/claimRef") {
        format!(
            "{}/{}",
            object.text("/spec/claimRef/namespace"),
            object.text("/spec/claimRef/name")
        )
    } else {
        String::new()
    };
    vec![
        object.name(),
        json!(
            object
                .printed("/spec/capacity/storage")
                .unwrap_or_else(|| "0".to_owned())
        ),
        access_modes(object, "/spec/accessModes"),
        json!(object.text("/spec/persistentVolumeReclaimPolicy")),
        phase(object),
        json!(claim),
        class(object),
        json!(
            object
                .get("/spec/volumeAttributesClassName")
                .unwrap_or(&json!("<unset>"))
        ),
        json!(object.text("/status/reason")),
        object.age(),
        json!(object.get("/spec/volumeMode").unwrap_or(&json!("<unset>"))),
    ]
}

fn claim(object: Object<'_>) -> Vec<Value> {
    let volume = object.text("/spec/volumeName");
    // Until it is bound, the requested values do not apply.
    let (capacity, modes) = match volume {
        "" => (json!(""), json!("")),
        _ => (
            json!(
                object
                    .printed("/status/capacity/storage")
                    .unwrap_or_else(|| "0".to_owned())
            ),
            access_modes(object, "/status/accessModes"),
        ),
    };
    vec![
        object.name(),
        phase(object),
        json!(volume),
        capacity,
        modes,
        class(object),
        json!(
            object
                .get("/spec/volumeAttributesClassName")
                .unwrap_or(&json!("<unset>"))
        ),
        object.age(),
        json!(object.get("/spec/volumeMode").unwrap_or(&json!("<unset>"))),
    ]
}

fn phase(object: Object<'_>) -> Value {
    json!(if object.is_deleted() {
        "Terminating"
    } else {
        object.text("/status/phase")
    })
}

fn class(object: Object<'_>) -> Value {
    let annotated = object.annotation("volume.beta.kubernetes.io/storage-class");
    json!(annotated.unwrap_or_else(|| object.text("/spec/storageClassName")))
}

fn access_modes(object: Object<'_>, pointer: &str) -> Value {
    let modes = object.texts(pointer);
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = short.iter().filter(|(mode, _)| modes.contains(mode));
    json!(found.map(|(_, short)| *short).collect::<Vec<_>>().join(","))
}

fn storage_class(object: Object<'_>) -> Vec<Value> {
    let is_default = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .iter()
    .any(|key| object.annotation(key) == Some("true"));
    let suffix = if is_default { " (default)" } else { "" };
    vec![
        json!(format!("{}{suffix}", object.text("/metadata/name"))),
        json!(object.text("/provisioner")),
        json!(object.text_or("/reclaimPolicy", "Delete")),
        json!(object.text_or("/volumeBindingMode", "Immediate")),
        json!(object.is_true("/allowVolumeExpansion")),
        object.age(),
    ]
}

fn driver(object: Object<'_>) -> Vec<Value> {
    let modes = object.texts("/spec/volumeLifecycleModes").join(",");
    let tokens = if object.has("/spec/tokenRequests") {
        {
            let requests = object.items("/spec/tokenRequests");
            requests
                .map(|request| request.text("/audience"))
                .collect::<Vec<_>>()
                .join(",")
        }
    } else {
        "<unset>".to_owned()
    };
    vec![
        object.name(),
        json!(!object.has("/spec/attachRequired") || object.is_true("/spec/attachRequired")),
        json!(object.is_true("/spec/podInfoOnMount")),
        json!(object.is_true("/spec/storageCapacity")),
        json!(tokens),
        json!(object.is_true("/spec/requiresRepublish")),
        json!(if modes.is_empty() { "<none>" } else { &modes }),
        object.age(),
    ]
}
