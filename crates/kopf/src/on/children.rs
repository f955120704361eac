//! Handlers of owned objects.

use kopf_core::handler::HandlerKind;

use super::HandlerBuilder;
use super::kinds::{self, ForObjects, Kind, RetriedByChildren};
use crate::handler::Handler;
use crate::selecting::IntoSelect;

/// Handlers of [`on::child`](child()).
#[derive(Debug, Clone, Copy)]
pub struct Child;

impl Kind for Child {
    const KIND: HandlerKind = HandlerKind::Child;
}

impl ForObjects for Child {}

impl RetriedByChildren for kinds::Create {}
impl RetriedByChildren for kinds::Update {}
impl RetriedByChildren for kinds::Delete {}
impl RetriedByChildren for kinds::Resume {}
impl RetriedByChildren for kinds::Field {}

/// Calls the function when an object owned by the handled one is created, changed or deleted. All
/// arguments are about the owner; [`Child`](crate::Child) is the owned object.
///
/// The owner is found by the owner references of the child. Its resource is any that other handlers
/// of the operator use, or that of the option `parent`. Filters apply to the owner. The function is
/// called once for each change, like that of [`on::event`](super::event()): without retries and
/// progress. It is also called for all children when the operator starts.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Child, Conditions};
///
/// #[kopf::on::child("deployments", parent = "kopfexamples")]
/// async fn deployed(child: Child, conditions: Conditions) -> kopf::Result<()> {
///     let ready = child.status()["readyReplicas"].as_u64().unwrap_or(0);
///     conditions.set("Ready", ready > 0, "Replicas", format!("{ready} replicas are ready"))?;
///     Ok(())
/// }
/// ```
pub fn child<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Child> {
    let mut builder = HandlerBuilder::declare(None, function.into_function());
    builder.inner.owns = vec![resource.into_select().build()];
    builder
}

impl HandlerBuilder<Child> {
    /// Sets the resource of the owners. Default: all resources of other handlers.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::child("pods", f).parent("kopfexamples");
    /// ```
    pub fn parent<S>(mut self, resource: impl IntoSelect<S>) -> Self {
        self.inner.selector = Some(resource.into_select().build());
        self
    }
}

impl<K: RetriedByChildren> HandlerBuilder<K> {
    /// Adds resources of owned objects. When one of them changes while the handler waits for
    /// another attempt, the attempt starts immediately. It counts as any other.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples", owns = ["deployments", "services"])]
    /// async fn create_fn() -> kopf::Result<()> {
    ///     Err(kopf::temporary("the deployment is not ready yet").delay(600))
    /// }
    /// ```
    pub fn owns<S, R: IntoSelect<S>>(mut self, resources: impl IntoIterator<Item = R>) -> Self {
        let selectors = resources.into_iter();
        let selectors = selectors.map(|resource| resource.into_select().build());
        self.inner.owns.extend(selectors);
        self
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::handler::HandlerKind;
    use kopf_core::resource::Resource;

    use crate::Child;
    use crate::extract::Front;
    use crate::on::AnyHandler;
    use crate::prelude::*;

    fn build(handler: impl Into<AnyHandler>) -> Result<kopf_engine::invocation::Handler, String> {
        handler.into().build(&Front::default())
    }

    fn pods() -> Resource {
        Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            preferred: true,
            ..Resource::default()
        }
    }

    #[test]
    fn children_and_parents_reach_the_handler() {
        fn changed(_: Child) {}
        let handler = build(on::child("pods", changed).label("a", "b")).unwrap();
        assert_eq!(handler.kind, HandlerKind::Child);
        assert!(handler.owns(&pods()) && handler.selector.is_none());
        let handler = build(on::child("pods", changed).parent("things")).unwrap();
        assert!(handler.selector.is_some());
        let handler = build(on::create("things", || {}).id("x").owns(["pods"])).unwrap();
        assert!(handler.owns(&pods()));
        let error = build(on::create("things", || {}).id("x").owns([""])).unwrap_err();
        assert!(error.contains("must not be an empty string"), "{error}");
    }

    #[test]
    fn children_are_arguments_of_their_handlers_only() {
        fn changed(_: Child) {}
        let error = build(on::create("x", changed)).unwrap_err();
        assert!(
            error.contains("Child is for handlers of on::child only"),
            "{error}"
        );
        assert!(build(on::event("x", |_: Option<Child>| {}).id("x")).is_ok());
    }
}
