//! Sub-handlers of handlers.

use kopf_core::outcome::HandlerError;
use kopf_engine::execution;

use crate::error::{Error, Result};
use crate::extract::{Context, Declared, Extract, OptionalExtract, Rejection};
use crate::handler::SubHandler;
use crate::on::kinds::Sub;
use crate::on::{self, HandlerBuilder};

/// The registry of sub-handlers of a handler. For handlers of changes only.
///
/// Sub-handlers have their own progress, retries and results, under the id of the handler and their
/// own id: `create_items/first`. The handler is finished when all of them are. Until then, it is
/// called again and has to register them again. They run when the handler returns, or at
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
    /// The closure can consume captured values, because it is called at most once per registration.
    /// The error of a `Result` is [`kopf::Error`](Error), so that closures need no type
    /// annotations.
    ///
    /// If it cannot be registered (its id is empty or cannot be stored), the handler fails
    /// permanently when it returns, and none of its sub-handlers is called.
    pub fn register<M>(&self, id: impl Into<String>, function: impl SubHandler<M>) {
        if let Err(problem) = self.add(on::subhandler(id, function)) {
            self.0.refuse(HandlerError::permanent(problem));
        }
    }

    /// Registers a sub-handler with options.
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
    /// Permanent, if its options contradict each other, if it has `old` or `new` in a handler
    /// without these values, or if its id cannot be stored.
    pub fn handler(&self, handler: HandlerBuilder<Sub>) -> Result<()> {
        self.add(handler).map_err(crate::permanent)
    }

    /// Runs the due sub-handlers now instead of when the handler returns.
    ///
    /// # Errors
    /// If not all of them are finished. Return the error from the handler unchanged, with `?`: the
    /// handler is called again when the next sub-handler is due.
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
