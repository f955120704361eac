//! Certificate signing requests (`certificates.k8s.io`): the requester, the approval, and the
//! signature.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use super::{Cluster, collection};
use crate::call::Call;
use crate::certificates::SigningRequest;
use crate::store::Key;

/// The signers that the sandbox implements for approved requests.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kube-apiserver-client",
    "kubernetes.io/kube-apiserver-client-kubelet",
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/legacy-unknown",
];

/// The default and maximum validity of a certificate, in seconds.
const ONE_YEAR: i64 = 365 * 24 * 3600;
/// The minimum validity of a certificate, in seconds.
const MIN_SECONDS: i64 = 600;

pub(crate) fn is_request(kind: &Kind) -> bool {
    &*kind.group == "certificates.k8s.io"
}

/// Sets the server-controlled fields of a new request.
pub(crate) fn fill_in(call: &Call, object: &mut Value) {
    if !is_request(&call.kind) {
        return;
    }
    let user = call.user.to_json();
    let spec = meta::entry(object, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        match user.get(field) {
            Some(value) => spec.insert(field.to_owned(), value.clone()),
            None => spec.remove(field),
        };
    }
    if let Some(map) = object.as_object_mut() {
        map.insert("status".to_owned(), json!({}));
    }
}

/// Restores the fields that a write to the request or to one of its subresources cannot change.
pub fn restrict(call: &Call, current: &Value, new: &mut Value, now: &str) {
    if !is_request(&call.kind) {
        return;
    }
    new["spec"] = current["spec"].clone();
    let field = |object: &Value, name: &str| object.pointer(&format!("/status/{name}")).cloned();
    if call.subresource.as_deref() == Some("approval") {
        let conditions = field(new, "conditions");
        let mut status = current.get("status").cloned().unwrap_or_else(|| json!({}));
        if let (Some(conditions), Some(status)) = (conditions, status.as_object_mut()) {
            status.insert("conditions".to_owned(), conditions);
        }
        new["status"] = status;
    }
    let conditions = new.pointer_mut("/status/conditions");
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for name in ["lastUpdateTime", "lastTransitionTime"] {
            if condition.get(name).is_none_or(Value::is_null) {
                condition[name] = json!(now);
            }
        }
    }
}

/// Returns the errors of a new request.
pub fn problems(kind: &Kind, object: &Value) -> Vec<FieldError> {
    if !is_request(kind) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let text = |name: &str| {
        object
            .pointer(&format!("/spec/{name}"))
            .and_then(Value::as_str)
    };
    if request_pem(object).is_none_or(|pem| !SigningRequest::is_readable(&pem)) {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        let given = text("request").unwrap_or_default();
        errors.push(FieldError::invalid("spec.request", &json!(given), why));
    }
    match text("signerName") {
        None | Some("") => errors.push(FieldError::required("spec.signerName", "")),
        Some(name) if !name.contains('/') => {
            let why =
                "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            errors.push(FieldError::invalid("spec.signerName", &json!(name), why));
        }
        Some(_) => {}
    }
    let usages = object.pointer("/spec/usages").and_then(Value::as_array);
    if usages.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let seconds = object.pointer("/spec/expirationSeconds");
    if let Some(seconds) = seconds.filter(|seconds| seconds.as_i64() < Some(MIN_SECONDS)) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds, why));
    }
    errors
}

/// Returns the errors of a changed request.
pub(crate) fn update_problems(kind: &Kind, object: &Value, old: &Value) -> Vec<FieldError> {
    let certificate = |object: &Value| {
        let text = object.pointer("/status/certificate")?.as_str()?;
        (!text.is_empty()).then(|| text.to_owned())
    };
    let (before, after) = (certificate(old), certificate(object));
    if !is_request(kind) || before == after {
        return Vec::new();
    }
    let field = "status.certificate";
    if before.is_some() {
        let why = "updates may not modify existing certificate content";
        return vec![FieldError::forbidden(field, why)];
    }
    let pem = STANDARD.decode(after.unwrap_or_default());
    match check_certificates(&pem.unwrap_or_default()) {
        Ok(()) => Vec::new(),
        Err(why) => {
            let shown = json!("<certificate data>");
            vec![FieldError::invalid(field, &shown, &why)]
        }
    }
}

/// Checks that the PEM blocks are certificates. Text around them is ignored.
fn check_certificates(pem: &[u8]) -> Result<(), String> {
    let mut is_empty = true;
    for block in Pem::iter_from_buffer(pem).map_while(Result::ok) {
        if block.label != "CERTIFICATE" {
            let label = block.label;
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {label:?}"
            ));
        }
        if block.parse_x509().is_err() {
            return Err("x509: malformed certificate".to_owned());
        }
        is_empty = false;
    }
    if is_empty {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

fn request_pem(object: &Value) -> Option<String> {
    let encoded = object.pointer("/spec/request")?.as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

/// Returns `true` if the subject of a request has this organization, which becomes a group of its user.
pub(super) fn has_organization(object: &Value, name: &str) -> bool {
    let pem = request_pem(object).unwrap_or_default();
    let block = Pem::iter_from_buffer(pem.as_bytes()).find_map(Result::ok);
    let Some(block) = block else { return false };
    let Ok((_, request)) = X509CertificationRequest::from_der(&block.contents) else {
        return false;
    };
    let subject = &request.certification_request_info.subject;
    let mut organizations = subject.iter_organization();
    organizations.any(|organization| organization.as_str() == Ok(name))
}

fn has_condition(object: &Value, wanted: &str) -> bool {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some(wanted)
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}

impl Cluster {
    /// Signs an approved request of an implemented signer.
    pub(crate) fn sign_request(&self, kind: &Arc<Kind>, key: &Key) {
        let Some(stored) = self.store.get(&collection(kind), key) else {
            return;
        };
        let object = stored.value();
        let signer = object.pointer("/spec/signerName").and_then(Value::as_str);
        let done =
            object.pointer("/status/certificate").is_some() || has_condition(&object, "Failed");
        if done
            || !has_condition(&object, "Approved")
            || has_condition(&object, "Denied")
            || !signer.is_some_and(|signer| SIGNERS.contains(&signer))
        {
            return;
        }
        let seconds = object
            .pointer("/spec/expirationSeconds")
            .and_then(Value::as_i64);
        let usages = object.pointer("/spec/usages").and_then(Value::as_array);
        let usages = usages.into_iter().flatten().filter_map(Value::as_str);
        let signing = SigningRequest {
            pem: &request_pem(&object).unwrap_or_default(),
            seconds: seconds.unwrap_or(ONE_YEAR).clamp(1, ONE_YEAR),
            usages: usages.collect(),
        };
        let signed = self
            .authority()
            .and_then(|authority| authority.sign(&signing, jiff::Timestamp::now()));
        let now = self.clock.seconds();
        self.modify(kind, key, |object| {
            let status = meta::entry(object, "status");
            match &signed {
                Ok(pem) => {
                    let certificate = json!(STANDARD.encode(pem));
                    status.insert("certificate".to_owned(), certificate);
                }
                Err(error) => {
                    let failed = json!({
                        "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                        "message": error.to_string(), "lastUpdateTime": now, "lastTransitionTime": now,
                    });
                    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
                    if let Some(conditions) = conditions.as_array_mut() {
                        conditions.push(failed);
                    }
                }
            }
        });
    }
}
