//! Validation of the volumes of a pod.

use std::collections::BTreeSet;

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::names;
use serde_json::{Value, json};

use super::text;

/// The types of volumes in the order in which a real server checks them: all after the first one of
/// a volume are errors.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Checks the volumes of a pod. Returns their names.
pub(super) fn check<'a>(
    volumes: &'a [Value],
    path: &str,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (at, volume) in volumes.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
            continue;
        }
        for problem in names::label(name) {
            let at = format!("{path}.name");
            errors.push(FieldError::invalid(at, &json!(name), &problem));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
        }
        let sources = volume.as_object().into_iter().flatten();
        let mut sources: Vec<&str> = sources
            .filter(|(field, value)| *field != "name" && !value.is_null())
            .map(|(field, _)| &**field)
            .collect();
        sources.sort_by_key(|source| SOURCES.iter().position(|known| known == source));
        if sources.is_empty() {
            let why = "must specify a volume type";
            errors.push(FieldError::required(&*path, why));
        }
        for more in sources.iter().skip(1) {
            // Two names are misspelt by a real server.
            let name = match *more {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                name => name,
            };
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{path}.{name}"), why));
        }
    }
    seen
}
