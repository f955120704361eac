//! Kubernetes objects as JSON, bodies and types.

use kopf_core::body::Body;
use kopf_core::hierarchy;
use kopf_core::reference::ObjectReference;
use kube::api::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::extract::Object;

/// An error of an operation on objects.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The objects have an unexpected structure.
    #[error(transparent)]
    Hierarchy(#[from] hierarchy::Error),
    /// The object cannot be converted to JSON.
    #[error("cannot serialise the object")]
    Serialise(#[source] serde_json::Error),
    /// The changed JSON does not fit the type of the object.
    #[error("cannot deserialise the changed object")]
    Deserialise(#[source] serde_json::Error),
    /// The number of objects is not one.
    #[error("expected exactly one object, got {count}")]
    NotOne {
        /// The number of objects.
        count: usize,
    },
}

/// Objects that can be referred to: as owners, or in events about them.
///
/// These are JSON [`Value`]s (also lists of objects), [`Body`], [`Object<K>`](Object), types of
/// `k8s-openapi` and those with kube's `CustomResource` derive, kube's `DynamicObject`, slices and
/// `Vec`s of these.
///
/// `M` distinguishes types from JSON. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object",
    label = "not an object",
    note = "expected `Value`, `Body`, `Object<K>`, a resource type such as `Pod`, or a list of those"
)]
pub trait Referred<M> {
    /// Returns the objects with at least their API version, kind and metadata.
    fn bodies(&self) -> Result<Vec<Body>, ObjectError>;

    /// Returns references to the objects.
    fn references(&self) -> Result<Vec<ObjectReference>, ObjectError> {
        Ok(self.bodies()?.iter().map(Body::reference).collect())
    }

    /// Returns the object.
    ///
    /// # Errors
    /// [`ObjectError::NotOne`] if there are none or several.
    fn body(&self) -> Result<Body, ObjectError> {
        let mut bodies = self.bodies()?;
        match (bodies.pop(), bodies.len()) {
            (Some(body), 0) => Ok(body),
            (None, _) => Err(ObjectError::NotOne { count: 0 }),
            (Some(_), rest) => Err(ObjectError::NotOne { count: rest + 1 }),
        }
    }
}

/// For [`Referred`] and [`Manifest`]: JSON.
#[derive(Debug)]
pub struct Dynamic;

/// For [`Referred`] and [`Manifest`]: a type.
#[derive(Debug)]
pub struct Typed;

/// For [`Referred`] and [`Manifest`]: a container of others.
#[derive(Debug)]
pub struct Of<M>(std::marker::PhantomData<M>);

impl Referred<Dynamic> for Body {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        Ok(vec![self.clone()])
    }
}

impl Referred<Dynamic> for Value {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        let mut bodies = Vec::new();
        collect(self, &mut bodies)?;
        Ok(bodies)
    }
}

/// Lists can be nested and contain nulls.
fn collect(value: &Value, bodies: &mut Vec<Body>) -> Result<(), ObjectError> {
    match value {
        Value::Object(_) => bodies.push(Body::new(value.clone())),
        Value::Array(values) => {
            for value in values {
                collect(value, bodies)?;
            }
        }
        Value::Null => {}
        other => {
            let value = other.to_string().chars().take(50).collect();
            return Err(hierarchy::Error::NotAnObject { value }.into());
        }
    }
    Ok(())
}

impl Referred<Dynamic> for DynamicObject {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        let value = serde_json::to_value(self).map_err(ObjectError::Serialise)?;
        Ok(vec![Body::new(value)])
    }
}

#[diagnostic::do_not_recommend]
impl<K: kube::Resource<DynamicType = ()>> Referred<Typed> for K {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        let metadata = serde_json::to_value(self.meta()).map_err(ObjectError::Serialise)?;
        Ok(vec![Body::new(json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": metadata,
        }))])
    }
}

impl<M, K: Referred<M>> Referred<Of<M>> for Object<K> {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        self.0.bodies()
    }
}

impl<M, K: Referred<M>> Referred<Of<M>> for [K] {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        let mut bodies = Vec::new();
        for object in self {
            bodies.extend(object.bodies()?);
        }
        Ok(bodies)
    }
}

impl<M, K: Referred<M>> Referred<Of<M>> for Vec<K> {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        self.as_slice().bodies()
    }
}

impl<M, K: Referred<M>, const N: usize> Referred<Of<M>> for [K; N] {
    fn bodies(&self) -> Result<Vec<Body>, ObjectError> {
        self.as_slice().bodies()
    }
}

/// Objects that can be changed before they are sent to the API server.
///
/// These are JSON [`Value`]s (also lists of objects), types of `k8s-openapi` and those with kube's
/// `CustomResource` derive, kube's `DynamicObject`, slices and `Vec`s of these.
///
/// `M` distinguishes types from JSON. It is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Kubernetes object that can be changed",
    label = "not an object",
    note = "expected `Value`, a resource type such as `Pod`, or a list of those"
)]
pub trait Manifest<M> {
    /// Returns the JSON of the objects.
    fn to_json(&self) -> Result<Value, ObjectError>;

    /// Replaces the objects by those in the JSON. An error changes none of them.
    fn replace(&mut self, json: Value) -> Result<(), ObjectError>;

    /// Changes the objects as JSON. An error changes none of them.
    fn change(
        &mut self,
        change: &dyn Fn(&mut Value) -> Result<(), hierarchy::Error>,
    ) -> Result<(), ObjectError> {
        let mut json = self.to_json()?;
        change(&mut json)?;
        self.replace(json)
    }
}

impl Manifest<Dynamic> for Value {
    fn to_json(&self) -> Result<Value, ObjectError> {
        Ok(self.clone())
    }

    fn replace(&mut self, json: Value) -> Result<(), ObjectError> {
        *self = json;
        Ok(())
    }

    fn change(
        &mut self,
        change: &dyn Fn(&mut Value) -> Result<(), hierarchy::Error>,
    ) -> Result<(), ObjectError> {
        change(self).map_err(ObjectError::from)
    }
}

#[diagnostic::do_not_recommend]
impl<K: kube::Resource + Serialize + DeserializeOwned> Manifest<Typed> for K {
    fn to_json(&self) -> Result<Value, ObjectError> {
        serde_json::to_value(self).map_err(ObjectError::Serialise)
    }

    fn replace(&mut self, json: Value) -> Result<(), ObjectError> {
        *self = serde_json::from_value(json).map_err(ObjectError::Deserialise)?;
        Ok(())
    }
}

impl<M, K: Manifest<M> + Clone> Manifest<Of<M>> for [K] {
    fn to_json(&self) -> Result<Value, ObjectError> {
        self.iter().map(Manifest::to_json).collect()
    }

    fn replace(&mut self, json: Value) -> Result<(), ObjectError> {
        let mut replaced = self.to_vec();
        if let Value::Array(values) = json {
            for (object, value) in replaced.iter_mut().zip(values) {
                object.replace(value)?;
            }
        }
        self.clone_from_slice(&replaced);
        Ok(())
    }
}

impl<M, K: Manifest<M> + Clone> Manifest<Of<M>> for Vec<K> {
    fn to_json(&self) -> Result<Value, ObjectError> {
        self.as_slice().to_json()
    }

    fn replace(&mut self, json: Value) -> Result<(), ObjectError> {
        self.as_mut_slice().replace(json)
    }
}

impl<M, K: Manifest<M> + Clone, const N: usize> Manifest<Of<M>> for [K; N] {
    fn to_json(&self) -> Result<Value, ObjectError> {
        self.as_slice().to_json()
    }

    fn replace(&mut self, json: Value) -> Result<(), ObjectError> {
        self.as_mut_slice().replace(json)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt as _;

    use super::*;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod
    }

    fn names<M>(objects: &(impl Referred<M> + ?Sized)) -> Vec<String> {
        let references = objects.references().unwrap();
        references.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_forms_of_objects_can_be_referred_to() {
        let json = json!({"kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}});
        assert_eq!(names(&json), ["ns/a"]);
        assert_eq!(names(&Body::new(json.clone())), ["ns/a"]);
        assert_eq!(names(&json!([json, [json], null])), ["ns/a", "ns/a"]);
        assert_eq!(names(&pod("b")), ["b"]);
        assert_eq!(names(&Object(pod("b"))), ["b"]);
        assert_eq!(names(&[pod("b"), pod("c")]), ["b", "c"]);
        assert_eq!(names(&vec![json.clone()]), ["ns/a"]);
        let reference = pod("b").references().unwrap().pop().unwrap();
        assert_eq!(reference.api_version.as_deref(), Some("v1"));
        assert_eq!(reference.kind.as_deref(), Some("Pod"));
    }

    #[test]
    fn exactly_one_object_is_required() {
        assert!(pod("b").body().is_ok());
        let error = [pod("b"), pod("c")].body().unwrap_err();
        assert!(matches!(error, ObjectError::NotOne { count: 2 }), "{error}");
        let error = json!([]).body().unwrap_err();
        assert!(matches!(error, ObjectError::NotOne { count: 0 }), "{error}");
        assert!(json!("text").bodies().is_err());
    }

    #[test]
    fn errors_leave_lists_of_types_unchanged() {
        let mut pods = vec![pod("a"), pod("b")];
        pods.change(&|json| {
            json[0]["metadata"]["name"] = json!("changed");
            Ok(())
        })
        .unwrap();
        assert_eq!(pods[0].name_any(), "changed");
        let error = pods.change(&|json| {
            json[0]["metadata"]["name"] = json!("lost");
            json[1]["metadata"]["name"] = json!(5);
            Ok(())
        });
        assert!(matches!(error, Err(ObjectError::Deserialise(_))));
        assert_eq!(pods[0].name_any(), "changed");
    }
}
