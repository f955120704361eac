//! Conversion webhooks of CRDs.
//!
//! [`review`] is pure: it builds the review and validates the response. The request uses the same
//! connections as admission webhooks.

mod review;

use std::time::Duration;

use kopf_sandbox_schema::kind::Kind;
use serde_json::Value;

use self::review::{Pair, ReviewVersion};
use crate::admission::{CallFailure, Caller, FindService, Remote};
use crate::status::{ApiError, Result};

/// The timeout of conversion webhooks on a real server; CRDs cannot change it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Converts one object to another version of its kind by the webhook of the CRD.
///
/// `uid` identifies the review. An object without metadata is empty: only its `apiVersion` changes,
/// and the webhook is not called.
///
/// # Errors
///
/// The webhook is unreachable, fails, or returns an invalid object. The message is that of a real
/// server.
pub async fn convert(
    caller: &Caller,
    webhook: &Value,
    kind: &Kind,
    object: Value,
    to_version: &str,
    uid: &str,
    find_service: FindService<'_>,
) -> Result<Value> {
    let wanted = kind.api_version(to_version);
    let given = review::text(&object, "apiVersion").to_owned();
    if given == wanted || review::text(&object, "kind") != &*kind.kind {
        return Ok(object);
    }
    if object.get("metadata").is_none() {
        let mut object = object;
        object["apiVersion"] = Value::String(wanted);
        return Ok(object);
    }
    let failed = |message: String| ApiError::without_reason(500, message);
    let version = ReviewVersion::read(webhook)
        .ok_or_else(|| failed("no supported conversion review versions".to_owned()))?;
    let what = format!("conversion webhook for {given}, Kind={}", kind.kind);
    let empty = Value::Null;
    let remote = Remote::read(webhook.get("clientConfig").unwrap_or(&empty), TIMEOUT);
    let pair = Pair {
        original: &object,
        wanted: &wanted,
    };
    let posted = caller
        .post(&remote, pair.review_request(version, uid), find_service)
        .await;
    let response = posted.map_err(|failure| match failure {
        CallFailure::Client(why) => failed(why),
        CallFailure::Call(why) => failed(format!("{what} failed: {why}")),
    })?;
    let converted = review::converted_objects(version, uid, &response)
        .map_err(|why| failed(format!("{what} failed: {why}")))?;
    pair.accept(converted)
        .map_err(|rejection| failed(rejection.message(&what)))
}
