//! Kind-specific steps before an object is stored, and its validation.

use serde_json::{Value, json};

use super::pod_parts::PodPart;
use super::{Call, builtin_rules, certificates};
use crate::kinds::Kind;
use crate::object::{meta, metadata_rules};
use crate::status::{ApiError, Result};

/// The finalizer of the namespace controller in `spec.finalizers`.
const KUBERNETES: &str = "kubernetes";

/// Returns `true` if the status of a new object is dropped. Nodes report theirs when they register.
pub(crate) fn drops_status(kind: &Kind) -> bool {
    kind.is_custom() || &*kind.plural != "nodes"
}

/// Sets kind-specific defaults of a new object, which its creator owns.
pub(crate) fn default_on_create(kind: &Kind, object: &mut Value) {
    match (&*kind.group, &*kind.plural) {
        ("", "namespaces") if !meta::name(object).is_empty() => {
            let name = meta::name(object).to_owned();
            let metadata = meta::metadata(object);
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
        }
        ("apps", "daemonsets") => {
            if let Some(object) = object.as_object_mut() {
                crate::typing::creation::daemon_set(object);
            }
        }
        _ => {}
    }
}

/// Completes a new object.
pub(crate) fn on_create(kind: &Kind, object: &mut Value) {
    match (&*kind.group, &*kind.plural) {
        ("", "namespaces") => {
            let name = meta::name(object).to_owned();
            let metadata = meta::metadata(object);
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
            let finalizers = meta::entry(object, "spec").entry("finalizers");
            let finalizers = finalizers.or_insert_with(|| json!([]));
            if let Some(finalizers) = finalizers.as_array_mut()
                && !finalizers.contains(&json!(KUBERNETES))
            {
                finalizers.push(json!(KUBERNETES));
            }
            meta::entry(object, "status").insert("phase".to_owned(), json!("Active"));
        }
        ("", "persistentvolumes" | "persistentvolumeclaims") => {
            meta::entry(object, "status").insert("phase".to_owned(), json!("Pending"));
        }
        ("", "services") => {
            meta::entry(object, "status")
                .entry("loadBalancer")
                .or_insert_with(|| json!({}));
            crate::typing::creation::assign("", &kind.kind, object);
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            crate::crd::default(object);
            crate::crd::prepare_create(object);
        }
        (group, _) => crate::typing::creation::assign(group, &kind.kind, object),
    }
}

/// Completes a changed object.
pub(crate) fn on_update(call: &Call, current: &Value, object: &mut Value) {
    match (&*call.kind.group, &*call.kind.plural) {
        ("", "namespaces") => {
            let name = meta::name(current).to_owned();
            let metadata = meta::metadata(object);
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
            if call.subresource.as_deref() != Some("finalize") {
                let spec = current.get("spec").cloned();
                object["spec"] = spec.unwrap_or_else(|| json!({}));
            }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            crate::crd::default(object);
            crate::crd::prepare_update(object, current);
        }
        ("", "pods") => {
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                for field in ["priority", "preemptionPolicy"] {
                    if let Some(value) = current.pointer(&format!("/spec/{field}")) {
                        spec.entry(field).or_insert_with(|| value.clone());
                    }
                }
                crate::typing::creation::raise_grace_period(spec);
                crate::typing::creation::add_tolerations(spec);
            }
        }
        _ => {}
    }
}

/// Validates an object before it is stored.
pub(crate) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    let kind = &call.kind;
    let mut errors = metadata_rules::problems(kind, object);
    errors.extend(builtin_rules::problems(kind, object));
    if !call.is_status() {
        errors.extend(crate::rules::problems(kind, object));
    }
    if old.is_none() {
        errors.extend(crate::rules::create_problems(kind, object));
        errors.extend(certificates::problems(kind, object));
    }
    if let Some(old) = old {
        errors.extend(certificates::update_problems(kind, object, old));
        errors.extend(metadata_rules::update_problems(object, old));
        errors.extend(match PodPart::of(call) {
            Some(part) => part.problems(object, old),
            // The only request that may set the node.
            None if call.subresource.as_deref() == Some("binding") => Vec::new(),
            None => crate::rules::updates::problems(kind, object, old),
        });
    }
    let version = call.kind_version()?;
    if let Some(schema) = &version.schema {
        let verdict = match old {
            Some(old) if call.is_status() => schema.validate_status(object, old),
            old => schema.validate(object, old),
        };
        errors.extend(verdict.errors);
        for warning in verdict.warnings {
            call.warn(warning);
        }
        if let Some(paths) = &version.scale {
            errors.extend(crate::crd::validate_scale(paths, object, call.is_status()));
        }
        for warning in metadata_rules::finalizer_warnings(object, old) {
            call.warn(warning);
        }
    }
    match (&*kind.group, &*kind.plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            match old {
                Some(_) if call.is_status() => errors.extend(crate::crd::validate_status(object)),
                Some(old) => errors.extend(crate::crd::validate_update(object, old)),
                None => errors.extend(crate::crd::validate(object)),
            }
            for warning in crate::crd::warnings(object, old) {
                call.warn(warning);
            }
        }
        ("admissionregistration.k8s.io", _) => {
            errors.extend(crate::admission::configuration_problems(
                &kind.plural,
                object,
            ));
        }
        _ => {}
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(kind, meta::name(object), &errors))
    }
}
