//! Changes of built-in objects that a real server rejects: immutable fields, and fields that can be
//! set once.

mod claims;
mod jobs;
mod pods;
mod volumes;

use serde_json::{Value, json};

use super::{field, items, text};
use crate::field_error::FieldError;
use crate::kinds::Kind;

const IMMUTABLE: &str = "field is immutable";

/// Returns the errors of the change of an object of a built-in kind, in the order of a real server.
pub(crate) fn problems(kind: &Kind, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut change = Change::new(object, old);
    match &*kind.group {
        "" => core(&kind.plural, &mut change),
        "storage.k8s.io" => storage(&kind.plural, &mut change),
        "networking.k8s.io" => networking(&kind.plural, &mut change),
        group => others(group, &kind.plural, &mut change),
    }
    change.errors
}

/// An object before and after a change, and the errors of the change.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
    errors: Vec<FieldError>,
}

impl<'a> Change<'a> {
    fn new(new: &'a Value, old: &'a Value) -> Self {
        Self {
            new,
            old,
            errors: Vec::new(),
        }
    }

    /// Rejects a changed field. `at` is its path in the error.
    fn keep(&mut self, pointer: &str, at: &str) {
        self.keep_because(pointer, at, IMMUTABLE);
    }

    fn keep_because(&mut self, pointer: &str, at: &str, why: &str) {
        let (new, old) = (self.new.pointer(pointer), self.old.pointer(pointer));
        if differ(new, old) {
            let value = new.cloned().unwrap_or_default();
            self.errors.push(FieldError::invalid(at, &value, why));
        }
    }

    /// Rejects a changed field without its value.
    fn forbid(&mut self, pointer: &str, at: &str, why: &str) {
        if differ(self.new.pointer(pointer), self.old.pointer(pointer)) {
            self.errors.push(FieldError::forbidden(at, why));
        }
    }

    /// Rejects changes of a specification except for the listed fields.
    fn freeze_spec(&mut self, free: &[&str], why: &str) {
        let rest = |object: &Value| {
            let mut spec = field(object, "spec").clone();
            if let Some(spec) = spec.as_object_mut() {
                spec.retain(|name, _| !free.contains(&&**name));
            }
            spec
        };
        if rest(self.new) != rest(self.old) {
            self.errors.push(FieldError::forbidden("spec", why));
        }
    }
}

/// Compares two fields. As on a real server, absent and empty collections are equal.
fn differ(new: Option<&Value>, old: Option<&Value>) -> bool {
    let present = |value: &&Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    new.filter(present) != old.filter(present)
}

fn core(plural: &str, change: &mut Change<'_>) {
    match plural {
        "secrets" => {
            change.keep("/type", "type");
            sealed(change, &["data"]);
        }
        "configmaps" => sealed(change, &["data", "binaryData"]),
        "pods" => pods::check(change),
        "persistentvolumeclaims" => claims::check(change),
        "persistentvolumes" => volumes::check(change),
        "services" => service(change),
        "nodes" => node(change),
        "resourcequotas" => quota_scopes(change),
        _ => {}
    }
}

fn storage(plural: &str, change: &mut Change<'_>) {
    match plural {
        "storageclasses" => {
            for name in [
                "parameters",
                "provisioner",
                "reclaimPolicy",
                "volumeBindingMode",
            ] {
                change.keep(&format!("/{name}"), name);
            }
        }
        "csidrivers" => {
            // The path is misspelt by a real server.
            change.keep("/spec/attachRequired", "spec.attachedRequired");
            change.keep("/spec/volumeLifecycleModes", "spec.volumeLifecycleModes");
        }
        "csinodes" => csi_node(change),
        "csistoragecapacities" => {
            change.keep("/nodeTopology", "nodeTopology");
            change.keep("/storageClassName", "storageClassName");
        }
        "volumeattachments" => change.keep("/spec", "spec"),
        "volumeattributesclasses" => {
            for name in ["driverName", "parameters"] {
                let why = format!("updates to {name} are forbidden.");
                change.forbid(&format!("/{name}"), name, &why);
            }
        }
        _ => {}
    }
}

fn networking(plural: &str, change: &mut Change<'_>) {
    match plural {
        "ingressclasses" => change.keep("/spec/controller", "spec.controller"),
        "ipaddresses" => change.keep("/spec/parentRef", "spec.parentRef"),
        "servicecidrs" => service_ranges(change),
        _ => {}
    }
}

fn others(group: &str, plural: &str, change: &mut Change<'_>) {
    match (group, plural) {
        ("apps", "deployments" | "daemonsets" | "replicasets") => {
            change.keep("/spec/selector", "spec.selector");
        }
        ("apps", "statefulsets") => change.freeze_spec(
            &[
                "replicas",
                "ordinals",
                "template",
                "updateStrategy",
                "revisionHistoryLimit",
                "persistentVolumeClaimRetentionPolicy",
                "minReadySeconds",
            ],
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ),
        ("apps", "controllerrevisions") => change.keep("/data", "data"),
        ("batch", "jobs") => change.errors.extend(jobs::problems(change.new, change.old)),
        ("events.k8s.io", "events") => event(change),
        ("discovery.k8s.io", "endpointslices") => change.keep("/addressType", "addressType"),
        ("node.k8s.io", "runtimeclasses") => change.keep("/handler", "handler"),
        ("scheduling.k8s.io", "priorityclasses") => {
            change.forbid("/value", "value", "may not be changed in an update.");
            change.keep("/preemptionPolicy", "preemptionPolicy");
        }
        ("resource.k8s.io", "resourceclaims" | "resourceclaimtemplates") => {
            change.keep("/spec", "spec");
        }
        ("resource.k8s.io", "resourceslices") => {
            for name in ["driver", "pool/name", "nodeName"] {
                let at = format!("spec.{}", name.replace('/', "."));
                change.keep(&format!("/spec/{name}"), &at);
            }
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            change.keep_because("/roleRef", "roleRef", "cannot change roleRef");
        }
        _ => {}
    }
}

/// Rejects changes of an event of the new API, except for its series. The errors have the names of
/// fields in the old one.
fn event(change: &mut Change<'_>) {
    for (name, at) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        change.keep(&format!("/{name}"), at);
    }
}

/// Rejects changes of the data of an immutable ConfigMap or Secret.
fn sealed(change: &mut Change<'_>, data: &[&str]) {
    let why = "field is immutable when `immutable` is set";
    if field(change.old, "immutable") != &Value::Bool(true) {
        return;
    }
    change.forbid("/immutable", "immutable", why);
    for name in data {
        change.forbid(&format!("/{name}"), name, why);
    }
}

/// Rejects another address of a service that has one and keeps one.
fn service(change: &mut Change<'_>) {
    let address = |object: &Value| text(field(object, "spec"), "clusterIP").to_owned();
    let external = |object: &Value| text(field(object, "spec"), "type") == "ExternalName";
    let (was, is) = (address(change.old), address(change.new));
    let is_external = external(change.old) || external(change.new);
    if !is_external && was != is && !was.is_empty() && !is.is_empty() {
        let why = "may not change once set";
        let error = FieldError::invalid("spec.clusterIPs[0]", &json!([is]), why);
        change.errors.push(error);
    }
}

/// Checks the ranges of pod addresses and the id of a node, which can be set once.
fn node(change: &mut Change<'_>) {
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    let (is, was) = (items(new, "podCIDRs"), items(old, "podCIDRs"));
    let changes = match was.len() {
        0 => 0,
        length if length != is.len() => 1,
        _ => was.iter().zip(is).filter(|(was, is)| was != is).count(),
    };
    for _ in 0..changes {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        let error = FieldError::forbidden("spec.podCIDRs", why);
        change.errors.push(error);
    }
    let was = text(old, "providerID");
    if !was.is_empty() && was != text(new, "providerID") {
        let why = "node updates may not change providerID except from \"\" to valid";
        let error = FieldError::forbidden("spec.providerID", why);
        change.errors.push(error);
    }
}

/// Compares the scopes of a quota as sets.
fn quota_scopes(change: &mut Change<'_>) {
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    let (new, old) = (items(new, "scopes"), items(old, "scopes"));
    let same =
        new.iter().all(|scope| old.contains(scope)) && old.iter().all(|scope| new.contains(scope));
    if !same {
        let shown = change.new.pointer("/spec/scopes").cloned();
        let error = FieldError::invalid("spec.scopes", &shown.unwrap_or_default(), IMMUTABLE);
        change.errors.push(error);
    }
}

/// Checks the ranges of services: the second one can be added.
fn service_ranges(change: &mut Change<'_>) {
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    let (is, was) = (items(new, "cidrs"), items(old, "cidrs"));
    if was.len() != is.len() && (was.len(), is.len()) != (1, 2) {
        let error = FieldError::invalid("spec.cidrs", field(new, "cidrs"), IMMUTABLE);
        change.errors.push(error);
        return;
    }
    for (at, (was, is)) in was.iter().zip(is).enumerate() {
        if was != is {
            let error = FieldError::invalid(format!("spec.cidrs[{at}]"), is, IMMUTABLE);
            change.errors.push(error);
        }
    }
}

/// Rejects changes of drivers that stay on a node, except for their number of volumes.
fn csi_node(change: &mut Change<'_>) {
    let identity = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(driver) = driver.as_object_mut() {
            driver.remove("allocatable");
        }
        driver
    };
    let (new, old) = (field(change.new, "spec"), field(change.old, "spec"));
    for was in items(old, "drivers") {
        for is in items(new, "drivers") {
            let same = text(was, "name") == text(is, "name");
            if same && identity(was) != identity(is) {
                let error = FieldError::invalid("spec.drivers", &identity(is), IMMUTABLE);
                change.errors.push(error);
            }
        }
    }
}
