//! The objects of a kind that are beside the object.

use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};

use super::{Context, Extract, Namespace, Rejection};

/// The objects of a kind: those in the namespace of the object that is handled, if the kind has
/// namespaces, otherwise all.
///
/// ```
/// use kopf::k8s_openapi::api::core::v1::Pod;
/// use kopf::kube::Api;
/// use kopf::kube::api::DeleteParams;
/// use kopf::prelude::*;
///
/// #[kopf::on::delete("kopfexamples")]
/// async fn delete_fn(Name(name): Name, pods: Api<Pod>) -> kopf::Result<()> {
///     pods.delete(&name, &DeleteParams::default()).await?;
///     Ok(())
/// }
/// ```
///
/// For other namespaces, there is the [`Client`].
impl<K> Extract for Api<K>
where
    K: Resource<DynamicType = ()>,
    K::Scope: ApiScope,
{
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        <K::Scope as ApiScope>::beside(Client::extract(context)?, context)
    }
}

/// Whether the objects of a kind are in namespaces.
pub trait ApiScope {
    /// The objects that an object is among.
    fn beside<K>(client: Client, context: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>;
}

impl ApiScope for NamespaceResourceScope {
    fn beside<K>(client: Client, context: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        let Namespace(namespace) = Namespace::extract(context).map_err(|_| {
            let kind = K::kind(&());
            Rejection::other(format_args!(
                "the object has no namespace to have a {kind} in: ask for a Client instead"
            ))
        })?;
        Ok(Api::namespaced(client, &namespace))
    }
}

impl ApiScope for ClusterResourceScope {
    fn beside<K>(client: Client, _: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        Ok(Api::all(client))
    }
}
