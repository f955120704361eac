//! Conversion of a patch into API requests: at most four, each only if it has a payload.

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use kopf_client::patching::{PatchKind, PatchResponse, Target};
use kopf_core::body::Body;
use kopf_core::diff::Diff;
use kopf_core::encoding::size_of_json;
use kopf_core::finalizer::Removal;
use kopf_core::object::reaches;
use kopf_core::patch::{
    Patch, PatchFn, inconsistencies, json_calls_between, transform, with_version_test,
};
use kopf_core::resource::Resource;
use kopf_core::secrets::{is_secret, redact_body, redact_diff, redact_operations};
use kopf_core::wording::{self, Style};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::execution::describe_panic;
use crate::invocation::OperatorContext;
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::metrics::PatchLabel;

/// A patch in progress. The parts that the server has accepted are removed.
#[derive(Debug)]
pub(crate) struct Pending {
    main: Option<Value>,
    status: Option<Value>,
    functions: Vec<PatchFn>,
    /// The removal of the finalizer, which is the last change of the object.
    removal: Option<Removal>,
    results_first: bool,
    /// The response to the last accepted request, whose event must be awaited even if the next
    /// request fails.
    response: Option<PatchResponse>,
    /// Requests are sent only while it is valid.
    pass: Pass,
}

/// The result of sending a patch.
#[derive(Debug)]
pub(crate) enum Applied {
    /// All parts are written. Contains the last response, if any request was sent.
    Accepted { response: Option<PatchResponse> },
    /// The object has changed meanwhile. The functions must be called with a newer version.
    Conflict {
        response: Option<PatchResponse>,
        functions: Vec<PatchFn>,
    },
    /// The object does not exist.
    NotFound,
}

/// Returns the label of a result in metrics.
pub(crate) fn label_of(applied: &Result<Applied, Error>) -> PatchLabel {
    match applied {
        Ok(Applied::Accepted { .. }) => PatchLabel::Accepted,
        Ok(Applied::NotFound) => PatchLabel::NotFound,
        Ok(Applied::Conflict { .. }) => PatchLabel::Conflict,
        Err(error) if error.is_rejection() => PatchLabel::Rejected,
        Err(_) => PatchLabel::Failed,
    }
}

impl Pending {
    pub(crate) fn new(mut patch: Patch, resource: &Resource, pass: Pass) -> Self {
        let calls = patch.take_merge_calls(resource.has_status());
        Self {
            main: calls.main,
            status: calls.status,
            functions: patch.fns,
            removal: None,
            results_first: false,
            response: None,
            pass,
        }
    }

    /// Also removes the finalizer.
    pub(crate) fn removing(self, removal: Option<Removal>) -> Self {
        Self { removal, ..self }
    }

    /// Sets the order: `true` writes the status before the rest. The original Kopf writes it last.
    pub(crate) fn results_first(self, results_first: bool) -> Self {
        Self {
            results_first,
            ..self
        }
    }

    /// Returns the size of a part of the patch in the next request, in bytes; zero if the request
    /// does not contain it. The size of functions is unknown and counts as one.
    pub(crate) fn share_of(&self, part: &Patch, resource: &Resource) -> usize {
        let calls = part.merge_calls(resource.has_status());
        let mut merges = [(&self.main, calls.main), (&self.status, calls.status)];
        if self.results_first {
            merges.reverse();
        }
        let next = merges.into_iter().find(|(unsent, _)| unsent.is_some());
        if let Some((_, part)) = next {
            return part.as_ref().map_or(0, size_of_json);
        }
        let mut functions = self.functions.iter();
        let is_included =
            functions.any(|function| part.fns.iter().any(|other| other.is_same(function)));
        usize::from(is_included)
    }

    /// Removes a part of the patch, and adds another one.
    pub(crate) fn replace(&mut self, removed: &Patch, added: Patch, resource: &Resource) {
        let mut unsent = Patch {
            merge: Map::new(),
            fns: std::mem::take(&mut self.functions),
        };
        for payload in [self.main.take(), self.status.take()].into_iter().flatten() {
            if let Value::Object(merge) = payload {
                let fns = Vec::new();
                unsent.merge_from(Patch { merge, fns });
            }
        }
        unsent.subtract(removed);
        unsent.merge_from(added);
        let calls = unsent.take_merge_calls(resource.has_status());
        self.main = calls.main;
        self.status = calls.status;
        self.functions = unsent.fns;
    }

    /// Sends the requests. After an error, the remaining parts can be applied again.
    pub(crate) async fn apply(
        &mut self,
        operator: &OperatorContext,
        resource: &Resource,
        body: &Body,
        logger: &ObjectLogger,
    ) -> Result<Applied, Error> {
        let pass = self.pass.clone();
        let target = Fenced {
            target: Target {
                client: &operator.client,
                resource,
                namespace: body.namespace(),
                name: body.name().ok_or(Error::Nameless)?,
                uid: body.uid(),
            },
            pass: &pass,
        };
        let log = PatchLog {
            logger: logger.local(),
            style: operator.style,
            is_secret: is_secret(resource),
        };
        if !self.merge(&target, &log).await? {
            return Ok(Applied::NotFound);
        }
        if self.functions.is_empty() && self.removal.is_none() {
            let response = self.response.take();
            return Ok(Applied::Accepted { response });
        }
        let response = self.response.as_ref();
        let newest = match response.filter(|response| !is_known(response, body)) {
            Some(response) => response.body_with(operator.managed_fields)?,
            None => body.clone(),
        };
        self.transform(&target, &newest, &log).await
    }

    /// Sends the merge patches. Returns `false` if the object does not exist.
    async fn merge(&mut self, target: &Fenced<'_>, log: &PatchLog) -> Result<bool, Error> {
        let mut subresources = [None, Some("status")];
        if self.results_first {
            subresources.reverse();
        }
        for subresource in subresources {
            let (payload, other) = match subresource {
                None => (&mut self.main, &self.status),
                Some(_) => (&mut self.status, &self.main),
            };
            let Some(sent) = payload else { continue };
            log.merging(subresource, sent);
            // Another response follows, and metadata cannot be dropped by a schema.
            if other.is_some() && is_metadata(sent) {
                let kind = PatchKind::Merge;
                if !target.patch_unread(subresource, kind, sent).await? {
                    return Ok(false);
                }
            } else {
                let sending = target.patch(subresource, PatchKind::Merge, sent).await;
                let Some(accepted) = sending? else {
                    return Ok(false);
                };
                log.verify(sent, &accepted);
                self.response = Some(accepted);
            }
            *payload = None;
        }
        Ok(true)
    }

    /// Calls the functions with the newest body, and sends their changes as JSON patches, together
    /// with the removal of the finalizer.
    async fn transform(
        &mut self,
        target: &Fenced<'_>,
        newest: &Body,
        log: &PatchLog,
    ) -> Result<Applied, Error> {
        let mut version = newest.resource_version().unwrap_or_default().to_owned();
        let mut calls = self.calls(target, newest).await?;
        while let Some(call) = calls.pop_front() {
            let payload = call.payload(&version);
            log.transforming(call.subresource, &payload);
            let sending = target.patch(call.subresource, PatchKind::Json, &payload);
            match sending.await {
                Ok(Some(accepted)) => {
                    let accepted = self.response.insert(accepted).part();
                    version = accepted.resource_version().unwrap_or_default().to_owned();
                }
                Ok(None) => return Ok(Applied::NotFound),
                Err(Error::Api(error)) if error.is_failed_test() => {
                    let functions = std::mem::take(&mut self.functions);
                    let labels = functions.iter().map(PatchFn::label);
                    let removal = self.removal.as_ref().map(|_| Removal::LABEL);
                    let labels: Vec<_> = labels.chain(removal).collect();
                    log.logger.debug(wording::patch_conflict(labels.join(", ")));
                    return Ok(Applied::Conflict {
                        response: self.response.take(),
                        functions,
                    });
                }
                Err(error) => return Err(error),
            }
            if calls.iter().all(|call| call.transformed.is_empty()) {
                // Their effect must not be repeated if the finalizer cannot be removed.
                self.functions.clear();
            }
        }
        self.functions.clear();
        let response = self.response.take();
        Ok(Applied::Accepted { response })
    }

    /// Returns the JSON patches for this version of the object.
    async fn calls(&self, target: &Fenced<'_>, body: &Body) -> Result<VecDeque<JsonCall>, Error> {
        let has_status = target.target.resource.has_status();
        let changing = AssertUnwindSafe(transform(&self.functions, body.value()));
        let changed = changing.catch_unwind().await;
        let changed = changed.map_err(|panic| Error::Panic(describe_panic(&*panic)))??;
        let transformed = json_calls_between(body.value(), &changed, has_status)?;
        let removal = match &self.removal {
            Some(removal) => removal.operations(&changed, has_status)?,
            None => Vec::new(),
        };
        let is_last = !removal.is_empty();
        let mut calls = VecDeque::from([JsonCall {
            subresource: None,
            transformed: transformed.main,
            removal,
        }]);
        let status = JsonCall {
            subresource: Some("status"),
            transformed: transformed.status,
            removal: Vec::new(),
        };
        // The object can end with its finalizer.
        if is_last {
            calls.push_front(status);
        } else {
            calls.push_back(status);
        }
        calls.retain(|call| !call.transformed.is_empty() || !call.removal.is_empty());
        Ok(calls)
    }
}

/// One JSON patch.
#[derive(Debug)]
struct JsonCall {
    subresource: Option<&'static str>,
    /// The changes by functions, which depend on the whole object.
    transformed: Vec<Value>,
    /// The removal of the finalizer, which has its own tests.
    removal: Vec<Value>,
}

impl JsonCall {
    /// Returns the payload. Transformations are rejected unless the object has this version.
    fn payload(&self, version: &str) -> Value {
        if self.transformed.is_empty() {
            return Value::Array(self.removal.clone());
        }
        let operations = [&self.transformed[..], &self.removal].concat();
        with_version_test(operations, version)
    }
}

/// An object that is patched only while its Lease is held.
struct Fenced<'a> {
    target: Target<'a>,
    pass: &'a Pass,
}

impl Fenced<'_> {
    async fn patch(
        &self,
        subresource: Option<&str>,
        kind: PatchKind,
        payload: &Value,
    ) -> Result<Option<PatchResponse>, Error> {
        let sending = self.target.patch(subresource, kind, payload);
        let sent = self.pass.fenced(sending).await;
        Ok(sent.ok_or(Error::NotHeld)??)
    }

    async fn patch_unread(
        &self,
        subresource: Option<&str>,
        kind: PatchKind,
        payload: &Value,
    ) -> Result<bool, Error> {
        let sending = self.target.patch_unread(subresource, kind, payload);
        let sent = self.pass.fenced(sending).await;
        Ok(sent.ok_or(Error::NotHeld)??)
    }
}

/// Returns `true` if a version is at least as new as a response.
fn is_known(response: &PatchResponse, body: &Body) -> bool {
    let versions = (body.resource_version(), response.part().resource_version());
    matches!(versions, (Some(known), Some(version)) if reaches(known, version))
}

/// Returns `true` if the payload has only metadata, which has no schema that could drop fields.
fn is_metadata(payload: &Value) -> bool {
    let fields = payload.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| key == "metadata"))
}

/// Logger of patches. Values of Secrets are redacted.
struct PatchLog {
    logger: ObjectLogger,
    style: Style,
    is_secret: bool,
}

impl PatchLog {
    fn merging(&self, subresource: Option<&str>, payload: &Value) {
        if !self.logger.is_debug_enabled() {
            return;
        }
        let redacted = self.is_secret.then(|| redact_body(payload));
        let payload = redacted.as_ref().unwrap_or(payload);
        match subresource {
            None => self.debug(wording::merge_patching_resource(payload, self.style)),
            Some(_) => self.debug(wording::merge_patching_status(payload, self.style)),
        }
    }

    fn transforming(&self, subresource: Option<&str>, operations: &Value) {
        if !self.logger.is_debug_enabled() {
            return;
        }
        let redacted = self.is_secret.then(|| redact_operations(operations));
        let operations = redacted.as_ref().unwrap_or(operations);
        match subresource {
            None => self.debug(wording::json_patching_resource(operations, self.style)),
            Some(_) => self.debug(wording::json_patching_status(operations, self.style)),
        }
    }

    /// Logs a warning if the server has dropped or changed values, as it does with fields that are
    /// not in the schema.
    fn verify(&self, payload: &Value, response: &PatchResponse) {
        let mut differences = Vec::new();
        let stored = response.part().value();
        for (key, sent) in payload.as_object().into_iter().flatten() {
            if key != "metadata" && stored.get(key) != Some(sent) {
                let sent = json!({ key: sent });
                differences.extend(inconsistencies(&sent, stored).iter().cloned());
            }
        }
        let mut differences: Diff = differences.into_iter().collect();
        if self.is_secret {
            differences = redact_diff(&differences);
        }
        if !differences.is_empty() {
            let message = wording::inconsistencies(&differences, self.style);
            self.logger.warning(message);
        }
    }

    fn debug(&self, message: impl Display) {
        self.logger.debug(message);
    }
}
