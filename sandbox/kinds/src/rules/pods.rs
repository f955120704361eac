//! Validation of pods and pod templates.

use std::sync::LazyLock;

use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::object::{label_rules, names};
use regex::Regex;
use serde_json::Value;

use super::{containers, field, items, one_of, text, tolerations, volumes};

const LONGEST_HOSTNAME_OVERRIDE: usize = 64;

/// Checks a pod template.
pub(crate) fn check_template(template: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let labels = template.pointer("/metadata/labels");
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{path}.labels");
        for problem in label_rules::label_key_errors(key) {
            errors.push(FieldError::invalid(&*at, &Value::from(&**key), &problem));
        }
        for problem in label_rules::label_value_errors(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(&*at, value, &problem));
        }
    }
    let (spec, path) = (field(template, "spec"), format!("{path}.spec"));
    check(spec, &path, Origin::Template, errors);
    if !items(spec, "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        let at = format!("{path}.ephemeralContainers");
        errors.push(FieldError::forbidden(at, why));
    }
}

/// Checks what only applies to new pods.
pub(crate) fn check_new(pod: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(pod, "spec");
    if !items(spec, "ephemeralContainers").is_empty() {
        let why = "cannot be set on create";
        errors.push(FieldError::forbidden("spec.ephemeralContainers", why));
    }
    if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", why));
    }
}

/// The place of a specification: some rules only apply to pods themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Pod,
    Template,
}

/// Checks the specification of a pod.
pub(crate) fn check(spec: &Value, path: &str, origin: Origin, errors: &mut Vec<FieldError>) {
    let volumes = volumes::check(items(spec, "volumes"), &format!("{path}.volumes"), errors);
    containers::check(spec, path, origin, &volumes, errors);
    one_of(
        spec,
        "restartPolicy",
        path,
        &["Always", "OnFailure", "Never"],
        errors,
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", path, &policies, errors);
    if let Some(deadline) = field(spec, "activeDeadlineSeconds").as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let at = format!("{path}.activeDeadlineSeconds");
        let value = field(spec, "activeDeadlineSeconds");
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(at, value, why));
    }
    sysctls(spec, path, errors);
    hostname_override(spec, path, errors);
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            for problem in names::label(value) {
                errors.push(FieldError::invalid(
                    format!("{path}.{name}"),
                    &Value::from(value),
                    &problem,
                ));
            }
        }
    }
    for (at, toleration) in items(spec, "tolerations").iter().enumerate() {
        tolerations::check(toleration, &format!("{path}.tolerations[{at}]"), errors);
    }
}

fn sysctls(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const PATTERN: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
    static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());
    let mut seen = Vec::new();
    for (at, sysctl) in items(field(spec, "securityContext"), "sysctls")
        .iter()
        .enumerate()
    {
        let at = format!("{path}.securityContext.sysctls[{at}].name");
        let name = text(sysctl, "name");
        let fits = name.len() <= 253 && NAME.as_ref().is_some_and(|it| it.is_match(name));
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if !fits {
            let why = format!("must have at most 253 characters and match regex {PATTERN}");
            errors.push(FieldError::invalid(at, &Value::from(name), &why));
        } else if seen.contains(&name) {
            errors.push(FieldError::duplicate(at, &Value::from(name)));
        }
        seen.push(name);
    }
}

fn hostname_override(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(name) = field(spec, "hostnameOverride").as_str() else {
        return;
    };
    let at = format!("{path}.hostnameOverride");
    for flag in ["setHostnameAsFQDN", "hostNetwork"] {
        if field(spec, flag) == &Value::Bool(true) {
            let why = format!("may not be specified when {flag} is true");
            errors.push(FieldError::forbidden(&*at, &why));
        }
    }
    if name.len() > LONGEST_HOSTNAME_OVERRIDE {
        let why = format!("Too long: may not be more than {LONGEST_HOSTNAME_OVERRIDE} bytes");
        errors.push(FieldError::new(FieldErrorKind::TooLong, &*at, why));
    }
    for problem in names::subdomain(name) {
        errors.push(FieldError::invalid(&*at, &Value::from(name), &problem));
    }
}
