//! Handlers of conversions between versions of a resource.

use kopf_core::handler::{Conversion, HandlerKind};

use super::kinds::Kind;
use super::{HandlerBuilder, declare};
use crate::handler::Handler;
use crate::selecting::IntoSelect;

/// Handlers of [`on::convert`](convert()).
#[derive(Debug, Clone, Copy)]
pub struct Convert;

impl Kind for Convert {
    const KIND: HandlerKind = HandlerKind::Convert;
}

/// Converts objects from one version of a resource to another, when a client requests it or when
/// they are stored. The function returns the converted object, or changes it by a
/// [`Patch`](crate::Patch).
///
/// `kind`, `apiVersion` and `metadata` of the returned object can be omitted. Metadata other than
/// labels and annotations must not be changed. Conversions between versions without a handler use
/// the shortest path through other versions.
///
/// The webhook server (`settings.admission.server`) receives the requests. With
/// `settings.admission.managed`, the operator sets `spec.conversion` of the CRD and removes it when
/// it exits, unless the handler is `persistent`.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::convert("kopfexamples", source = "v1beta1", target = "v1", persistent = true)]
/// fn upgrade(Spec(spec): Spec) -> Value {
///     json!({"spec": {"size": spec["legacySize"]}})
/// }
///
/// #[kopf::on::convert("kopfexamples", source = "v1", target = "v1beta1", persistent = true)]
/// fn downgrade(Spec(spec): Spec) -> Value {
///     json!({"spec": {"legacySize": spec["size"]}})
/// }
/// ```
///
/// # Options
///
/// The resource, `id`, `param` and `registry` are those of [all handlers](crate::on). `source` and
/// `target` are required. An error fails the client's request, with a message that names the object
/// and the handler.
pub fn convert<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Convert> {
    declare(resource, function)
}

impl HandlerBuilder<Convert> {
    /// Sets the version of objects that the function receives, such as `v1beta1`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::convert("kopfexamples", f)
    ///     .source("v1beta1")
    ///     .target("v1");
    /// ```
    pub fn source(mut self, version: impl Into<String>) -> Self {
        self.versions().source = version.into();
        self
    }

    /// Sets the version of objects that the function returns, such as `v1`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::convert("kopfexamples", f)
    ///     .source("v1beta1")
    ///     .target("v1");
    /// ```
    pub fn target(mut self, version: impl Into<String>) -> Self {
        self.versions().target = version.into();
        self
    }

    /// Keeps `spec.conversion` of the CRD when the operator exits. Otherwise, the API server only
    /// changes `apiVersion` of objects until an operator runs again.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::convert("kopfexamples", f)
    ///     .source("v1beta1")
    ///     .target("v1")
    ///     .persistent(true);
    /// ```
    pub fn persistent(mut self, persistent: bool) -> Self {
        self.inner.webhook.persistent = persistent;
        self
    }

    fn versions(&mut self) -> &mut Conversion {
        self.inner.conversion.get_or_insert_with(|| Conversion {
            source: String::new(),
            target: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::handler::HandlerKind;

    use crate::extract::Front;
    use crate::on::AnyHandler;
    use crate::prelude::*;

    #[test]
    fn versions_reach_the_handler() {
        fn upgrade(_: Spec) -> Value {
            json!({})
        }
        let build = |handler: AnyHandler| handler.build(&Front::default());
        let handler = on::convert("x", upgrade).source("v1").target("v2");
        let handler = build(handler.persistent(true).into()).unwrap();
        assert_eq!(handler.kind, HandlerKind::Convert);
        assert!(handler.webhook.persistent);
        let versions = handler.spec.conversion.unwrap();
        assert_eq!(
            (versions.source.as_str(), versions.target.as_str()),
            ("v1", "v2")
        );
        for wrong in [
            on::convert("x", upgrade).source("v1"),
            on::convert("x", upgrade).source("v1").target("v1"),
            on::convert("x", upgrade),
        ] {
            let error = build(wrong.into()).unwrap_err();
            assert!(
                error.contains("source and target must be two different versions"),
                "{error}"
            );
        }
    }
}
