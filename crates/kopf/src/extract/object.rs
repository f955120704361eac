//! The object and its parts: as JSON, or as types.

use std::ops::Deref;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::resource::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};
use crate::view::View;

impl Extract for Body {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.object("Body")?.clone())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Body")
    }
}

impl FilterExtract for Body {}

/// `spec` of the object.
///
/// As JSON, or deserialised into a type. An absent spec is an empty one.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn dynamic(Spec(spec): Spec) -> kopf::Result<String> {
///     let size = spec["size"].as_str().ok_or_else(|| kopf::permanent("size must be set"))?;
///     Ok(size.to_owned())
/// }
///
/// #[kopf::schema]
/// struct Volume { size: String }
///
/// // Objects with another spec fail permanently, with the reason.
/// #[kopf::on::create("kopfexamples")]
/// fn typed(Spec(volume): Spec<Volume>) -> String {
///     volume.size
/// }
///
/// assert_eq!(dynamic(Spec(json!({"size": "1G"}).into())).unwrap(), "1G");
/// assert_eq!(typed(Spec(Volume { size: "1G".into() })), "1G");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec<T = View>(pub T);

impl<T> Deref for Spec<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Extract for Spec {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(View::spec(context.object("Spec")?)))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Spec")
    }
}

impl<T: DeserializeOwned> Extract for Spec<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        read("spec", View::spec(context.object("Spec")?).value()).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Spec")
    }
}

impl<T> OptionalExtract for Spec<T>
where
    Self: Extract,
{
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        if context.body().get("spec").is_null() {
            return Ok(None);
        }
        Self::extract(context).map(Some)
    }
}

impl<T> FilterExtract for Spec<T> where Self: Extract {}

/// `status` of the object.
///
/// As JSON, or deserialised into a type. An absent status is an empty one.
///
/// ```
/// use kopf::Status;
/// use kopf::prelude::*;
///
/// #[kopf::on::update("kopfexamples")]
/// fn changed(Status(status): Status, logger: Logger) {
///     if status["ready"] == true {
///         logger.info("It was ready before the change.");
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status<T = View>(pub T);

impl<T> Deref for Status<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Extract for Status {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(View::status(context.object("Status")?)))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Status")
    }
}

impl<T: DeserializeOwned> Extract for Status<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        read("status", View::status(context.object("Status")?).value()).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Status")
    }
}

impl<T> OptionalExtract for Status<T>
where
    Self: Extract,
{
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        if context.body().get("status").is_null() {
            return Ok(None);
        }
        Self::extract(context).map(Some)
    }
}

impl<T> FilterExtract for Status<T> where Self: Extract {}

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
        read("", context.object("Object")?.value()).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Object")
    }
}

impl<K: DeserializeOwned> FilterExtract for Object<K> {}

impl Extract for Resource {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Arc::extract(context).map(|resource: Arc<Self>| Self::clone(&resource))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Resource")
    }
}

impl FilterExtract for Resource {}

impl Extract for Arc<Resource> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let resource = context.resource().cloned();
        resource.ok_or(Rejection::NoObject {
            argument: "Resource",
        })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Resource")
    }
}

impl FilterExtract for Arc<Resource> {}

/// Deserialises a part of an object.
pub(crate) fn read<T: DeserializeOwned>(part: &str, value: &Value) -> Result<T, Rejection> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = match (part, error.path().to_string().as_str()) {
            ("", path) => path.to_owned(),
            (part, ".") => part.to_owned(),
            (part, path) if path.starts_with('[') => format!("{part}{path}"),
            (part, path) => format!("{part}.{path}"),
        };
        Rejection::Malformed {
            path,
            message: error.into_inner().to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Volume {
        size: String,
        labels: Option<BTreeMap<String, u32>>,
    }

    fn problem(part: &str, value: &Value) -> String {
        read::<Volume>(part, value).unwrap_err().to_string()
    }

    #[test]
    fn errors_contain_paths() {
        assert_eq!(problem("spec", &json!({})), "spec: missing field `size`");
        assert_eq!(
            problem("spec", &json!({"size": 5})),
            "spec.size: invalid type: integer `5`, expected a string"
        );
        assert_eq!(
            problem("", &json!({"size": "5", "labels": {"x": "y"}})),
            "labels.x: invalid type: string \"y\", expected u32"
        );
        let list: Result<Vec<u32>, _> = read("spec", &json!([1, "x"]));
        assert!(list.unwrap_err().to_string().starts_with("spec[1]: "));
    }

    #[test]
    fn matching_values_are_deserialised() {
        let volume: Volume = read("spec", &json!({"size": "1G"})).unwrap();
        assert_eq!(volume.size, "1G");
    }
}
