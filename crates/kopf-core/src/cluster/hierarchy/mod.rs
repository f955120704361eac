//! Relations between objects: owner references, names, namespaces, labels.
//!
//! Used by handlers for objects that they are about to create. All functions work on one object or
//! on nested lists of objects (nulls in the lists are skipped), and change either all of them or,
//! with an error, none. No requests are sent.

mod labels;
mod naming;
mod owners;
mod walk;

use serde_json::Value;

pub use labels::{Labelling, label};
pub use naming::{Naming, adjust_namespace, harmonize_naming};
pub use owners::{
    Ownership, append_owner_reference, build_object_reference, build_owner_reference,
    remove_owner_reference,
};

use crate::body::Body;
use crate::field::FieldPath;

/// The reason why objects cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Only objects and lists of objects can be changed.
    #[error("not a Kubernetes object: {value}")]
    NotAnObject {
        /// The value, shortened.
        value: String,
    },
    /// A field has another type than in Kubernetes.
    #[error("the object has a wrong type of {field}")]
    WrongType {
        /// The field.
        field: String,
    },
    /// Owner references need the uid of an existing owner.
    #[error("the owner {owner} has no uid: it does not exist in the cluster yet")]
    OwnerWithoutUid {
        /// The owner's name.
        owner: String,
    },
    /// Children are named after their owner.
    #[error("the owner has no name to name its children after")]
    OwnerWithoutName,
}

/// Options of adoption.
#[derive(Clone, Debug, Default)]
pub struct Adoption {
    /// Replaces names, namespaces and labels that the objects already have.
    pub forced: bool,
    /// Names the objects exactly as their owner, instead of generating names with this prefix.
    pub strict: bool,
    /// Paths inside of the objects that are labelled as well, such as `spec.template`.
    pub nested: Vec<FieldPath>,
}

/// Makes objects children of their owner: with an owner reference, its name, namespace and labels.
///
/// ```
/// use kopf_core::body::Body;
/// use kopf_core::hierarchy::{Adoption, adopt};
/// use serde_json::json;
///
/// let owner = Body::new(json!({
///     "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
///     "metadata": {"name": "parent", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
/// }));
/// let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
/// adopt(&mut pod, &owner, &Adoption::default())?;
/// assert_eq!(pod["metadata"]["generateName"], "parent-");
/// assert_eq!(pod["metadata"]["namespace"], "ns");
/// assert_eq!(pod["metadata"]["labels"]["a"], "b");
/// assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u1");
/// # Ok::<(), kopf_core::hierarchy::Error>(())
/// ```
pub fn adopt(objs: &mut Value, owner: &Body, options: &Adoption) -> Result<(), Error> {
    let name = owner.name().ok_or(Error::OwnerWithoutName)?;
    walk::all_or_none(objs, |objs| {
        append_owner_reference(objs, owner, Ownership::default())?;
        let naming = Naming {
            forced: options.forced,
            strict: options.strict,
        };
        harmonize_naming(objs, name, naming)?;
        adjust_namespace(objs, owner.namespace(), options.forced)?;
        let labelling = Labelling {
            forced: options.forced,
            nested: options.nested.clone(),
        };
        label(objs, owner.labels(), &labelling)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn owner() -> Body {
        Body::new(json!({
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": "parent", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
        }))
    }

    fn reference() -> Value {
        json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "parent", "uid": "u1",
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    #[test]
    fn children_get_owner_name_namespace_and_labels() {
        let mut objs = json!([{"kind": "Pod"}, [{"kind": "Job"}, null]]);
        adopt(&mut objs, &owner(), &Adoption::default()).unwrap();
        let metadata = json!({
            "generateName": "parent-",
            "namespace": "ns",
            "labels": {"a": "b"},
            "ownerReferences": [reference()],
        });
        let expected = json!([
            {"kind": "Pod", "metadata": metadata},
            [{"kind": "Job", "metadata": metadata}, null],
        ]);
        assert_eq!(objs, expected);
    }

    #[test]
    fn existing_fields_of_children_are_kept_unless_forced() {
        let own = json!({"metadata": {
            "name": "own", "namespace": "other", "labels": {"a": "own", "c": "d"},
        }});
        let mut kept = own.clone();
        adopt(&mut kept, &owner(), &Adoption::default()).unwrap();
        let mut expected = own.clone();
        expected["metadata"]["ownerReferences"] = json!([reference()]);
        assert_eq!(kept, expected);

        let mut forced = own;
        let options = Adoption {
            forced: true,
            strict: true,
            ..Adoption::default()
        };
        adopt(&mut forced, &owner(), &options).unwrap();
        let expected = json!({"metadata": {
            "name": "parent", "namespace": "ns", "labels": {"a": "b", "c": "d"},
            "ownerReferences": [reference()],
        }});
        assert_eq!(forced, expected);
    }

    #[test]
    fn nested_templates_are_only_labelled() {
        let mut obj = json!({"spec": {"template": {}}});
        let options = Adoption {
            nested: vec![FieldPath::parse("spec.template")],
            ..Adoption::default()
        };
        adopt(&mut obj, &owner(), &options).unwrap();
        assert_eq!(
            obj["spec"]["template"],
            json!({"metadata": {"labels": {"a": "b"}}})
        );
    }

    #[test]
    fn either_all_objects_change_or_none() {
        let mut objs = json!([{"kind": "Pod"}, {"metadata": {"labels": "nonsense"}}]);
        let before = objs.clone();
        let error = adopt(&mut objs, &owner(), &Adoption::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the object has a wrong type of metadata.labels"
        );
        assert_eq!(objs, before);
    }

    #[test]
    fn owner_without_identity_is_rejected() {
        let adopted = |owner: Value| {
            adopt(&mut json!({}), &Body::new(owner), &Adoption::default()).unwrap_err()
        };
        assert_eq!(adopted(json!({})), Error::OwnerWithoutName);
        let error = adopted(json!({"metadata": {"name": "x"}}));
        assert_eq!(error, Error::OwnerWithoutUid { owner: "x".into() });
    }
}
