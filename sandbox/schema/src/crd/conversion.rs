//! Validation of `spec.conversion`.

use serde_json::Value;

use crate::field_error::FieldError;
use crate::object::names::{label_problem, subdomain_problem};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const PATH: &str = "spec.conversion";

pub(super) fn validate(conversion: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let strategy = conversion
        .get("strategy")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let at = format!("{PATH}.strategy");
    match strategy {
        "" => errors.push(FieldError::required(at, "")),
        "None" | "Webhook" => {}
        other => {
            errors.push(FieldError::not_supported(
                at,
                &other.into(),
                &["None", "Webhook"],
            ));
        }
    }
    // Errors name the fields of the server's internal form, which is flatter than v1.
    let client = conversion
        .pointer("/webhook/clientConfig")
        .filter(|client| !client.is_null());
    let client_path = format!("{PATH}.webhookClientConfig");
    let versions = conversion.pointer("/webhook/conversionReviewVersions");
    let versions = versions
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let versions_path = format!("{PATH}.conversionReviewVersions");
    if strategy == "Webhook" {
        match client {
            None => {
                let detail = "required when strategy is set to Webhook";
                errors.push(FieldError::required(client_path, detail));
            }
            Some(client) => client_config(client, &client_path, &mut errors),
        }
        review_versions(versions, &versions_path, &mut errors);
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(client_path, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_path, detail));
        }
    }
    errors
}

fn client_config(client: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let url = client.get("url").and_then(Value::as_str);
    let service = client.get("service").filter(|service| !service.is_null());
    match (url, service) {
        (Some(url), None) => webhook_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => webhook_service(service, &format!("{path}.service"), errors),
        _ => {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::required(path, detail));
        }
    }
}

fn webhook_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut invalid = |value: &str, detail: &str| {
        errors.push(FieldError::invalid(path, &value.into(), detail));
    };
    if scheme != "https" {
        invalid(
            scheme,
            &format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if host.is_empty() {
        invalid("", &format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        invalid(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        invalid(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        invalid(query, "query parameters are not permitted in the URL");
    }
}

fn webhook_service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let text = |key: &str| service.get(key).and_then(Value::as_str).unwrap_or_default();
    for key in ["name", "namespace"] {
        if text(key).is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    let port = service
        .get("port")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(
            format!("{path}.port"),
            &port.into(),
            detail,
        ));
    }
    let url_path = text("path");
    if matches!(url_path, "" | "/") {
        return;
    }
    let mut invalid = |detail: &str| {
        errors.push(FieldError::invalid(
            format!("{path}.path"),
            &url_path.into(),
            detail,
        ));
    };
    if !url_path.starts_with('/') {
        invalid("must start with a '/'");
    }
    // The real server skips the first character, assuming it to be a slash.
    let mut chars = url_path.chars();
    chars.next();
    let segments = chars.as_str();
    let segments = segments.strip_suffix('/').unwrap_or(segments);
    for (index, segment) in segments.split('/').enumerate() {
        if segment.is_empty() {
            invalid(&format!("segment[{index}] may not be empty"));
        } else if let Some(problem) = subdomain_problem(segment) {
            invalid(&format!("segment[{index}]: {problem}"));
        }
    }
}

fn review_versions(versions: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if versions.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if versions
            .iter()
            .take(index)
            .any(|earlier| earlier == version)
        {
            errors.push(FieldError::invalid(at, version, "duplicate version"));
        } else if let Some(problem) = version.as_str().and_then(label_problem) {
            errors.push(FieldError::invalid(at, version, &problem));
        }
    }
    let known = |version: &Value| {
        version
            .as_str()
            .is_some_and(|v| REVIEW_VERSIONS.contains(&v))
    };
    if !versions.iter().any(known) {
        let detail = format!(
            "must include at least one of {}",
            REVIEW_VERSIONS.join(", ")
        );
        errors.push(FieldError::invalid(
            path,
            &versions.to_vec().into(),
            &detail,
        ));
    }
}
