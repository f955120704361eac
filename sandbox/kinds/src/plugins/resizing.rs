//! Growth of volume claims: only those of a class that permits it.

use kopf_sandbox_schema::typing::quantity;
use serde_json::Value;

use super::{Rejected, text};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the name of the class of a claim.
pub fn class(claim: &Value) -> &str {
    let annotation = claim
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(CLASS_ANNOTATION)?.as_str());
    annotation.unwrap_or_else(|| text(claim, "/spec/storageClassName"))
}

/// Checks the change of a claim. `stored` is the class of the new claim, if it exists.
pub fn check(claim: &Value, old: &Value, stored: Option<&Value>) -> Result<(), Rejected> {
    let size = |claim: &Value| {
        quantity::nanos(text(claim, "/spec/resources/requests/storage")).unwrap_or_default()
    };
    if size(claim) <= size(old) {
        return Ok(());
    }
    if text(old, "/status/phase") != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".to_owned());
    }
    let expands = stored.is_some_and(|stored| stored["allowVolumeExpansion"] == true);
    if class(claim) != class(old) || !expands {
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        return Err(why.to_owned());
    }
    Ok(())
}
