//! The options of a request: its query parameters, and for deletions its body.

use std::time::Duration;

use kopf_sandbox_kinds::strategy::Propagation;
use kopf_sandbox_schema::duration::check_timeout;
use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use serde_json::{Value, json};

use crate::status::{ApiError, Result};

pub use kopf_sandbox_kinds::table::IncludeObject;

/// The treatment of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The meaning of `resourceVersion` of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// All supported query parameters; others are ignored, as on a real server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub watch: bool,
    pub bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub timeout: Option<Duration>,
    pub(crate) label_selector: Option<String>,
    pub(crate) shard_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub limit: Option<u64>,
    pub(crate) continue_token: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) dry_run: bool,
    pub(crate) field_manager: Option<String>,
    /// Of an apply: takes fields from other managers.
    pub force: Option<bool>,
    pub(crate) field_validation: FieldValidation,
    pub(crate) include_object: IncludeObject,
    pub delete: DeleteOptions,
}

/// The options of a deletion.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeleteOptions {
    pub grace_period: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

impl Options {
    /// Parses the query string. `kind` is the name of the options in errors, e.g. `ListOptions`.
    pub fn parse(query: &str, kind: &'static str) -> Result<Self> {
        let mut options = Self::default();
        let mut timeout = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.as_ref();
            match name.as_ref() {
                "watch" => options.watch = boolean(value),
                "allowWatchBookmarks" => options.bookmarks = boolean(value),
                "sendInitialEvents" => options.send_initial_events = Some(boolean(value)),
                "timeoutSeconds" if !value.is_empty() => {
                    let seconds = integer(value)?;
                    // A negative timeout is over at once; zero is the default.
                    let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
                    options.timeout = (seconds != 0).then_some(time);
                }
                "labelSelector" => options.label_selector = text(value),
                "shardSelector" => options.shard_selector = text(value),
                "fieldSelector" => options.field_selector = text(value),
                "limit" if !value.is_empty() => {
                    options.limit = u64::try_from(integer(value)?)
                        .ok()
                        .filter(|limit| *limit > 0);
                }
                "continue" => options.continue_token = text(value),
                "resourceVersion" => options.resource_version = text(value),
                "resourceVersionMatch" if !value.is_empty() => {
                    options.version_match = Some(version_match(value, kind)?);
                }
                "dryRun" => options.dry_run |= dry_run(value, kind)?,
                "force" if !value.is_empty() => options.force = Some(boolean(value)),
                "fieldManager" => options.field_manager = text(value),
                "fieldValidation" if !value.is_empty() => {
                    options.field_validation = field_validation(value, kind)?;
                }
                "includeObject" => {
                    options.include_object =
                        IncludeObject::parse(value).map_err(ApiError::bad_request)?;
                }
                "gracePeriodSeconds" if !value.is_empty() => {
                    options.delete.grace_period = Some(integer(value)?);
                }
                "propagationPolicy" if !value.is_empty() => {
                    options.delete.propagation = Some(propagation(value)?);
                }
                "orphanDependents" if !value.is_empty() => {
                    options.delete.propagation = Some(orphan(boolean(value)));
                }
                "timeout" if !value.is_empty() => timeout = Some(value.to_owned()),
                _ => {}
            }
        }
        // Watches have `timeoutSeconds` instead; the server ignores this parameter there.
        if let Some(timeout) = timeout.filter(|_| !options.watch) {
            check_timeout(&timeout).map_err(ApiError::bad_request)?;
        }
        options.delete.dry_run = options.dry_run;
        check_field_manager(options.field_manager.as_deref(), kind)?;
        Ok(options)
    }
}

impl DeleteOptions {
    /// Parses the body of a deletion.
    pub fn read(body: &Value) -> Result<Self> {
        let mut options = Self::default();
        if body.is_null() {
            return Ok(options);
        }
        let Some(body) = body.as_object() else {
            return Err(ApiError::bad_request(
                "the body of a deletion must be a DeleteOptions object",
            ));
        };
        if let Some(kind) = body.get("kind").and_then(Value::as_str)
            && kind != "DeleteOptions"
        {
            return Err(ApiError::bad_request(format!(
                "the body of a deletion must be a DeleteOptions object, not a {kind}"
            )));
        }
        let field = |name: &str| body.get(name).filter(|value| !value.is_null());
        if let Some(seconds) = field("gracePeriodSeconds") {
            let seconds = seconds.as_i64();
            let seconds = seconds.ok_or_else(|| wrong("gracePeriodSeconds", "int64"))?;
            options.grace_period = Some(seconds);
        }
        if let Some(policy) = field("propagationPolicy") {
            let policy = policy.as_str();
            let policy = policy.ok_or_else(|| wrong("propagationPolicy", "string"))?;
            options.propagation = Some(propagation(policy)?);
        }
        if let Some(orphans) = field("orphanDependents") {
            if let Some(policy) = field("propagationPolicy") {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let error = FieldError::invalid("propagationPolicy", policy, why);
                return Err(invalid("DeleteOptions", error));
            }
            let orphans = orphans
                .as_bool()
                .ok_or_else(|| wrong("orphanDependents", "bool"))?;
            options.propagation = Some(orphan(orphans));
        }
        let dry_runs = field("dryRun").and_then(Value::as_array);
        for value in dry_runs.into_iter().flatten() {
            options.dry_run |= dry_run(value.as_str().unwrap_or_default(), "DeleteOptions")?;
        }
        if let Some(preconditions) = field("preconditions") {
            let text = |name: &str| -> Result<Option<String>> {
                match preconditions.get(name) {
                    None | Some(Value::Null) => Ok(None),
                    Some(Value::String(text)) => Ok(Some(text.clone())),
                    Some(_) => Err(wrong(&format!("preconditions.{name}"), "string")),
                }
            };
            options.uid = text("uid")?;
            options.resource_version = text("resourceVersion")?;
        }
        Ok(options)
    }
}

fn wrong(field: &str, kind: &str) -> ApiError {
    ApiError::bad_request(format!("DeleteOptions.{field} must be of type {kind}"))
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// Parses a boolean parameter: any value but "false" and "0" is true.
fn boolean(value: &str) -> bool {
    !(value.eq_ignore_ascii_case("false") || value == "0")
}

fn integer(value: &str) -> Result<i64> {
    value.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "strconv.ParseInt: parsing {value:?}: invalid syntax"
        ))
    })
}

fn invalid(kind: &str, error: FieldError) -> ApiError {
    ApiError::invalid_named("meta.k8s.io", kind, "", &[error])
}

fn version_match(value: &str, kind: &str) -> Result<VersionMatch> {
    match value {
        "Exact" => Ok(VersionMatch::Exact),
        "NotOlderThan" => Ok(VersionMatch::NotOlderThan),
        other => {
            let supported = ["Exact", "NotOlderThan", ""];
            let field = "resourceVersionMatch";
            Err(invalid(
                kind,
                FieldError::not_supported(field, &json!(other), &supported),
            ))
        }
    }
}

fn dry_run(value: &str, kind: &str) -> Result<bool> {
    match value {
        "All" => Ok(true),
        other => Err(invalid(
            kind,
            FieldError::not_supported("dryRun", &json!([other]), &["All"]),
        )),
    }
}

fn field_validation(value: &str, kind: &str) -> Result<FieldValidation> {
    match value {
        "Ignore" => Ok(FieldValidation::Ignore),
        "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            let field = "fieldValidation";
            Err(invalid(
                kind,
                FieldError::not_supported(field, &json!(other), &supported),
            ))
        }
    }
}

fn check_field_manager(manager: Option<&str>, kind: &str) -> Result<()> {
    let Some(manager) = manager else {
        return Ok(());
    };
    if manager.len() > 128 {
        let text = "Too long: may not be more than 128 bytes";
        return Err(invalid(
            kind,
            FieldError::new(FieldErrorKind::TooLong, "fieldManager", text),
        ));
    }
    if manager.chars().any(char::is_control) {
        let why = "should only contain printable characters";
        return Err(invalid(
            kind,
            FieldError::invalid("fieldManager", &json!(manager), why),
        ));
    }
    Ok(())
}

fn propagation(value: &str) -> Result<Propagation> {
    match value {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let field = "propagationPolicy";
            let error = FieldError::not_supported(field, &json!(other), &supported);
            Err(invalid("DeleteOptions", error))
        }
    }
}

fn orphan(orphans: bool) -> Propagation {
    if orphans {
        Propagation::Orphan
    } else {
        Propagation::Background
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_parsed() {
        let query =
            "watch=1&limit=5&labelSelector=a%3Db%2Cc&dryRun=All&fieldValidation=Strict&unknown=x";
        let options = Options::parse(query, "ListOptions").unwrap();
        assert!(options.watch && options.dry_run);
        assert_eq!(options.limit, Some(5));
        assert_eq!(options.label_selector.as_deref(), Some("a=b,c"));
        assert_eq!(options.field_validation, FieldValidation::Strict);
    }

    #[test]
    fn malformed_query_is_rejected() {
        for (query, code) in [
            ("limit=x", 400),
            ("timeout=invalid", 400),
            ("timeout=5", 400),
            ("dryRun=Some", 422),
            ("fieldValidation=Loose", 422),
            ("propagationPolicy=Sideways", 422),
            ("resourceVersionMatch=About", 422),
        ] {
            assert_eq!(
                Options::parse(query, "ListOptions").unwrap_err().code(),
                code,
                "{query}"
            );
        }
    }

    #[test]
    fn body_of_a_deletion_is_parsed() {
        let body =
            json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "dryRun": ["All"]});
        let options = DeleteOptions::read(&body).unwrap();
        assert_eq!(options.grace_period, Some(0));
        assert_eq!(options.uid.as_deref(), Some("u"));
        assert!(options.dry_run);
        assert!(DeleteOptions::read(&json!({"preconditions": {"uid": 5}})).is_err());
        assert!(DeleteOptions::read(&json!([])).is_err());
    }
}
