//! The chain of all webhooks of a request, called in sequence or concurrently.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::BoxFuture;
use serde_json::Value;

use super::calling::Caller;
use super::configuration::{Webhook, Webhooks};
use super::decision::{self, Decision};
use super::denial::denial;
use super::matching::{Attributes, matched, meets_conditions};
use super::resolving::FindService;
use super::review_request::review_request;
use crate::status::{ApiError, Result};

/// Applies a JSON patch (the bytes of a JSON array) to an object. The error is the part of the
/// message after `Internal error occurred: `.
pub(crate) type Apply<'a> =
    &'a (dyn Fn(&Value, &[u8]) -> std::result::Result<Value, String> + Send + Sync);
/// Converts an object to another version of its kind.
pub(crate) type Convert<'a> =
    &'a (dyn Fn(Value, String) -> BoxFuture<'a, Result<Value>> + Send + Sync);

/// Generates the uid of a review.
pub(crate) type NewUid<'a> = &'a (dyn Fn() -> String + Send + Sync);

/// The inputs of all webhook calls of one request.
#[expect(missing_debug_implementations, reason = "it borrows functions")]
pub struct Chain<'a> {
    pub webhooks: &'a Webhooks,
    pub caller: &'a Caller,
    pub(crate) attributes: &'a Attributes<'a>,
    pub convert: Convert<'a>,
    pub(crate) new_uid: NewUid<'a>,
    pub(crate) find_service: FindService<'a>,
}

/// The reason why a webhook did not admit a request.
enum Rejection {
    /// The call failed, or its response is invalid: the failure policy applies.
    Failure(String),
    /// The request fails regardless of the failure policy.
    Final(Box<ApiError>),
}

impl From<ApiError> for Rejection {
    fn from(error: ApiError) -> Self {
        Self::Final(Box::new(error))
    }
}

impl Chain<'_> {
    /// Calls the mutating webhooks in sequence; each receives the object as changed by the previous
    /// ones. `object` is `None` for deletions. The result is in the version of the request.
    ///
    /// Warnings are added to the list even if the request is rejected. Cancel-safe: a cancelled
    /// request leaves no trace in the sandbox.
    pub(crate) async fn mutate(
        &self,
        object: Option<Value>,
        old: Option<&Value>,
        apply: Apply<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Value>> {
        let attributes = self.attributes;
        if !self.webhooks.may_mutate(attributes) {
            return Ok(object);
        }
        let convert = self.convert;
        let mut subject = Subject {
            object,
            version: attributes.version,
            old,
            attributes,
            convert,
        };
        let mut rounds = Rounds::default();
        let mut changed_at_all = false;
        for again in [false, true] {
            for (index, webhook) in self.webhooks.mutating.iter().enumerate() {
                if again && !rounds.due.contains(&index) {
                    continue;
                }
                let matched = matched(webhook, attributes, subject.object.as_ref(), old)?;
                let Some(version) = matched else { continue };
                subject.bring_to(version).await?;
                let converted = subject.old().await?;
                let old = converted.as_ref().or(old);
                if !meets_conditions(webhook, attributes, version, subject.object.as_ref(), old)? {
                    continue;
                }
                let outcome = self
                    .call_and_patch(webhook, &mut subject, old, apply, warnings)
                    .await;
                let changed = resolve(webhook, outcome)?.unwrap_or(false);
                rounds.called(index, webhook, changed);
                changed_at_all |= changed;
            }
            if !changed_at_all {
                break;
            }
        }
        subject.bring_to(attributes.version).await?;
        Ok(subject.object)
    }

    /// Calls the validating webhooks concurrently. Of several rejections, the first one in the
    /// order of the configurations is returned.
    pub(crate) async fn validate(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let attributes = self.attributes;
        if !self.webhooks.may_validate(attributes) {
            return Ok(());
        }
        let mut called = Vec::new();
        // Both objects by version, which are converted once.
        let mut converted: BTreeMap<&str, (Option<Value>, Option<Value>)> = BTreeMap::new();
        for webhook in &self.webhooks.validating {
            let Some(version) = matched(webhook, attributes, object, old)? else {
                continue;
            };
            if version != attributes.version && !converted.contains_key(version) {
                let new = self.in_version(object, version).await?;
                let before = self.in_version(old, version).await?;
                converted.insert(version, (new, before));
            }
            called.push((webhook, version));
        }
        let shown = |version: &str| match converted.get(version) {
            Some((new, before)) => (new.as_ref(), before.as_ref()),
            None => (object, old),
        };
        let mut calls = Vec::new();
        for (webhook, version) in called {
            let objects = shown(version);
            if !meets_conditions(webhook, attributes, version, objects.0, objects.1)? {
                continue;
            }
            calls.push(async move {
                let mut heard = Vec::new();
                let outcome = self.ask(webhook, false, version, objects, &mut heard).await;
                (webhook, outcome, heard)
            });
        }
        let mut refused = None;
        for (webhook, outcome, heard) in futures::future::join_all(calls).await {
            warnings.extend(heard);
            if let Err(error) = resolve(webhook, outcome) {
                refused.get_or_insert(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    async fn in_version(&self, object: Option<&Value>, version: &str) -> Result<Option<Value>> {
        match object {
            Some(object) => (self.convert)(object.clone(), version.to_owned())
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    /// Calls one webhook and applies its patch. Returns `true` if the object was changed.
    async fn call_and_patch(
        &self,
        webhook: &Webhook,
        subject: &mut Subject<'_, '_>,
        old: Option<&Value>,
        apply: Apply<'_>,
        warnings: &mut Vec<String>,
    ) -> std::result::Result<bool, Rejection> {
        let objects = (subject.object.as_ref(), old);
        let decision = self
            .ask(webhook, true, subject.version, objects, warnings)
            .await?;
        if decision.patch.is_empty()
            || is_empty_patch(&decision.patch).map_err(Rejection::Failure)?
        {
            return Ok(false);
        }
        let Some(object) = &mut subject.object else {
            return Err(ApiError::internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported \
                 for this operation",
                webhook.name
            ))
            .into());
        };
        if decision.patch_type != "JSONPatch" {
            let why = format!("unsupported patch type {:?}", decision.patch_type);
            return Err(Rejection::Failure(why));
        }
        let patched = apply(object, &decision.patch).map_err(ApiError::internal)?;
        let changed = patched != *object;
        *object = patched;
        Ok(changed)
    }

    /// Calls one webhook and returns its decision if it admits the request.
    async fn ask(
        &self,
        webhook: &Webhook,
        mutating: bool,
        version: &str,
        (object, old): (Option<&Value>, Option<&Value>),
        warnings: &mut Vec<String>,
    ) -> std::result::Result<Decision, Rejection> {
        if self.attributes.dry_run && !webhook.allows_dry_run {
            return Err(ApiError::bad_request(format!(
                "admission webhook {:?} does not support dry run",
                webhook.name
            ))
            .into());
        }
        let Some(spoken) = webhook.review_version else {
            return Err(Rejection::Failure(
                "could not create admission objects: webhook does not accept known \
                 AdmissionReview versions (v1, v1beta1)"
                    .to_owned(),
            ));
        };
        let uid = (self.new_uid)();
        let review = review_request(spoken, &uid, self.attributes, version, object, old);
        let response = self
            .caller
            .call(webhook, review, self.find_service)
            .await
            .map_err(Rejection::Failure)?;
        let mut decision =
            decision::decision(spoken, mutating, &uid, &response).map_err(Rejection::Failure)?;
        warnings.append(&mut decision.warnings);
        if decision.allowed {
            Ok(decision)
        } else {
            Err(denial(&webhook.name, decision.status.as_ref()).into())
        }
    }
}

/// The object that is passed through the mutating webhooks.
struct Subject<'a, 'c> {
    object: Option<Value>,
    /// Its current version.
    version: &'a str,
    old: Option<&'a Value>,
    attributes: &'a Attributes<'a>,
    convert: Convert<'c>,
}

impl<'a> Subject<'a, '_> {
    async fn bring_to(&mut self, version: &'a str) -> Result<()> {
        if version != self.version {
            if let Some(object) = self.object.take() {
                self.object = Some((self.convert)(object, version.to_owned()).await?);
            }
            self.version = version;
        }
        Ok(())
    }

    async fn old(&self) -> Result<Option<Value>> {
        match self.old {
            Some(old) if self.version != self.attributes.version => {
                let converted = (self.convert)(old.clone(), self.version.to_owned()).await?;
                Ok(Some(converted))
            }
            _ => Ok(None),
        }
    }
}

/// The webhooks to be reinvoked. There is at most one more round.
#[derive(Default)]
struct Rounds {
    /// Webhooks with `reinvocationPolicy: IfNeeded` that were called since the last change.
    asked: BTreeSet<usize>,
    due: BTreeSet<usize>,
}

impl Rounds {
    fn called(&mut self, index: usize, webhook: &Webhook, changed: bool) {
        if changed {
            self.due.append(&mut self.asked);
        }
        if webhook.reinvoked {
            self.asked.insert(index);
        }
    }
}

/// Applies the webhook's failure policy to a rejection. Returns `None` if the rejection is ignored.
fn resolve<T>(webhook: &Webhook, outcome: std::result::Result<T, Rejection>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Rejection::Final(error)) => Err(*error),
        Err(Rejection::Failure(error)) if webhook.ignores_failures => {
            tracing::warn!(webhook = webhook.name, error, "a failed webhook is ignored");
            Ok(None)
        }
        Err(Rejection::Failure(why)) => Err(ApiError::internal(format!(
            "failed calling webhook {:?}: {why}",
            webhook.name
        ))),
    }
}

/// Returns `true` if a patch has no operations.
///
/// # Errors
///
/// The bytes are not a JSON patch.
fn is_empty_patch(patch: &[u8]) -> std::result::Result<bool, String> {
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    match serde_json::from_slice::<Value>(patch) {
        Ok(Value::Array(operations)) => match operations.iter().find(|one| !one.is_object()) {
            None => Ok(operations.is_empty()),
            Some(_) => Err(undecodable("an operation is not an object".to_owned())),
        },
        Ok(_) => Err(undecodable(
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch".to_owned(),
        )),
        Err(error) => Err(undecodable(error.to_string())),
    }
}
