//! The whole object as a type.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Context, Declared, Extract, FilterExtract, Rejection, typed};

/// The whole object as a type with kube's `CustomResource` derive, or of `k8s-openapi`.
///
/// It dereferences to the object.
///
/// ```
/// use kopf::k8s_openapi::api::core::v1::Pod;
/// use kopf::kube::ResourceExt as _;
/// use kopf::Object;
/// use kopf::prelude::*;
///
/// #[kopf::on::create(Pod)]
/// async fn pod_created(pod: Object<Pod>, logger: Logger) {
///     let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
///     logger.info(format_args!("{} has {containers} containers", pod.name_any()));
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Object<K>(pub K);

impl<K> Deref for Object<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: DeserializeOwned> Extract for Object<K> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        typed::read("", context.object("Object")?.value()).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Object")
    }
}

impl<K: DeserializeOwned> FilterExtract for Object<K> {}
