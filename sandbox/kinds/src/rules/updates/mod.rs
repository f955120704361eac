//! Changes of built-in objects that a real server rejects: immutable fields, and fields that can be
//! set once.

pub(crate) mod claims;
pub(crate) mod jobs;
pub(crate) mod pods;
pub(crate) mod volumes;

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::{Value, json};

use super::{field, items, text};

const IMMUTABLE: &str = "field is immutable";

/// An object before and after a change, and the errors of the change.
#[derive(Debug)]
pub struct Change<'a> {
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) errors: Vec<FieldError>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(new: &'a Value, old: &'a Value) -> Self {
        Self {
            new,
            old,
            errors: Vec::new(),
        }
    }

    /// Rejects a changed field. `at` is its path in the error.
    pub(crate) fn keep(&mut self, pointer: &str, at: &str) {
        self.keep_because(pointer, at, IMMUTABLE);
    }

    pub(crate) fn keep_because(&mut self, pointer: &str, at: &str, why: &str) {
        let (new, old) = (self.new.pointer(pointer), self.old.pointer(pointer));
        if differ(new, old) {
            let value = new.cloned().unwrap_or_default();
            self.errors.push(FieldError::invalid(at, &value, why));
        }
    }

    /// Rejects a changed field without its value.
    pub(crate) fn forbid(&mut self, pointer: &str, at: &str, why: &str) {
        if differ(self.new.pointer(pointer), self.old.pointer(pointer)) {
            self.errors.push(FieldError::forbidden(at, why));
        }
    }

    /// Rejects changes of a specification except for the listed fields.
    pub(crate) fn freeze_spec(&mut self, free: &[&str], why: &str) {
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

/// Rejects changes of an event of the new API, except for its series. The errors have the names of
/// fields in the old one.
pub(crate) fn event(change: &mut Change<'_>) {
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
pub(crate) fn sealed(change: &mut Change<'_>, data: &[&str]) {
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
pub(crate) fn service(change: &mut Change<'_>) {
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
pub(crate) fn node(change: &mut Change<'_>) {
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
pub(crate) fn quota_scopes(change: &mut Change<'_>) {
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
pub(crate) fn service_ranges(change: &mut Change<'_>) {
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
pub(crate) fn csi_node(change: &mut Change<'_>) {
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
