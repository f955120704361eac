//! Validation of workloads: selectors, templates, numbers, schedules.

use std::collections::BTreeSet;

use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::{Value, json};

use super::{field, items, not_negative, one_of, pods, schedule, text};

const LONGEST_CRON_JOB_NAME: usize = 52;

/// Checks a workload of a kind.
pub(crate) fn check(plural: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(object, "spec");
    match plural {
        "cronjobs" => cron_job(spec, errors),
        "jobs" => job(spec, "spec", errors),
        _ => {
            for number in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
                // A real server does not check the history of StatefulSets.
                if plural != "statefulsets" || number != "revisionHistoryLimit" {
                    not_negative(spec, number, "spec", errors);
                }
            }
            selector(plural, spec, errors);
            let template = field(spec, "template");
            if plural == "statefulsets" {
                pods::check_template(&stateful_template(spec), "spec.template", errors);
            } else {
                pods::check_template(template, "spec.template", errors);
            }
            let policy = template.pointer("/spec/restartPolicy");
            if let Some(policy) = policy.filter(|policy| *policy != "Always" && *policy != "") {
                let at = "spec.template.spec.restartPolicy";
                errors.push(FieldError::not_supported(at, policy, &["Always"]));
            }
        }
    }
}

/// Returns the template of a StatefulSet as the controller completes it: with a volume for each
/// claim template, which replaces a volume of the same name, and without the host name and the
/// subdomain, which it overwrites.
fn stateful_template(spec: &Value) -> Value {
    let mut template = field(spec, "template").clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    pod.remove("hostname");
    pod.remove("subdomain");
    let claims: BTreeSet<&str> = items(spec, "volumeClaimTemplates")
        .iter()
        .map(meta::name)
        .collect();
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    let own = pod.get("volumes").and_then(Value::as_array);
    let own = own.into_iter().flatten();
    volumes.extend(
        own.filter(|volume| !claims.contains(text(volume, "name")))
            .cloned(),
    );
    pod.insert("volumes".to_owned(), volumes.into());
    template
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
        if plural != "daemonsets" {
            errors.push(FieldError::required("spec.selector", ""));
        }
        // An absent selector selects nothing.
        mismatch(errors);
        return;
    }
    let is_empty = ["matchLabels", "matchExpressions"].iter().all(|part| {
        let part = field(selector, part);
        part.as_object().is_none_or(serde_json::Map::is_empty)
            && part.as_array().is_none_or(Vec::is_empty)
    });
    if is_empty {
        // A real server names the wrong kind for ReplicaSets.
        let kind = match plural {
            "replicasets" => "deployment",
            _ => plural.trim_end_matches('s'),
        };
        let why = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid("spec.selector", selector, &why));
        return;
    }
    match LabelSelector::from_object(selector, "spec.selector") {
        Ok(selector) if !selector.matches(labels) => mismatch(errors),
        Ok(_) => {}
        Err(problems) => {
            errors.extend(problems);
            if plural != "daemonsets" {
                errors.push(unusable_selector(plural, selector));
            }
        }
    }
}

/// Returns the error of a selector that cannot be evaluated, in addition to its cause.
fn unusable_selector(plural: &str, selector: &Value) -> FieldError {
    if plural == "statefulsets" {
        let text = format!("Invalid value: {selector}");
        return FieldError::new(FieldErrorKind::Invalid, "spec.selector", text);
    }
    FieldError::invalid("spec.selector", selector, "invalid label selector")
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
    if text(spec, "completionMode") == "Indexed" && field(spec, "completions").is_null() {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{path}.completions"), why));
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

/// Checks the name of a new cron job, to which its jobs add a suffix of 11 characters.
pub(crate) fn check_new_cron_job(job: &Value, errors: &mut Vec<FieldError>) {
    let name = meta::name(job);
    if name.len() > LONGEST_CRON_JOB_NAME {
        let why = format!("must be no more than {LONGEST_CRON_JOB_NAME} characters");
        errors.push(FieldError::invalid("metadata.name", &json!(name), &why));
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
