//! Reconcile handlers: one function for everything that can make an object differ from its desired state.

use kopf_core::handler::{HandlerKind, Reconciliation};
use kopf_core::trigger::Requeue;
use kopf_engine::invocation::HandlerResult;

use super::HandlerBuilder;
use super::kinds::{ForObjects, Kind, Retried, RetriedByChildren};
use crate::handler::{self, HandlerFunction, Prepared, Purpose, functions};
use crate::outcome::IntoError;
use crate::seconds::IntoDuration;
use crate::selecting::IntoSelect;

/// Handlers of [`on::reconcile`](reconcile()).
#[derive(Debug, Clone, Copy)]
pub struct Reconcile;

impl Kind for Reconcile {
    const KIND: HandlerKind = HandlerKind::Reconcile(Reconciliation::PLAIN);
}

impl ForObjects for Reconcile {}
impl Retried for Reconcile {}
impl RetriedByChildren for Reconcile {}

/// A return value of reconcile handlers: `()`, [`Requeue`], or a `Result` of these with any error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a reconcile handler",
    label = "not a result of reconcile handlers",
    note = "return `()`, `kopf::Requeue`, `kopf::Result<()>` or `kopf::Result<kopf::Requeue>`; write other \
            results to the status with `kopf::Patch`"
)]
pub trait IntoRequeue {
    /// Converts the value.
    ///
    /// # Errors
    /// The error of the handler.
    fn into_requeue(self) -> crate::Result<Requeue>;
}

impl IntoRequeue for () {
    fn into_requeue(self) -> crate::Result<Requeue> {
        Ok(Requeue::never())
    }
}

impl IntoRequeue for Requeue {
    fn into_requeue(self) -> crate::Result<Requeue> {
        Ok(self)
    }
}

impl<T: IntoRequeue, E: IntoError> IntoRequeue for Result<T, E> {
    fn into_requeue(self) -> crate::Result<Requeue> {
        self.map_err(IntoError::into_error)?.into_requeue()
    }
}

/// A function that can be a reconcile handler: async or blocking, with up to 16 arguments that can be
/// [extracted](crate::extract), and the result `()`, [`Requeue`] or a `Result` of these.
///
/// `M` contains the types of the arguments. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a reconcile handler",
    label = "not a reconcile handler",
    note = "a reconcile handler is `async fn` or `fn`, with arguments that are extractors (see `kopf::extract`), \
            and a result such as `kopf::Result<kopf::Requeue>`; its future must be `Send`",
    note = "`#[kopf::on::reconcile(…)]` on the function reports the mismatch"
)]
pub trait ReconcileFunction<M> {
    /// Erases the type of the function.
    fn into_function(self) -> HandlerFunction;
}

#[diagnostic::do_not_recommend]
impl ReconcileFunction<Prepared> for HandlerFunction {
    fn into_function(self) -> HandlerFunction {
        self
    }
}

/// Stores the request in the call's slot for the engine.
pub(crate) fn store_requeue<R: IntoRequeue>(result: R) -> HandlerResult {
    let requeue = result.into_requeue().map_err(crate::Error::into_engine)?;
    if let Some(call) = kopf_engine::current() {
        call.slot.put(requeue);
    }
    Ok(None)
}

/// Functions whose results are requests for their next call.
struct Requeueing;

impl<R: IntoRequeue> Purpose<R> for Requeueing {
    fn finish(result: R) -> HandlerResult {
        store_requeue(result)
    }
}

handler::all_lengths!(functions(ReconcileFunction IntoRequeue Requeueing;));

/// Calls the function whenever an object may differ from its desired state: when it is created or changed,
/// when the operator starts, when an object that it owns changes, and after a period.
///
/// The function compares the desired state with the actual one and corrects it. Several reasons lead to
/// one call, there is one call at a time for an object, and none while other handlers of its changes run.
/// [`Triggers`](crate::Triggers) contains the reasons; the result can be a [`Requeue`](crate::Requeue), to
/// be called again after some time.
///
/// ```
/// use kopf::k8s_openapi::api::apps::v1::Deployment;
/// use kopf::prelude::*;
/// use kopf::{Children, Requeue, Triggers};
///
/// #[kopf::on::reconcile("kopfexamples", owns = [Deployment, "services"], every = "5m")]
/// async fn sync(Spec(spec): Spec, triggers: Triggers, children: Children) -> kopf::Result<Requeue> {
///     tracing::info!("reconciling because of: {triggers}");
///     children.apply(&json!({
///         "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec["deployment"],
///     })).await?;
///     Ok(Requeue::after(kopf::duration!("30s")))
/// }
/// ```
///
/// # Options
///
/// In addition to those of [other handlers](super), except `field`, `value`, `old` and `new`:
///
/// | option | meaning |
/// |---|---|
/// | `owns = [Deployment, "services"]` | the kinds of owned objects whose changes are triggers |
/// | `every = "5m"` | the time from the end of a call to the next one |
/// | `finalizer = true` | the function is also called for objects that are being deleted, before they are gone |
///
/// # State on objects
///
/// The handler leaves no trace on objects: neither a diff-base nor, without `finalizer`, a finalizer. Only
/// while it is retried after an error, there is a progress record under its id.
pub fn reconcile<S, M>(
    resource: impl IntoSelect<S>,
    function: impl ReconcileFunction<M>,
) -> HandlerBuilder<Reconcile> {
    let select = resource.into_select();
    let definition = select.definition();
    HandlerBuilder::declare(Some(select.build()), function.into_function()).defined_by(definition)
}

impl HandlerBuilder<Reconcile> {
    /// Sets the time from the end of a call to the next one, if nothing else happens. Default: the handler
    /// is called for changes only.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::reconcile("kopfexamples", f).every(300);
    /// ```
    pub fn every(mut self, every: impl IntoDuration) -> Self {
        let every = self.duration("every", every);
        self.options(|options| options.every = every)
    }

    /// Sets whether the handler is also called for objects that are being deleted. They have a finalizer
    /// then, and are not gone before the handler has succeeded.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::reconcile("kopfexamples", f).finalizer(true);
    /// ```
    pub fn finalizer(self, finalizer: bool) -> Self {
        self.options(|options| options.finalizer = finalizer)
    }

    fn options(mut self, change: impl FnOnce(&mut Reconciliation)) -> Self {
        if let HandlerKind::Reconcile(options) = &mut self.inner.kind {
            change(options);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::extract::Front;
    use crate::on::AnyHandler;
    use crate::prelude::*;
    use crate::{Reason, Trigger, Triggers};

    fn build(handler: impl Into<AnyHandler>) -> Result<kopf_engine::invocation::Handler, String> {
        handler.into().build(&Front::default())
    }

    fn sync(triggers: Triggers) -> Requeue {
        if triggers.contains(Trigger::Created) {
            Requeue::after(Duration::from_secs(30))
        } else {
            Requeue::never()
        }
    }

    #[test]
    fn functions_are_called_without_an_operator() {
        let created = sync(Trigger::Created.into());
        assert_eq!(created.delay(), Some(Duration::from_secs(30)));
        assert_eq!(sync(Trigger::Period.into()).delay(), None);
    }

    #[test]
    fn options_reach_the_handler() {
        let handler = on::reconcile("things", sync).every(300).finalizer(true);
        let handler = build(handler.owns(["pods"]).retries(3)).unwrap();
        let expected = Reconciliation {
            every: Some(Duration::from_secs(300)),
            finalizer: true,
        };
        assert_eq!(handler.kind, HandlerKind::Reconcile(expected));
        assert_eq!(handler.owns.len(), 1);
        assert_eq!(handler.retrying.retries, Some(3));
    }

    #[test]
    fn results_are_requests_or_errors() {
        fn delay(result: impl IntoRequeue) -> Result<Option<Duration>, String> {
            let requeue = result.into_requeue();
            requeue
                .map(Requeue::delay)
                .map_err(|error| error.to_string())
        }
        let later = Requeue::after(Duration::from_secs(5));
        assert_eq!(delay(()), Ok(None));
        assert_eq!(delay(later), Ok(Some(Duration::from_secs(5))));
        assert_eq!(
            delay(Ok::<_, crate::Error>(later)),
            Ok(Some(Duration::from_secs(5)))
        );
        assert_eq!(delay(Ok::<(), crate::Error>(())), Ok(None));
        let failed: crate::Result<Requeue> = Err(crate::permanent("never"));
        assert_eq!(delay(failed), Err("never".to_owned()));
    }

    #[test]
    fn misuse_is_an_error() {
        let error = |handler: HandlerBuilder<Reconcile>| build(handler.id("x")).unwrap_err();
        assert_eq!(
            error(on::reconcile("things", || {}).every(0)),
            "handler \"x\": every= must be greater than 0; leave it out to be called for changes only"
        );
        assert_eq!(
            error(on::reconcile("things", || {}).every(-1)),
            "every: invalid duration -1: must be zero or a positive number of seconds"
        );
        assert!(error(on::reconcile("things", || {}).field("spec")).contains("have no field="));
        assert_eq!(
            error(on::reconcile("things", |_: Reason| {})),
            "argument number 1: Reason is for handlers of create, update, delete, resume, field only"
        );
        let triggered = build(on::create("things", |_: Triggers| {}).id("x"));
        assert_eq!(
            triggered.unwrap_err(),
            "argument number 1: Triggers is for handlers of on::reconcile only"
        );
    }
}
