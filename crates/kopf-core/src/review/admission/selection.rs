//! Selection of the handlers that review a request.

use std::any::Any;
use std::sync::Arc;

use super::naming::is_called;
use super::{Operation, Refusal, Review, WebhookType};
use crate::cause::Cause;
use crate::handler::{Handler, HandlerKind};
use crate::matching::{self, FilterError};

/// Returns the admission handlers to call, in registration order, each function once per id.
///
/// A handler is selected if its type, id, operations, subresource and filters match the review.
/// Mutating handlers are skipped for deletions unless `DELETE` is their only operation: there is
/// nothing to change in a deleted object. A review without an operation matches all operations.
///
/// # Errors
///
/// If a filter fails: skipping its handler would admit unchecked objects.
pub fn select<F>(
    handlers: &[Arc<Handler<F>>],
    review: &Review,
    asked: Option<WebhookType>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<Vec<Arc<Handler<F>>>, FilterError> {
    let mut selected: Vec<Arc<Handler<F>>> = Vec::new();
    for handler in handlers {
        let is_repeated = || {
            selected
                .iter()
                .any(|other| other.function == handler.function && other.id == handler.id)
        };
        if is_requested(handler, review, asked)
            && !is_repeated()
            && matching::matches(handler, cause, context)?
        {
            selected.push(Arc::clone(handler));
        }
    }
    Ok(selected)
}

/// Checks that the handler named by the path exists.
///
/// # Errors
///
/// [`Refusal::UnknownHandler`] if no admission handler has this id. Admitting the request instead
/// would silently disable a webhook whose configuration is outdated or mistyped.
pub fn check_handler<F>(
    handlers: &[Arc<Handler<F>>],
    webhook: Option<&str>,
) -> Result<(), Refusal> {
    let Some(id) = webhook.filter(|id| !id.is_empty()) else {
        return Ok(());
    };
    let mut handlers = handlers
        .iter()
        .filter(|handler| handler.kind.webhook_type().is_some());
    if handlers.any(|handler| is_called(&handler.id, id)) {
        return Ok(());
    }
    Err(Refusal::UnknownHandler(id.to_owned()))
}

fn is_requested<F>(handler: &Handler<F>, review: &Review, asked: Option<WebhookType>) -> bool {
    let HandlerKind::Admission(type_) = handler.kind else {
        return false;
    };
    let webhook = &handler.webhook;
    let is_deletion = review.operation == Some(Operation::Delete);
    let mutates_deleted =
        type_ == WebhookType::Mutating && is_deletion && !webhook.is_for_deletions_only();
    asked.is_none_or(|asked| asked == type_)
        && review
            .webhook
            .as_deref()
            .is_none_or(|called| is_called(&handler.id, called))
        && !mutates_deleted
        && webhook.covers_operation(review.operation)
        && webhook.covers_subresource(review.subresource.as_deref())
}
