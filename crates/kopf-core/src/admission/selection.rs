//! Which handlers are to answer a request.

use std::any::Any;
use std::sync::Arc;

use super::naming::is_called;
use super::{Operation, Review, WebhookType};
use crate::cause::Cause;
use crate::filter::{self, Error};
use crate::handler::{Handler, HandlerKind};

/// The handlers for admission that are to be called, in order, each function once per id.
///
/// The operation is left to the server, which was told of it, except that nothing is changed on
/// what is to be deleted, unless that is what a handler is for.
///
/// # Errors
///
/// If a filter of a handler fails: then nobody knows whether to admit.
pub fn select<F>(
    handlers: &[Arc<Handler<F>>],
    review: &Review,
    asked: Option<WebhookType>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<Vec<Arc<Handler<F>>>, Error> {
    let mut selected: Vec<Arc<Handler<F>>> = Vec::new();
    for handler in handlers {
        let is_repeated = || {
            selected
                .iter()
                .any(|other| other.function == handler.function && other.id == handler.id)
        };
        if is_asked(handler, review, asked)
            && !is_repeated()
            && filter::matches(handler, cause, context)?
        {
            selected.push(Arc::clone(handler));
        }
    }
    Ok(selected)
}

fn is_asked<F>(handler: &Handler<F>, review: &Review, asked: Option<WebhookType>) -> bool {
    let HandlerKind::Admission(type_) = handler.kind else {
        return false;
    };
    let is_deletion = review.operation == Some(Operation::Delete);
    let changes_what_goes =
        type_ == WebhookType::Mutating && is_deletion && !handler.webhook.is_for_deletions_only();
    asked.is_none_or(|asked| asked == type_)
        && review
            .webhook
            .as_deref()
            .is_none_or(|called| is_called(&handler.id, called))
        && !changes_what_goes
        && handler.webhook.is_for(review.subresource.as_deref())
}
