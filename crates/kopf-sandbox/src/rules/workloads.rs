//! Validation of workloads: selectors, templates, numbers, schedules.

use serde_json::{Value, json};

use super::{field, not_negative, one_of, pods, schedule, text};
use crate::field_error::FieldError;
use crate::selectors::LabelSelector;

/// Checks a workload of a kind.
pub(super) fn check(plural: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(object, "spec");
    match plural {
        "cronjobs" => cron_job(spec, errors),
        "jobs" => job(spec, "spec", errors),
        _ => {
            for number in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
                not_negative(spec, number, "spec", errors);
            }
            selector(plural, spec, errors);
            let template = field(spec, "template");
            pods::check_template(template, "spec.template", errors);
            let policy = template.pointer("/spec/restartPolicy");
            if let Some(policy) = policy.filter(|policy| *policy != "Always" && *policy != "") {
                let at = "spec.template.spec.restartPolicy";
                errors.push(FieldError::not_supported(at, policy, &["Always"]));
            }
        }
    }
}

/// Checks that a selector is present and selects the pods of the template.
fn selector(plural: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let labels = spec.pointer("/template/metadata/labels");
    let mismatch = |errors: &mut Vec<FieldError>| {
        let shown = labels.cloned().unwrap_or(Value::Null);
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            &shown,
            why,
        ));
    };
    let selector = field(spec, "selector");
    if plural == "replicationcontrollers" {
        let wanted = selector.as_object();
        if wanted.is_none_or(serde_json::Map::is_empty) {
            errors.push(FieldError::required("spec.selector", ""));
        } else if let Some(wanted) = wanted
            && wanted
                .iter()
                .any(|(key, value)| labels.and_then(|labels| labels.get(key)) != Some(value))
        {
            mismatch(errors);
        }
        return;
    }
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    }
    let is_empty = ["matchLabels", "matchExpressions"].iter().all(|part| {
        let part = field(selector, part);
        part.as_object().is_none_or(serde_json::Map::is_empty)
            && part.as_array().is_none_or(Vec::is_empty)
    });
    if is_empty {
        let kind = plural.trim_end_matches('s');
        let why = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid("spec.selector", selector, &why));
        return;
    }
    match LabelSelector::from_object(selector, "spec.selector") {
        Ok(selector) if !selector.matches(labels) => mismatch(errors),
        Ok(_) => {}
        Err(problems) => errors.extend(problems),
    }
}

fn job(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for number in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        not_negative(spec, number, path, errors);
    }
    let template = field(spec, "template");
    pods::check_template(template, &format!("{path}.template"), errors);
    let policy = template.pointer("/spec/restartPolicy");
    if let Some(policy) =
        policy.filter(|policy| !matches!(policy.as_str(), Some("OnFailure" | "Never")))
    {
        let at = format!("{path}.template.spec.restartPolicy");
        if *policy == "Always" || *policy == "" {
            let why = "valid values: \"OnFailure\", \"Never\"";
            errors.push(FieldError::required(at, why));
        }
    }
}

fn cron_job(spec: &Value, errors: &mut Vec<FieldError>) {
    let given = text(spec, "schedule");
    if given.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if let Err(why) = schedule::check(given) {
        errors.push(FieldError::invalid("spec.schedule", &json!(given), &why));
    }
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(spec, "concurrencyPolicy", "spec", &policies, errors);
    for number in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        not_negative(spec, number, "spec", errors);
    }
    let template = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    job(template, "spec.jobTemplate.spec", errors);
}
