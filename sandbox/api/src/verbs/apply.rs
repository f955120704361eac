//! Server-side apply: `patch` with a configuration.

use kopf_sandbox_kinds::conform;
use kopf_sandbox_kinds::managers::Rejection;
use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::patch::{PatchType, check_identity, rejected, report};
use super::{Call, Payload, Tracking, incoming};
use crate::cluster::{Cluster, collection};
use crate::request::decode::{self, Decoded};
use crate::request::options::FieldValidation;
use crate::status::{ApiError, Reason, Result};

/// Maximum number of attempts while the object is created and deleted concurrently.
const ATTEMPTS: usize = 4;

/// Validates the options that are only for applies, or required for them.
pub(crate) fn check_options(call: &Call, patch_type: PatchType) -> Result<()> {
    let error = match patch_type {
        PatchType::Apply if call.options.field_manager.is_none() => FieldError::new(
            FieldErrorKind::Required,
            "fieldManager",
            "Required value: is required for apply patch",
        ),
        PatchType::Apply => return Ok(()),
        _ if call.options.force.is_some() => {
            FieldError::forbidden("force", "may not be specified for non-apply patch")
        }
        _ => return Ok(()),
    };
    Err(ApiError::invalid_named(
        "meta.k8s.io",
        "PatchOptions",
        "",
        &[error],
    ))
}

impl Cluster {
    /// Applies the configuration in the body. Returns the status code with the payload.
    pub async fn apply(&self, call: &Call, body: &[u8]) -> Result<(u16, Payload)> {
        let config = Config::read(call, body)?;
        for _ in 0..ATTEMPTS {
            let key = call.key();
            if self.store.get(&collection(&call.kind), &key).is_some() || call.subresource.is_some()
            {
                match self.apply_to_present(call, &config).await {
                    Err(error) if error.code() == 404 && call.subresource.is_none() => {}
                    done => return Ok((200, done?)),
                }
            } else {
                match self.apply_as_new(call, &config).await {
                    Err(error) if error.is(Reason::AlreadyExists) => {}
                    done => return Ok((201, done?)),
                }
            }
        }
        Err(ApiError::modified(&call.kind, &call.name))
    }

    async fn apply_to_present(&self, call: &Call, config: &Config) -> Result<Payload> {
        self.change_tracked(call, Tracking::Applied, |current| {
            let applied = self.applied(call, config, Some(current))?;
            check_identity(call, current, &applied)?;
            shaped(call, config, applied)
        })
        .await
    }

    async fn apply_as_new(&self, call: &Call, config: &Config) -> Result<Payload> {
        if let Some(uid) = meta::text(&config.value, "uid") {
            return Err(ApiError::conflict(
                &call.kind,
                &call.name,
                &format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        if meta::name(&config.value).is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                call.name
            )));
        }
        let object = self.applied(call, config, None)?;
        let mut object = shaped(call, config, object)?;
        meta::metadata(&mut object).remove("resourceVersion");
        incoming::place(call, &mut object)?;
        incoming::name(call, &mut object)?;
        self.try_create(call, object, Tracking::Applied).await
    }

    fn applied(&self, call: &Call, config: &Config, live: Option<&Value>) -> Result<Value> {
        let tracker = call.tracker(self.clock.seconds())?;
        let force = call.options.force.unwrap_or_default();
        let applied = tracker.apply(live, &config.value, &call.manager(), force);
        applied.map_err(|rejection| match rejection {
            Rejection::Conflict(conflict) => ApiError::apply_conflict(&conflict),
            Rejection::Mistyped(message) => ApiError::without_reason(500, message),
        })
    }

    /// Applies a `Scale`: only its number of replicas is used.
    pub(crate) async fn apply_scale(&self, call: &Call, body: &[u8]) -> Result<Payload> {
        let scale = read(body)?.value;
        let config = Config::of_scale(call, &scale)?;
        let applied = self.apply_to_present(call, &config).await;
        applied.map_err(|rejection| {
            // Through the scale subresource, all managers have the version of the scale.
            let own = format!(" using {}", call.api_version());
            rejection.edited(|failure| {
                failure.message = failure.message.replace(&own, " using autoscaling/v1");
                failure.details = failure.details.take().map(|details| {
                    let text = details.to_string().replace(&own, " using autoscaling/v1");
                    serde_json::from_str(&text).unwrap_or(details)
                });
            })
        })?;
        self.get_scale(call).await
    }
}

/// The configuration of an apply.
struct Config {
    value: Value,
    complaints: Vec<String>,
}

impl Config {
    /// Returns the configuration of the scaled object for an applied `Scale`.
    fn of_scale(call: &Call, scale: &Value) -> Result<Self> {
        let mut value = json!({
            "apiVersion": call.api_version(), "kind": call.kind.kind,
            "metadata": scale.get("metadata").cloned().unwrap_or_else(|| json!({})),
        });
        if let Some(replicas) = scale.pointer("/spec/replicas") {
            crate::scale::set_replicas(call, &mut value, replicas.clone())?;
        }
        Ok(Self {
            value,
            complaints: Vec::new(),
        })
    }

    fn read(call: &Call, body: &[u8]) -> Result<Self> {
        let Decoded { value, complaints } = read(body)?;
        if !value.is_object() {
            return Err(ApiError::bad_request(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal it into Go value of type map[string]interface {}",
            ));
        }
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion") != call.api_version() || text("kind") != &*call.kind.kind {
            let (group, version) = text("apiVersion")
                .split_once('/')
                .unwrap_or(("", text("apiVersion")));
            return Err(ApiError::bad_request(format!(
                "invalid object type: {group}/{version}, Kind={}",
                text("kind")
            )));
        }
        if value
            .pointer("/metadata/managedFields")
            .is_some_and(|entries| !entries.is_null())
        {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        Ok(Self { value, complaints })
    }
}

/// Parses JSON or YAML.
fn read(body: &[u8]) -> Result<Decoded> {
    let is_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let decoded = match decode::json(body) {
        Ok(decoded) if is_json => Ok(decoded),
        _ => decode::yaml(body),
    };
    decoded.map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))
}

/// Decodes, defaults and prunes the applied object.
fn shaped(call: &Call, config: &Config, mut object: Value) -> Result<Value> {
    let before = object.clone();
    let shown = || before.to_string();
    let unknown = conform::conform_applied(&call.kind, &call.version, &mut object)
        .map_err(|mismatch| rejected(shown(), &mismatch.text))?;
    let unknown = unknown
        .into_iter()
        .map(|path| format!("unknown field {path:?}"));
    report(call, shown, unknown.collect())?;
    match call.options.field_validation {
        FieldValidation::Strict if !config.complaints.is_empty() => {
            let complaints = config.complaints.join("\n  ");
            Err(ApiError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {complaints}"
            )))
        }
        FieldValidation::Warn => {
            for complaint in &config.complaints {
                call.warn(complaint.clone());
            }
            Ok(object)
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(object),
    }
}
