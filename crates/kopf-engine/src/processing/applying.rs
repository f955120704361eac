//! From a patch to calls of the API: at most four, each only if there is something to say.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use kopf_client::Client;
use kopf_client::patching::{Answer, PatchKind, Target};
use kopf_core::body::Body;
use kopf_core::diff::Diff;
use kopf_core::patch::{
    Patch, PatchFn, inconsistencies, json_calls_between, transform, with_version_test,
};
use kopf_core::resource::Resource;
use kopf_core::wording;
use serde_json::{Map, Value, json};

use super::Error;
use crate::execution::describe_panic;
use crate::logger::ObjectLogger;

/// How much all annotations of an object may have together; the server's limit.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// A patch on its way. What the server has accepted is not in it any more.
#[derive(Debug)]
pub(crate) struct Pending {
    main: Option<Value>,
    status: Option<Value>,
    functions: Vec<PatchFn>,
    results_first: bool,
}

/// What has become of a patch.
#[derive(Debug)]
pub(crate) enum Applied {
    /// All of it is written; the last answer, if anything was.
    Accepted { answer: Option<Answer> },
    /// The object has changed meanwhile: the functions are to be run on a newer version of it.
    Refused {
        answer: Option<Answer>,
        functions: Vec<PatchFn>,
    },
    /// There is no such object.
    NotFound,
}

impl Pending {
    pub(crate) fn new(mut patch: Patch, resource: &Resource) -> Self {
        let calls = patch.take_merge_calls(resource.has_status());
        Self {
            main: calls.main,
            status: calls.status,
            functions: patch.fns,
            results_first: false,
        }
    }

    /// Writes the status before the rest, or after it, as the original does.
    pub(crate) fn results_first(self, results_first: bool) -> Self {
        Self {
            results_first,
            ..self
        }
    }

    /// Calls the API. After an error, what is left can be applied again.
    pub(crate) async fn apply(
        &mut self,
        client: &Client,
        resource: &Resource,
        body: &Body,
        logger: &ObjectLogger,
    ) -> Result<Applied, Error> {
        let target = Target {
            client,
            resource,
            namespace: body.namespace(),
            name: body.name().ok_or(Error::Nameless)?,
        };
        let logger = logger.local();
        let mut answer: Option<Answer> = None;
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
            match subresource {
                None => logger.debug(wording::merge_patching_resource(sent)),
                Some(_) => logger.debug(wording::merge_patching_status(sent)),
            }
            // Another answer comes at once, and there is nothing to verify in this one.
            if other.is_some() && is_metadata(sent) {
                if !target
                    .patch_unread(subresource, PatchKind::Merge, sent)
                    .await?
                {
                    return Ok(Applied::NotFound);
                }
            } else {
                let answered = target.patch(subresource, PatchKind::Merge, sent).await;
                let Some(accepted) = answered? else {
                    return Ok(Applied::NotFound);
                };
                verify(sent, &accepted, &logger);
                answer = Some(accepted);
            }
            *payload = None;
        }
        if self.functions.is_empty() {
            return Ok(Applied::Accepted { answer });
        }
        let freshest = match &answer {
            Some(answer) => answer.body()?,
            None => body.clone(),
        };
        let changing = AssertUnwindSafe(transform(&self.functions, freshest.value()));
        let changed = changing.catch_unwind().await;
        let changed = changed.map_err(|panic| Error::Panic(describe_panic(&*panic)))??;
        let calls = json_calls_between(freshest.value(), &changed, resource.has_status())?;
        for (subresource, operations) in [(None, calls.main), (Some("status"), calls.status)] {
            if operations.is_empty() {
                continue;
            }
            let version = answer
                .as_ref()
                .map_or(body, Answer::part)
                .resource_version();
            let payload = with_version_test(operations, version.unwrap_or_default());
            match subresource {
                None => logger.debug(wording::json_patching_resource(&payload)),
                Some(_) => logger.debug(wording::json_patching_status(&payload)),
            }
            match target.patch(subresource, PatchKind::Json, &payload).await {
                Ok(Some(accepted)) => answer = Some(accepted),
                Ok(None) => return Ok(Applied::NotFound),
                Err(error) if error.is_unprocessable() => {
                    let functions = std::mem::take(&mut self.functions);
                    let labels: Vec<_> = functions.iter().map(PatchFn::label).collect();
                    logger.debug(wording::patch_conflict(labels.join(", ")));
                    return Ok(Applied::Refused { answer, functions });
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.functions.clear();
        Ok(Applied::Accepted { answer })
    }
}

/// Refuses what the server would refuse, with all that comes with it, and says what to do.
pub(super) fn check_size(body: &Body, patch: &Patch, added: &Patch) -> Result<(), Error> {
    let (sent, added) = (annotations(patch), annotations(added));
    if sent.is_none() && added.is_none() {
        return Ok(());
    }
    let has =
        |map: Option<&Map<String, Value>>, key: &str| map.is_some_and(|map| map.contains_key(key));
    let kept = body.annotations().iter();
    let kept = kept.filter(|(key, _)| !has(sent, key) && !has(added, key));
    let sent = sent
        .into_iter()
        .flatten()
        .filter(|(key, _)| !has(added, key));
    let size: usize = kept
        .chain(sent)
        .chain(added.into_iter().flatten())
        .filter_map(|(key, value)| Some(key.len() + value.as_str()?.len()))
        .sum();
    if size > ANNOTATIONS_LIMIT {
        let limit = ANNOTATIONS_LIMIT;
        return Err(Error::TooLarge { size, limit });
    }
    Ok(())
}

fn annotations(patch: &Patch) -> Option<&Map<String, Value>> {
    let metadata = patch.merge.get("metadata")?;
    metadata.get("annotations")?.as_object()
}

/// Metadata have no schema: what was sent there is there.
fn is_metadata(payload: &Value) -> bool {
    let fields = payload.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| key == "metadata"))
}

/// What the server has dropped or changed is worth a warning: it may be a schema without a field.
fn verify(payload: &Value, answer: &Answer, logger: &ObjectLogger) {
    // Metadata have no schema: what was sent there is there.
    let mut differences = Vec::new();
    for (key, sent) in payload.as_object().into_iter().flatten() {
        if key != "metadata" {
            let sent = json!({ key: sent });
            differences.extend(
                inconsistencies(&sent, answer.part().value())
                    .iter()
                    .cloned(),
            );
        }
    }
    let differences: Diff = differences.into_iter().collect();
    if !differences.is_empty() {
        logger.warning(wording::inconsistencies(&differences));
    }
}
