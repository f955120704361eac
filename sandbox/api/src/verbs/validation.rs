//! Validation of objects before they are stored.

use kopf_sandbox_kinds::metadata;
use kopf_sandbox_kinds::strategy::Strategy;
use kopf_sandbox_schema::crd;
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::meta;
use serde_json::Value;

use super::Call;
use super::pod_parts::PodPart;
use crate::cluster::signing;
use crate::status::{ApiError, Result};

/// Validates an object before it is stored.
pub(crate) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    let kind = &call.kind;
    let mut errors = metadata::problems(kind, object);
    let strategy = Strategy::of(kind);
    errors.extend(strategy.problems(object, call.is_status(), old.is_none()));
    if old.is_none() {
        errors.extend(signing::problems(kind, object));
    }
    if let Some(old) = old {
        errors.extend(signing::update_problems(kind, object, old));
        errors.extend(metadata::update_problems(object, old));
        errors.extend(match PodPart::of(call) {
            Some(part) => part.problems(object, old),
            // The only request that may set the node.
            None if call.subresource.as_deref() == Some("binding") => Vec::new(),
            None => strategy.change_problems(object, old),
        });
    }
    errors.extend(schema_problems(call, object, old)?);
    errors.extend(configuration_problems(call, object, old));
    if errors.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid(kind, meta::name(object), &errors))
    }
}

/// Validates a custom resource by its schema.
fn schema_problems(call: &Call, object: &Value, old: Option<&Value>) -> Result<Vec<FieldError>> {
    let mut errors = Vec::new();
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
            errors.extend(crd::validate_scale(paths, object, call.is_status()));
        }
        for warning in metadata::finalizer_warnings(object, old) {
            call.warn(warning);
        }
    }
    Ok(errors)
}

/// Validates CRDs and the configurations of admission.
fn configuration_problems(call: &Call, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = &call.kind;
    match (&*kind.group, &*kind.plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            errors.extend(match old {
                Some(_) if call.is_status() => crd::validate_status(object),
                Some(old) => crd::validate_update(object, old),
                None => crd::validate(object),
            });
            for warning in crd::warnings(object, old) {
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
    errors
}
