//! Reviews of requests by admission handlers.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kopf_core::admission::{
    CertificateStore, ClientConfig, Incoming, Operation, Refusal, Review, Serving, WebhookType,
    check_handler, json_patch, json_patch_awaited, respond, select,
};
use kopf_core::body::ManagedFields;
use kopf_core::conversion::is_conversion;
use kopf_core::handler::{Handler, HandlerKind};
use kopf_core::outcome::Outcome;
use kopf_core::patch::PatchFn;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::certificates::Secrets;
use super::conversion::Converter;
use super::served_resources::ServedResources;
use crate::clock::Clock;
use crate::errors::describe;
use crate::execution::{AttemptContext, PriorAttempts};
use crate::identity::Identity;
use crate::indexing::ObjectKey;
use crate::invocation::{Admission, FilterContext, Function, Hosting, SharedPatch, Subject};
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;
use crate::metrics::ReviewLabel;
use crate::shared::Shared;

/// The interface of the operator for its webhook server.
#[derive(Debug)]
pub(super) struct Reviewer {
    shared: Arc<Shared>,
    served_resources: Arc<ServedResources>,
    converter: Converter,
    handlers: Vec<Arc<Handler<Function>>>,
    announced: watch::Sender<Option<ClientConfig>>,
    reviews: TaskTracker,
    /// The host that polls reviews.
    hosting: Hosting,
}

impl Reviewer {
    pub(super) fn new(
        shared: Arc<Shared>,
        served_resources: Arc<ServedResources>,
        converter: Converter,
        announced: watch::Sender<Option<ClientConfig>>,
        reviews: TaskTracker,
    ) -> Self {
        let handlers = shared.registry.handlers().iter();
        let handlers = handlers
            .filter(|handler| handler.kind.webhook_type().is_some())
            .cloned()
            .collect::<Vec<_>>();
        let has_callbacks =
            handlers.iter().any(|handler| handler.has_callbacks()) || converter.has_callbacks();
        Self {
            hosting: Hosting::of(&shared.context, has_callbacks),
            shared,
            served_resources,
            converter,
            handlers,
            announced,
            reviews,
        }
    }

    /// Reviews a request with the memo of its object.
    async fn reviewed(&self, incoming: Incoming) -> Result<Value, Refusal> {
        if is_conversion(&incoming.review) {
            return self.converter.convert(incoming.review).await;
        }
        let context = &self.shared.context;
        let began = Instant::now();
        let review = match Review::read(incoming, self.served_resources.current().iter()) {
            Ok(review) => review,
            Err(refusal) => {
                context
                    .metrics
                    .review(None, ReviewLabel::Error, began.elapsed());
                return Err(refusal);
            }
        };
        let resource = Arc::clone(&review.resource);
        let object = memo_key(&review);
        let memo = match &object {
            Some(object) => self.shared.memos.recall(object, &context.memo),
            None => context.memo.of_object(),
        };
        let admission = Arc::new(Admission::new(review));
        let response = self.respond(&admission, &memo).await;
        if let Some(object) = &object {
            self.shared.memos.keep(object, &memo);
        }
        let outcome = outcome_label(&response);
        let metrics = &context.metrics;
        metrics.review(Some(&resource), outcome, began.elapsed());
        response
    }

    /// Calls the selected handlers one after another. They share the patch and the warnings.
    async fn respond(&self, admission: &Arc<Admission>, memo: &MemoCell) -> Result<Value, Refusal> {
        let Admission {
            cause,
            review,
            warnings,
        } = &**admission;
        let poster = self.shared.poster.clone();
        let logger = ObjectLogger::new(Arc::new(review.reference()), Some(poster)).local();
        check_handler(&self.handlers, review.webhook.as_deref()).inspect_err(|refusal| {
            logger.warning(format_args!(
                "A review is rejected: {refusal}. The path is set in a webhook configuration."
            ));
        })?;
        let context = &self.shared.context;
        let filtering = FilterContext::new(Arc::clone(context), memo.clone(), &logger)
            .with_admission(Arc::clone(admission));
        let handlers = select(&self.handlers, review, None, cause, &filtering)
            .map_err(|error| internal(&logger, &error))?;
        let patch = SharedPatch::default();
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(handlers.len());
        for handler in &handlers {
            let subject = Subject::Admission(Arc::clone(admission));
            let pool = &self.shared.executor.pool;
            let calling = AttemptContext::new(context, pool, &logger, subject)
                .with_memo(memo.clone())
                .with_patch(patch.clone());
            outcomes.push(self.attempt(handler, calling, &logger).await);
        }
        let patch = patch.take();
        let operations = if patch.fns.iter().any(PatchFn::is_awaited) {
            json_patch_awaited(&patch, cause.body.value()).await
        } else {
            json_patch(&patch, cause.body.value())
        };
        let operations = operations.map_err(|error| internal(&logger, &error))?;
        if !operations.is_empty() {
            warn_of_patch(review, &handlers, &logger);
        }
        Ok(respond(review, &outcomes, &warnings.list(), &operations))
    }

    /// Calls one handler. Logs a warning if the client disconnects meanwhile.
    async fn attempt(
        &self,
        handler: &Arc<Handler<Function>>,
        calling: AttemptContext<'_>,
        logger: &ObjectLogger,
    ) -> Outcome {
        let clock = self.shared.context.clock;
        let before = PriorAttempts {
            retries: 0,
            started: clock.now(),
        };
        let waited_for = WaitedFor {
            id: &handler.id,
            since: before.started,
            clock,
            logger,
            is_over: false,
        };
        let outcome = calling.attempt(handler, before).await;
        waited_for.end();
        outcome
    }
}

fn outcome_label(response: &Result<Value, Refusal>) -> ReviewLabel {
    match response {
        Ok(response) if response["response"]["allowed"] == true => ReviewLabel::Allowed,
        Ok(_) => ReviewLabel::Denied,
        Err(_) => ReviewLabel::Error,
    }
}

/// Logs warnings about patches that the API server rejects.
fn warn_of_patch(review: &Review, handlers: &[Arc<Handler<Function>>], logger: &ObjectLogger) {
    let mutating = HandlerKind::Admission(WebhookType::Mutating);
    if handlers.iter().all(|handler| handler.kind != mutating) {
        logger.warning(
            "Validating handlers have changed the object, which the server rejects: use mutating \
             handlers.",
        );
    }
    if review.operation == Some(Operation::Delete) {
        logger.warning(
            "Handlers have changed an object in deletion. The server rejects deletions with \
             changes.",
        );
    }
}

/// Guard of a running handler. When the client disconnects, usually after a timeout, the review is
/// dropped together with the guard.
struct WaitedFor<'a> {
    id: &'a str,
    since: Timestamp,
    clock: Clock,
    logger: &'a ObjectLogger,
    is_over: bool,
}

impl WaitedFor<'_> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for WaitedFor<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let time = self.clock.now().duration_since(self.since);
            let (id, seconds) = (self.id, time.as_secs_f64());
            self.logger.warning(format_args!(
                "Webhook '{id}' is cancelled after {seconds:.1} seconds: the client has \
                 disconnected. API servers wait for at most 30 seconds."
            ));
        }
    }
}

/// Returns the key of the object's memo. Objects in creation have no uid yet, and the body of a
/// connection (`pods/exec`) is not the object itself.
fn memo_key(review: &Review) -> Option<ObjectKey> {
    if review.operation == Some(Operation::Create) {
        return None;
    }
    let body = &review.body;
    let identity = Identity::new(Some(body.uid()?), body.namespace(), body.name());
    Some(ObjectKey::new(&identity, &review.resource))
}

/// Logs an error of the operator and returns the refusal for it.
fn internal(logger: &ObjectLogger, error: &(dyn std::error::Error + 'static)) -> Refusal {
    let text = describe(error);
    logger.error(format_args!("The object cannot be reviewed: {text}"));
    Refusal::Internal(text)
}

/// The reviewer behind a webhook server.
#[derive(Debug)]
pub(super) struct ReviewService(pub(super) Arc<Reviewer>);

impl Serving for ReviewService {
    fn review(&self, incoming: Incoming) -> BoxFuture<'_, Result<Value, Refusal>> {
        let reviewer = Arc::clone(&self.0);
        let review = async move {
            let _under_way = reviewer.reviews.token();
            let reviewed = reviewer.reviewed(incoming).await;
            reviewed.inspect_err(|refusal| debug!("A review is refused: {refusal}"))
        };
        self.0.hosting.run(&self.0.shared.context, review)
    }

    fn announce(&self, config: ClientConfig) {
        self.0.announced.send_replace(Some(config));
    }

    fn api_certificate(&self) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(self.0.shared.context.client.server_certificate())
    }

    fn api_version(&self) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async { self.0.shared.context.client.get_json("/version").await.ok() })
    }

    fn namespace(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            let suggested = self.0.shared.context.client.suggested_namespace().await;
            suggested
                .ok()
                .flatten()
                .map(|namespace| namespace.to_string())
        })
    }

    fn keeps_key_order(&self) -> bool {
        self.0.shared.context.managed_fields == ManagedFields::Keep
    }

    fn is_loopback(&self) -> bool {
        self.0.shared.context.settings.admission.loopback
    }

    fn certificate_store(&self) -> Option<Arc<dyn CertificateStore>> {
        let context = &self.0.shared.context;
        let secrets = Secrets::new(context.client.clone(), Arc::clone(&context.settings));
        secrets.map(|secrets| Arc::new(secrets) as Arc<dyn CertificateStore>)
    }
}
