//! Conversions of objects between versions by handlers.

use std::sync::Arc;

use kopf_core::admission::Refusal;
use kopf_core::body::Body;
use kopf_core::cause::Cause;
use kopf_core::conversion::{ConversionReview, accept, steps};
use kopf_core::handler::{Handler, HandlerKind};
use kopf_core::resource::Resource;
use serde_json::Value;
use tokio::sync::watch;

use crate::errors::describe;
use crate::execution::{AttemptContext, PriorAttempts};
use crate::invocation::{Function, Registry, SharedPatch, Subject};
use crate::logger::ObjectLogger;
use crate::observation::Resources;
use crate::shared::Shared;

/// Returns the conversion handlers.
pub(super) fn handlers(registry: &Registry) -> Vec<Arc<Handler<Function>>> {
    let handlers = registry.handlers().iter();
    handlers
        .filter(|handler| handler.kind == HandlerKind::Convert)
        .cloned()
        .collect()
}

/// The conversions of one operator.
#[derive(Debug)]
pub(super) struct Converter {
    shared: Arc<Shared>,
    handlers: Vec<Arc<Handler<Function>>>,
    resources: watch::Receiver<Option<Resources>>,
}

impl Converter {
    pub(super) fn new(shared: Arc<Shared>, resources: watch::Receiver<Option<Resources>>) -> Self {
        Self {
            handlers: handlers(&shared.registry),
            shared,
            resources,
        }
    }

    pub(super) fn has_callbacks(&self) -> bool {
        self.handlers.iter().any(|handler| handler.has_callbacks())
    }

    /// Converts all objects of a review. If one of them fails, all fail, as defined by the API.
    pub(super) async fn convert(&self, review: Value) -> Result<Value, Refusal> {
        let mut review = ConversionReview::read(review)?;
        let mut converted = Vec::with_capacity(review.objects.len());
        for object in std::mem::take(&mut review.objects) {
            match self.convert_one(object, &review.desired).await {
                Ok(object) => converted.push(object),
                Err(message) => return Ok(review.fail(&message)),
            }
        }
        Ok(review.succeed(converted))
    }

    /// Converts one object step by step. The error names the object and the handler.
    async fn convert_one(&self, object: Value, desired: &str) -> Result<Value, String> {
        let body = Body::new(object);
        let poster = self.shared.poster.clone();
        let logger = ObjectLogger::new(Arc::new(body.reference()), Some(poster)).local();
        let failed = |reason: String| {
            let message = format!("cannot convert {} to {desired}: {reason}", body.reference());
            logger.error(&message);
            message
        };
        let (group, source) = split(body.get("apiVersion").as_str().unwrap_or_default());
        let (desired_group, target) = split(desired);
        if group != desired_group {
            return Err(failed("the API groups differ".to_owned()));
        }
        let resources = self.resources_of(group, body.get("kind"));
        let handlers: Vec<_> = self
            .handlers
            .iter()
            .filter(|handler| selects(handler, &resources))
            .cloned()
            .collect();
        let Some(steps) = steps(&handlers, source, target) else {
            return Err(failed(format!(
                "no handlers of on.convert lead from {source} to {target}"
            )));
        };
        let resource = resources.first().cloned().unwrap_or_default();
        let mut object = body.value().clone();
        for step in &steps {
            let converted = self.step(step, &object, group, &resource, &logger).await;
            object =
                converted.map_err(|reason| failed(format!("handler '{}': {reason}", step.id)))?;
        }
        Ok(object)
    }

    /// Calls one handler. The result is the returned object, or the given one if none is returned,
    /// with the patch applied.
    async fn step(
        &self,
        handler: &Handler<Function>,
        object: &Value,
        group: &str,
        resource: &Arc<Resource>,
        logger: &ObjectLogger,
    ) -> Result<Value, String> {
        let context = &self.shared.context;
        let cause = Arc::new(Cause::new(Arc::clone(resource), Body::new(object.clone())));
        let patch = SharedPatch::default();
        let subject = Subject::Object(cause);
        let calling = AttemptContext::new(context, &self.shared.executor.pool, logger, subject)
            .with_memo(context.memo.of_object())
            .with_patch(patch.clone());
        let prior = PriorAttempts::none(context.clock.now());
        let outcome = calling.attempt(handler, prior).await;
        if let Some(error) = outcome.error {
            return Err(error);
        }
        let returned = outcome.value.unwrap_or_else(|| object.clone());
        let patched = patched(returned, patch)
            .await
            .map_err(|error| describe(&*error))?;
        let target = handler.conversion.as_ref().map(|versions| &versions.target);
        let target = target.map_or("", |target| target.as_str());
        let api_version = if group.is_empty() {
            target.to_owned()
        } else {
            format!("{group}/{target}")
        };
        accept(object, patched, &api_version).map_err(|error| error.to_string())
    }

    /// Returns the resource of a kind in all versions.
    fn resources_of(&self, group: &str, kind: &Value) -> Vec<Arc<Resource>> {
        let resources = self.resources.borrow().clone().unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default();
        let is_meant = |resource: &&Arc<Resource>| resource.group == group && resource.kind == kind;
        resources.iter().filter(is_meant).cloned().collect()
    }
}

/// Returns `true` if a handler selects the resource in any version.
pub(super) fn selects(handler: &Handler<Function>, resources: &[Arc<Resource>]) -> bool {
    let selector = handler.selector.as_ref();
    selector.is_some_and(|selector| resources.iter().any(|resource| selector.check(resource)))
}

async fn patched(object: Value, patch: SharedPatch) -> Result<Value, kopf_core::patch::BoxError> {
    let patch = patch.take();
    if patch.is_empty() {
        return Ok(object);
    }
    let mut object = patch.merged_into(object);
    for function in &patch.fns {
        function.apply(&mut object).await?;
    }
    Ok(object)
}

fn split(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}
