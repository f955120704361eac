//! Admission handlers, which the API server calls before it stores an object.

use kopf_core::admission::{Operation, WebhookType};
use kopf_core::handler::HandlerKind;

use super::kinds::{ForObjects, Kind};
use super::{HandlerBuilder, declare};
use crate::handler::Handler;
use crate::selecting::IntoSelect;

/// Handlers of [`on::validate`](super::validate()).
#[derive(Debug, Clone, Copy)]
pub struct Validate;

/// Handlers of [`on::mutate`](super::mutate()).
#[derive(Debug, Clone, Copy)]
pub struct Mutate;

/// A kind of handlers for admission.
#[diagnostic::on_unimplemented(
    message = "only `on::validate` and `on::mutate` are admission handlers: other handlers have no operations and \
               no subresources"
)]
pub trait ForAdmission: Kind {}

impl Kind for Validate {
    const KIND: HandlerKind = HandlerKind::Admission(WebhookType::Validating);
}

impl Kind for Mutate {
    const KIND: HandlerKind = HandlerKind::Admission(WebhookType::Mutating);
}

impl ForObjects for Validate {}
impl ForObjects for Mutate {}
impl ForAdmission for Validate {}
impl ForAdmission for Mutate {}

/// An operation: [`Operation`], or its name in the API.
pub trait IntoOperation {
    /// Converts the value. The error is a message.
    fn into_operation(self) -> Result<Operation, String>;
}

impl IntoOperation for Operation {
    fn into_operation(self) -> Result<Operation, String> {
        Ok(self)
    }
}

impl IntoOperation for &str {
    fn into_operation(self) -> Result<Operation, String> {
        self.parse::<Operation>().map_err(|error| error.to_string())
    }
}

impl IntoOperation for String {
    fn into_operation(self) -> Result<Operation, String> {
        self.as_str().into_operation()
    }
}

/// Calls the function before objects are created, changed or deleted, to accept or reject the
/// request.
///
/// Any error rejects the request; [`denied`](crate::denied) sets the message and the code. The
/// result is ignored. Warnings are always returned to the client.
///
/// A webhook server (`settings.admission.server`) and a webhook configuration in the cluster are
/// required: see [`admission`](crate::admission). The API server waits for at most 30 seconds.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{DryRun, Warnings};
///
/// #[kopf::on::validate("kopfexamples", operations = ["CREATE", "UPDATE"])]
/// fn check(Spec(spec): Spec, warnings: Warnings, DryRun(dry): DryRun) -> kopf::Result<()> {
///     if dry {
///         warnings.push("this is a dry run");
///     }
///     if spec["field"] == "wrong" {
///         return Err(kopf::denied("Not this one.").code(499));
///     }
///     Ok(())
/// }
///
/// // In a test, call it directly.
/// let warnings = Warnings::default();
/// let error = check(Spec(json!({"field": "wrong"}).into()), warnings.clone(), DryRun(true)).unwrap_err();
/// assert_eq!(error.to_string(), "Not this one.");
/// assert_eq!(warnings.list(), ["this is a dry run"]);
/// ```
pub fn validate<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Validate> {
    declare(resource, function)
}

/// Calls the function before objects are created or changed, to change them by its
/// [`Patch`](crate::Patch) or to reject the request.
///
/// Otherwise, it is the same as [`validate`](validate()). It is not called for deletions, unless
/// `DELETE` is its only operation.
///
/// ```
/// use kopf::Patch;
/// use kopf::prelude::*;
///
/// #[kopf::on::mutate("kopfexamples", operation = "CREATE", labels = {"sized": ABSENT})]
/// fn size(Spec(spec): Spec, patch: Patch) {
///     if spec["size"].is_null() {
///         patch.spec().set("size", 10);
///     }
///     patch.meta().label("sized", "yes");
/// }
/// ```
pub fn mutate<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Mutate> {
    declare(resource, function)
}

impl<K: ForAdmission> HandlerBuilder<K> {
    /// Sets the operations to review. Default: all.
    ///
    /// ```
    /// # use kopf::Operation;
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::validate("kopfexamples", f).operations([Operation::Create, Operation::Update]);
    /// let handler = on::validate("kopfexamples", f).operations(["CREATE", "UPDATE"]);
    /// ```
    pub fn operations<O: IntoOperation>(mut self, operations: impl IntoIterator<Item = O>) -> Self {
        self.inner.webhook.add_operations([]);
        for operation in operations {
            self = self.add_operation("operations", operation);
        }
        self
    }

    /// Adds an operation to review.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::validate("kopfexamples", f).operation("CREATE");
    /// ```
    pub fn operation(self, operation: impl IntoOperation) -> Self {
        self.add_operation("operation", operation)
    }

    /// Sets the subresource to review, as in `status`; `*` for the main resource and all its
    /// subresources.
    /// Default: the main resource only.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::validate("kopfexamples", f).subresource("status");
    /// ```
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        let subresource = subresource.into();
        if subresource.is_empty() {
            let problem = "subresource: must not be empty; omit it to review the object itself";
            self.inner.problems.push(problem.to_owned());
        }
        self.inner.webhook.subresource = Some(subresource);
        self
    }

    /// Keeps the webhook configuration when the operator exits. Until it runs again, requests are
    /// rejected unless failures are ignored. Default: `false`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::validate("kopfexamples", f).persistent(true);
    /// ```
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.inner.webhook.persistent = persistent;
        self
    }

    /// Declares that the function has side effects outside of the object, except in dry runs, which
    /// it has to check: [`DryRun`](crate::DryRun). Default: `false`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::validate("kopfexamples", f).side_effects(true);
    /// ```
    pub fn side_effects(mut self, side_effects: bool) -> Self {
        self.inner.webhook.side_effects = side_effects;
        self
    }

    /// Admits requests if the webhook fails or is unreachable. Default: `false`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::mutate("kopfexamples", f).ignore_failures(true);
    /// ```
    pub fn ignore_failures(mut self, ignore_failures: bool) -> Self {
        self.inner.webhook.ignore_failures = ignore_failures;
        self
    }

    fn add_operation(mut self, option: &str, operation: impl IntoOperation) -> Self {
        match operation.into_operation() {
            Ok(operation) => self.inner.webhook.add_operations([operation]),
            Err(error) => self.inner.problems.push(format!("{option}: {error}")),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::handler::Webhook;
    use kopf_engine::invocation::Handler;

    use super::*;
    use crate::extract::Front;
    use crate::on::AnyHandler;
    use crate::prelude::*;
    use crate::{
        DryRun, Headers, New, Old, Operation, PRESENT, Patch, Reason, SslPeer, SubHandlers,
        Subresource, UserInfo, Warnings, WatchEvent,
    };

    fn build(handler: impl Into<AnyHandler>) -> Result<Handler, String> {
        handler.into().build(&Front::default())
    }

    #[test]
    fn options_reach_the_handler() {
        fn check() {}
        let handler = on::mutate("x", check)
            .operations(["UPDATE"])
            .operation(Operation::Create)
            .operation("UPDATE")
            .subresource("status")
            .persistent(true)
            .side_effects(true)
            .ignore_failures(true)
            .label("a", PRESENT)
            .field("spec.x")
            .param(5);
        let handler = build(handler).unwrap();
        assert_eq!(&*handler.id, "check/spec.x");
        assert_eq!(handler.kind, HandlerKind::Admission(WebhookType::Mutating));
        let webhook = Webhook {
            operations: Some(vec![Operation::Update, Operation::Create]),
            subresource: Some("status".to_owned()),
            persistent: true,
            side_effects: true,
            ignore_failures: true,
        };
        assert_eq!(handler.webhook, webhook);
        assert!(handler.param.is_some());
        let plain = build(on::validate("x", check)).unwrap();
        assert_eq!(plain.kind, HandlerKind::Admission(WebhookType::Validating));
        assert_eq!(plain.webhook, Webhook::default());
    }

    #[test]
    fn invalid_options_are_rejected() {
        fn check() {}
        let message = |handler: AnyHandler| build(handler).unwrap_err();
        let none: [&str; 0] = [];
        let validate = || on::validate("x", check);
        assert!(message(validate().operations(none).into()).contains("must not be empty"));
        let unknown = message(validate().operations(["PATCH"]).into());
        assert!(
            unknown.starts_with("operations: unknown operation \"PATCH\""),
            "{unknown}"
        );
        assert!(message(validate().operation("create").into()).starts_with("operation: "));
        assert!(message(validate().subresource("").into()).starts_with("subresource: "));
    }

    #[test]
    fn unavailable_arguments_are_rejected() {
        fn asked(_: Operation, _: Subresource, _: DryRun, _: UserInfo, _: Headers, _: SslPeer) {}
        fn shared(_: Warnings, _: Old, _: New, _: Diff, _: Patch, _: Memo<u32>, _: Option<Reason>) {
        }
        fn warned(_: Warnings) {}
        fn user(_: UserInfo) {}
        fn reason(_: Reason) {}
        fn stopped(_: Stopped) {}
        fn subs(_: SubHandlers) {}
        fn event(_: WatchEvent) {}
        assert!(build(on::validate("x", asked)).is_ok());
        assert!(build(on::mutate("x", shared)).is_ok());
        let message = |handler: AnyHandler| build(handler).unwrap_err();
        for handler in [
            on::create("x", warned).into(),
            on::event("x", user).into(),
            crate::timer("x", warned).into(),
            on::startup(user).into(),
        ] {
            let text = message(handler);
            assert!(
                text.contains("is for handlers of on::validate and on::mutate only"),
                "{text}"
            );
        }
        assert!(message(on::validate("x", reason).into()).contains("Reason is for handlers of"));
        assert!(message(on::mutate("x", stopped).into()).contains("daemons and timers only"));
        assert!(message(on::mutate("x", subs).into()).contains("SubHandlers"));
        assert!(message(on::mutate("x", event).into()).contains("on::event only"));
    }
}
