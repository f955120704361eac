//! Validation of webhook configurations, with the messages of the real server.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::names;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::{Value, json};

use super::binding_validation::binding_problems;
use super::conditions;
use super::configuration::list;
use super::endpoint::Endpoint;
use super::policy_types;
use super::policy_validation::policy_problems;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const URL_FORM: &str = "; desired format: https://host[/path]";

/// Returns the validation errors of a configuration of the given plural, except those of its
/// metadata. Requires that defaults are set. Other kinds have no errors.
pub fn configuration_problems(plural: &str, configuration: &Value) -> Vec<FieldError> {
    let mutating = match plural {
        "mutatingwebhookconfigurations" => true,
        "validatingwebhookconfigurations" => false,
        "validatingadmissionpolicies" => return policy_problems(configuration, false),
        "mutatingadmissionpolicies" => return policy_problems(configuration, true),
        "validatingadmissionpolicybindings" => return binding_problems(configuration, false),
        "mutatingadmissionpolicybindings" => return binding_problems(configuration, true),
        _ => return Vec::new(),
    };
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (index, webhook) in list(configuration.get("webhooks")).iter().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = str_of(webhook.get("name"));
        check_webhook(webhook, &path, mutating, &mut errors);
        check_review_versions(webhook, &path, &mut errors);
        if !name.is_empty() {
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
            }
            names.push(name);
        }
    }
    errors
}

fn check_webhook(webhook: &Value, path: &str, mutating: bool, errors: &mut Vec<FieldError>) {
    check_name(str_of(webhook.get("name")), &format!("{path}.name"), errors);
    for (index, rule) in list(webhook.get("rules")).iter().enumerate() {
        check_rule(rule, &format!("{path}.rules[{index}]"), errors);
    }
    one_of(webhook, path, "failurePolicy", &["Fail", "Ignore"], errors);
    one_of(
        webhook,
        path,
        "matchPolicy",
        &["Equivalent", "Exact"],
        errors,
    );
    if present(webhook, "sideEffects").is_none() {
        let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(FieldError::required(format!("{path}.sideEffects"), &detail));
    }
    one_of(webhook, path, "sideEffects", &SIDE_EFFECTS, errors);
    if let Some(timeout) = present(webhook, "timeoutSeconds")
        && !timeout
            .as_i64()
            .is_some_and(|seconds| (1..=30).contains(&seconds))
    {
        errors.push(FieldError::invalid(
            format!("{path}.timeoutSeconds"),
            timeout,
            "the timeout value must be between 1 and 30 seconds",
        ));
    }
    check_selectors(webhook, path, errors);
    if mutating {
        one_of(
            webhook,
            path,
            "reinvocationPolicy",
            &["IfNeeded", "Never"],
            errors,
        );
    }
    check_client(
        webhook.get("clientConfig").unwrap_or(&Value::Null),
        path,
        errors,
    );
    errors.extend(conditions::problems(
        webhook.get("matchConditions"),
        &format!("{path}.matchConditions"),
        &policy_types::common(),
    ));
}

fn check_selectors(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = present(object, field)
            && let Err(found) = LabelSelector::from_object(selector, &format!("{path}.{field}"))
        {
            errors.extend(found);
        }
    }
}

fn check_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = names::subdomain(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, &json!(name), &problems.join(",")));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, &json!(name), why));
    }
}

fn check_review_versions(webhook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.admissionReviewVersions");
    let accepted = REVIEW_VERSIONS.join(", ");
    let versions = list(webhook.get("admissionReviewVersions"));
    if versions.is_empty() {
        errors.push(FieldError::required(
            path,
            &format!("must specify one of {accepted}"),
        ));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if versions
            .iter()
            .take(index)
            .any(|earlier| earlier == version)
        {
            errors.push(FieldError::invalid(path, version, "duplicate version"));
            continue;
        }
        for problem in names::label_1035(version.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path.clone(), version, &problem));
        }
    }
    let known = |version: &Value| REVIEW_VERSIONS.contains(&version.as_str().unwrap_or_default());
    if !versions.iter().any(known) {
        let why = format!("must include at least one of {accepted}");
        errors.push(FieldError::invalid(path, &json!(versions), &why));
    }
}

/// Checks the rules and selectors of a policy or binding.
pub(super) fn check_constraints(constraints: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(constraints.get(field)).iter().enumerate() {
            check_rule(rule, &format!("{path}.{field}[{index}]"), errors);
        }
    }
    let supported = ["Equivalent", "Exact"];
    one_of(constraints, path, "matchPolicy", &supported, errors);
    check_selectors(constraints, path, errors);
}

fn check_rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_list(rule, path, "operations", "operations", errors);
    for (index, operation) in list(rule.get("operations")).iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
            let path = format!("{path}.operations[{index}]");
            errors.push(FieldError::not_supported(path, operation, &OPERATIONS));
        }
    }
    check_list(rule, path, "apiGroups", "API groups", errors);
    check_list(rule, path, "apiVersions", "API versions", errors);
    for (index, version) in list(rule.get("apiVersions")).iter().enumerate() {
        if version.as_str().is_none_or(str::is_empty) {
            errors.push(FieldError::required(
                format!("{path}.apiVersions[{index}]"),
                "",
            ));
        }
    }
    check_resources(
        list(rule.get("resources")),
        &format!("{path}.resources"),
        errors,
    );
    one_of(rule, path, "scope", &["*", "Cluster", "Namespaced"], errors);
}

/// Checks that a list has items, and that `*` is its only item if present.
fn check_list(rule: &Value, path: &str, field: &str, what: &str, errors: &mut Vec<FieldError>) {
    let items = list(rule.get(field));
    let path = format!("{path}.{field}");
    if items.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if items.len() > 1 && items.iter().any(|item| item == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, &json!(items), &why));
    }
}

fn check_resources(resources: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut with_any_sub, mut subs_of_any) = (Vec::new(), Vec::new());
    // Like the real server, this checks only the last resource without a subresource.
    let mut has_plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let text = resource.as_str().unwrap_or_default();
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some((main, sub)) = text.split_once('/') else {
            has_plain = text != "*";
            continue;
        };
        if with_any_sub.contains(&main) {
            let why = format!("if '{main}/*' is present, must not specify {text}");
            errors.push(FieldError::invalid(path.clone(), resource, &why));
        }
        if subs_of_any.contains(&sub) {
            let why = format!("if '*/{sub}' is present, must not specify {text}");
            errors.push(FieldError::invalid(path, resource, &why));
        }
        if sub == "*" {
            with_any_sub.push(main);
        }
        if main == "*" {
            subs_of_any.push(sub);
        }
    }
    if resources.len() > 1 && resources.iter().any(|resource| resource == "*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, &json!(resources), why));
    }
    if has_plain && resources.iter().any(|resource| resource == "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &json!(resources), why));
    }
}

fn check_client(client: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.clientConfig");
    match (present(client, "url"), present(client, "service")) {
        (Some(url), None) => {
            check_url(
                url.as_str().unwrap_or_default(),
                &format!("{path}.url"),
                errors,
            );
        }
        (None, Some(service)) => check_service(service, &format!("{path}.service"), errors),
        _ => errors.push(FieldError::required(
            path,
            "exactly one of url or service is required",
        )),
    }
}

fn check_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    let url = match Endpoint::parse(url) {
        Ok(url) => url,
        Err(why) => {
            let detail = format!("url must be a valid URL: {why}{URL_FORM}");
            errors.push(FieldError::required(path, &detail));
            return;
        }
    };
    let mut wrong = |value: &str, why: &str| {
        errors.push(FieldError::invalid(path, &json!(value), why));
    };
    if url.scheme != "https" {
        wrong(
            &url.scheme,
            &format!("'https' is the only allowed URL scheme{URL_FORM}"),
        );
    }
    if url.host.is_empty() && url.port.is_none() {
        wrong("", &format!("host must be specified{URL_FORM}"));
    }
    if let Some(user) = &url.user {
        wrong(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        wrong(&url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        wrong(&url.query, "query parameters are not permitted in the URL");
    }
}

fn check_service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    // The real server swaps these two field names.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if str_of(service.get(field)).is_empty() {
            errors.push(FieldError::required(format!("{path}.{reported}"), ""));
        }
    }
    if let Some(port) = present(service, "port")
        && !port
            .as_i64()
            .is_some_and(|port| (1..=65535).contains(&port))
    {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, why));
    }
    let url_path = str_of(service.get("path"));
    if url_path.is_empty() || url_path == "/" {
        return;
    }
    let mut wrong = |why: &str| {
        errors.push(FieldError::invalid(
            format!("{path}.path"),
            &json!(url_path),
            why,
        ));
    };
    if url_path == "//" {
        return wrong("segment[0] may not be empty");
    }
    if !url_path.starts_with('/') {
        wrong("must start with a '/'");
    }
    let mut rest = url_path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest
        .strip_suffix('/')
        .unwrap_or(rest)
        .split('/')
        .enumerate()
    {
        if segment.is_empty() {
            wrong(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in names::subdomain(segment) {
            wrong(&format!("segment[{index}]: {problem}"));
        }
    }
}

pub(super) fn one_of(
    object: &Value,
    path: &str,
    field: &str,
    supported: &[&str],
    errors: &mut Vec<FieldError>,
) {
    if let Some(value) = present(object, field)
        && !supported.contains(&value.as_str().unwrap_or_default())
    {
        errors.push(FieldError::not_supported(
            format!("{path}.{field}"),
            value,
            supported,
        ));
    }
}

fn present<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

fn str_of(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
