//! APIs of other resources, in the namespace of the object.

use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};

use super::{Context, Extract, Namespace, Rejection};

/// The API of a resource: in the namespace of the handled object if the resource is namespaced,
/// otherwise in the whole cluster.
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
/// Use a [`Client`] for other namespaces.
impl<K> Extract for Api<K>
where
    K: Resource<DynamicType = ()>,
    K::Scope: ApiScope,
{
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        <K::Scope as ApiScope>::api(Client::extract(context)?, context)
    }
}

/// The scope of a resource: namespaced or not.
pub trait ApiScope {
    /// Creates the API for the handled object.
    fn api<K>(client: Client, context: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>;
}

impl ApiScope for NamespaceResourceScope {
    fn api<K>(client: Client, context: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        let Namespace(namespace) = Namespace::extract(context).map_err(|_| {
            let kind = K::kind(&());
            Rejection::other(format_args!(
                "the object has no namespace for the {kind} API: use a Client instead"
            ))
        })?;
        Ok(Api::namespaced(client, &namespace))
    }
}

impl ApiScope for ClusterResourceScope {
    fn api<K>(client: Client, _: &Context<'_>) -> Result<Api<K>, Rejection>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        Ok(Api::all(client))
    }
}
