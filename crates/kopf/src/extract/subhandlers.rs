//! Handlers inside of handlers.

use kopf_core::outcome::HandlerError;
use kopf_engine::execution;

use super::{Context, Declared, Extract, OptionalExtract, Rejection};
use crate::error::{Error, Result};
use crate::handler::SubHandler;
use crate::on::{self, HandlerBuilder, Sub};

/// Where a handler registers its sub-handlers. For handlers of changes only.
///
/// Sub-handlers have their own progress, retries and results, under the id of the handler and
/// their own one: `create_items/first`. The handler is over when all of them are; until then, it is
/// called again, and registers them again. They are run when the handler returns, or at
/// [`execute`](Self::execute).
///
/// ```
/// use kopf::SubHandlers;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_items(Spec(spec): Spec, subs: SubHandlers) {
///     for item in spec["items"].as_array().into_iter().flatten() {
///         let item = item.as_str().unwrap_or_default().to_owned();
///         subs.register(item.clone(), move |logger: Logger| async move {
///             logger.info(format_args!("creating {item}"));
///             Ok(())
///         });
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct SubHandlers(execution::SubHandlers);

impl SubHandlers {
    /// Registers a closure or a function as a sub-handler, with arguments like those of handlers.
    ///
    /// The closure can consume what it has captured: it is called once at most, for as long as
    /// the handler runs. If it returns a `Result`, the error is [`kopf::Error`](Error), so that
    /// closures need not say so.
    ///
    /// If it cannot be registered (its id is empty, or cannot be stored), the handler fails
    /// permanently when it returns, and none of its sub-handlers is called.
    pub fn register<M>(&self, id: impl Into<String>, function: impl SubHandler<M>) {
        if let Err(problem) = self.add(on::subhandler(id, function)) {
            self.0.refuse(HandlerError::permanent(problem));
        }
    }

    /// Registers a sub-handler that has options.
    ///
    /// ```
    /// use kopf::prelude::*;
    /// use kopf::{Param, SubHandlers};
    ///
    /// async fn step(Param(number): Param<u32>, retry: Retry) -> kopf::Result<u32> {
    ///     Ok(number + retry.0)
    /// }
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// fn create_fn(subs: SubHandlers) -> kopf::Result<()> {
    ///     for number in 1..=3_u32 {
    ///         let id = format!("step-{number}");
    ///         subs.handler(on::subhandler(id, step).param(number).retries(5).backoff(10))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Permanent, if its options contradict each other, or it has `old`/`new` in a handler that
    /// knows none, or its id cannot be stored.
    pub fn handler(&self, handler: HandlerBuilder<Sub>) -> Result<()> {
        self.add(handler).map_err(crate::permanent)
    }

    /// Runs the registered sub-handlers that are due, now rather than when the handler returns.
    ///
    /// # Errors
    /// While not all of them are over. It is to be returned from the handler with `?`, as it is: then
    /// the handler is called again when the next sub-handler is due.
    pub async fn execute(&self) -> Result<()> {
        self.0.execute().await.map_err(Error::from_engine)
    }

    fn add(&self, builder: HandlerBuilder<Sub>) -> Result<(), String> {
        let handler = on::build_sub(builder)?;
        self.0.register(handler).map_err(|error| error.to_string())
    }
}

impl Extract for SubHandlers {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Self::extract_optional(context)?.ok_or(Rejection::NoChange {
            argument: "SubHandlers",
        })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.changes("SubHandlers")
    }
}

impl OptionalExtract for SubHandlers {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(context.call("SubHandlers")?.subs.clone().map(Self))
    }
}
