//! Server-side apply of children.

use kopf_core::body::Body;
use kopf_engine::applying::{self, FieldOwnership};
#[doc(inline)]
pub use kopf_engine::applying::{Applied, Effect, Error as ApplyError};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::objects::{Manifest, Referred};

/// Creates or changes a child of an object by server-side apply. Writes nothing if nothing
/// changes.
///
/// The child gets an owner reference, the namespace and the labels of its owner, and the owner's
/// name if it has none. The owner is any object, or [`Current`](crate::Current) for the handled
/// object. The field manager is the setting `persistence.field_manager`; by default, the operator's
/// name in its events.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// #[kopf::on::update("kopfexamples")]
/// async fn deploy(Spec(spec): Spec) -> kopf::Result<()> {
///     let config = json!({
///         "apiVersion": "v1", "kind": "ConfigMap",
///         "data": {"size": spec["size"].to_string()},
///     });
///     kopf::apply_child(&kopf::Current, &config).await?;
///     Ok(())
/// }
/// ```
///
/// The child is read first. It is written if it does not exist, if the manifest differs from the
/// last applied one (an annotation contains its digest), or if other managers changed fields of the
/// manifest (according to `metadata.managedFields`). Fields outside of the manifest are not
/// changed.
///
/// # Errors
/// If other field managers own fields of the manifest; the error names them, and
/// [`Applying::force`] takes the fields over. Also outside of handlers, for unknown kinds, for
/// owners in other namespaces, and if the server rejects the manifest.
pub async fn apply_child<M, N>(
    owner: &(impl Referred<M> + ?Sized),
    object: &(impl Manifest<N> + ?Sized),
) -> Result<Applied> {
    Applying::default().apply_child(owner, object).await
}

/// The options of [`apply_child`].
///
/// ```
/// use kopf::Body;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn deploy(body: Body) -> kopf::Result<()> {
///     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
///     kopf::Applying::default().force().apply_child(&body, &config).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct Applying(FieldOwnership);

impl Applying {
    /// Takes over the fields of the manifest that belong to other managers.
    ///
    /// ```
    /// use kopf::prelude::*;
    /// use kopf::{Applying, Body};
    ///
    /// #[kopf::on::create("kopfexamples")]
    /// async fn create_fn(body: Body) -> kopf::Result<()> {
    ///     let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
    ///     Applying::default().force().apply_child(&body, &config).await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn force(mut self) -> Self {
        self.0 = FieldOwnership::TakeOver;
        self
    }

    /// Applies a child: see [`apply_child`].
    ///
    /// # Errors
    /// Those of [`apply_child`], except for conflicts if they are forced.
    pub async fn apply_child<M, N>(
        self,
        owner: &(impl Referred<M> + ?Sized),
        object: &(impl Manifest<N> + ?Sized),
    ) -> Result<Applied> {
        let (owner, manifest) = (owner.body()?, object.to_json()?);
        self.send(owner, manifest).await
    }

    async fn send(self, owner: Body, manifest: Value) -> Result<Applied> {
        let call = kopf_engine::current().ok_or_else(|| {
            Error::message(
                "kopf::apply_child() was called outside of a handler: children are applied by the \
                 handler's operator",
            )
        })?;
        let applied = applying::apply_child(&call.operator, &owner, manifest, self.0);
        Ok(applied.await?)
    }
}
