//! Handlers for admission: what the API server asks before it stores an object.

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

/// A kind of handlers that the API server asks.
#[diagnostic::on_unimplemented(
    message = "only `on::validate` and `on::mutate` are asked by the API server: other handlers have no \
               operations and no subresources"
)]
pub trait Admitting: Kind {}

impl Kind for Validate {
    const KIND: HandlerKind = HandlerKind::Admission(WebhookType::Validating);
}

impl Kind for Mutate {
    const KIND: HandlerKind = HandlerKind::Admission(WebhookType::Mutating);
}

impl ForObjects for Validate {}
impl ForObjects for Mutate {}
impl Admitting for Validate {}
impl Admitting for Mutate {}

/// What can be an operation: [`Operation`] itself, or its name in the API.
pub trait IntoOperation {
    /// The operation, or what is wrong with it.
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

/// Asks the function whether objects may be created, changed or deleted: before that happens, and
/// while somebody waits for it.
///
/// If the function fails, for whatever reason, it does not happen: [`denied`](crate::denied) says why,
/// and with which code. What it returns is ignored. Warnings are shown in any case.
///
/// A webhook server is needed, `settings.admission.server`; and somebody has to tell the API server
/// of it: see [`admission`](crate::admission). The API server waits for at most 30 seconds.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{DryRun, Warnings};
///
/// #[kopf::on::validate("kopfexamples", operations = [CREATE, UPDATE])]
/// fn check(Spec(spec): Spec, warnings: Warnings, DryRun(dry): DryRun) -> kopf::Result<()> {
///     if dry {
///         warnings.push("it was not for real");
///     }
///     if spec["field"] == "wrong" {
///         return Err(kopf::denied("Not this one.").code(499));
///     }
///     Ok(())
/// }
///
/// // In a test, it is a function like any other.
/// let warnings = Warnings::default();
/// let error = check(Spec(json!({"field": "wrong"}).into()), warnings.clone(), DryRun(true)).unwrap_err();
/// assert_eq!(error.to_string(), "Not this one.");
/// assert_eq!(warnings.list(), ["it was not for real"]);
/// ```
pub fn validate<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Validate> {
    declare(resource, function)
}

/// Lets the function change objects before they are created or changed, by its
/// [`Patch`](crate::Patch).
///
/// The rest is as in [`validate`](validate()): it can deny, too. It is not asked about deletions, unless
/// `DELETE` is its only operation.
///
/// ```
/// use kopf::Patch;
/// use kopf::prelude::*;
///
/// #[kopf::on::mutate("kopfexamples", operation = CREATE, labels = {"sized": ABSENT})]
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

impl<K: Admitting> HandlerBuilder<K> {
    /// The operations that it is asked about; by default, all of them.
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

    /// The operation that it is asked about, in addition to others that are named.
    pub fn operation(self, operation: impl IntoOperation) -> Self {
        self.add_operation("operation", operation)
    }

    /// Subresource to review, as in `status`; `*` for the main resource and all its subresources.
    /// Default: the main resource only.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        let subresource = subresource.into();
        if subresource.is_empty() {
            let problem = "subresource: it must not be empty; for the object itself, leave it out";
            self.inner.problems.push(problem.to_owned());
        }
        self.inner.webhook.subresource = Some(subresource);
        self
    }

    /// Whether the API server goes on asking when the operator has ended, and nobody answers: then
    /// nothing is admitted, unless failures are ignored. By default, it does not.
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.inner.webhook.persistent = persistent;
        self
    }

    /// Whether the function changes anything outside of the object, except in dry runs, which it has
    /// to look for: [`DryRun`](crate::DryRun). By default, it does not.
    pub fn side_effects(mut self, side_effects: bool) -> Self {
        self.inner.webhook.side_effects = side_effects;
        self
    }

    /// Whether all is admitted if nobody answers. By default, nothing is.
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
        DryRun, Event, Headers, New, Old, Operation, PRESENT, Patch, Reason, SslPeer, SubHandlers,
        Subresource, UserInfo, Warnings,
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
    fn mistakes_are_found_when_built() {
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
    fn arguments_that_make_no_sense_are_found_when_built() {
        fn asked(_: Operation, _: Subresource, _: DryRun, _: UserInfo, _: Headers, _: SslPeer) {}
        fn shared(_: Warnings, _: Old, _: New, _: Diff, _: Patch, _: Memo<u32>, _: Option<Reason>) {
        }
        fn warned(_: Warnings) {}
        fn user(_: UserInfo) {}
        fn reason(_: Reason) {}
        fn stopped(_: Stopped) {}
        fn subs(_: SubHandlers) {}
        fn event(_: Event) {}
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
