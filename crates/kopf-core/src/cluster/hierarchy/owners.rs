//! Owner references and object references.

use serde_json::{Map, Value};

use super::Error;
use super::walk::{each, list_mut, metadata_mut};
use crate::body::Body;

/// The flags of an owner reference; unset ones are omitted.
#[derive(Clone, Copy, Debug)]
pub struct Ownership {
    /// The owner is the controller of the object. Default: true.
    pub controller: Option<bool>,
    /// The owner is not deleted in the foreground before the object. Default: true.
    pub block_owner_deletion: Option<bool>,
}

impl Default for Ownership {
    fn default() -> Self {
        Self {
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// Returns a reference to the object for events, without empty parts.
pub fn build_object_reference(body: &Body) -> Value {
    body.reference().to_value()
}

/// Returns an owner reference for children, without absent parts.
pub fn build_owner_reference(owner: &Body, ownership: Ownership) -> Value {
    let parts = [
        ("controller", ownership.controller.map(Value::from)),
        (
            "blockOwnerDeletion",
            ownership.block_owner_deletion.map(Value::from),
        ),
        ("apiVersion", owner.api_version().map(Value::from)),
        ("kind", owner.kind().map(Value::from)),
        ("name", owner.name().map(Value::from)),
        ("uid", owner.uid().map(Value::from)),
    ];
    let present = parts
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(present.collect())
}

/// Adds an owner reference to objects, unless they have it. The objects are deleted with the owner.
pub fn append_owner_reference(
    objs: &mut Value,
    owner: &Body,
    ownership: Ownership,
) -> Result<(), Error> {
    let uid = uid(owner)?;
    let reference = build_owner_reference(owner, ownership);
    each(objs, |object| {
        let references = references_mut(object)?;
        if !references.iter().any(|reference| reference["uid"] == uid) {
            references.push(reference.clone());
        }
        Ok(())
    })
}

/// Removes the owner reference from objects; other owners are kept.
pub fn remove_owner_reference(objs: &mut Value, owner: &Body) -> Result<(), Error> {
    let uid = uid(owner)?;
    each(objs, |object| {
        let references = object
            .get("metadata")
            .and_then(|metadata| metadata.get("ownerReferences"));
        if references.is_some_and(|references| !references.is_null()) {
            references_mut(object)?.retain(|reference| reference["uid"] != uid);
        }
        Ok(())
    })
}

fn references_mut(object: &mut Map<String, Value>) -> Result<&mut Vec<Value>, Error> {
    list_mut(
        metadata_mut(object)?,
        "ownerReferences",
        "metadata.ownerReferences",
    )
}

fn uid(owner: &Body) -> Result<&str, Error> {
    owner.uid().ok_or_else(|| Error::OwnerWithoutUid {
        owner: owner.reference().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::owner;
    use super::*;

    #[test]
    fn references_to_objects_have_no_empty_parts() {
        let full = build_object_reference(&owner());
        let expected = json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "parent", "uid": "u1",
            "namespace": "ns",
        });
        assert_eq!(full, expected);
        let partial = Body::new(json!({"kind": "Node", "metadata": {"name": "n"}}));
        assert_eq!(
            build_object_reference(&partial),
            json!({"kind": "Node", "name": "n"})
        );
    }

    #[test]
    fn references_to_owners_have_no_absent_parts() {
        let ownership = Ownership {
            controller: Some(false),
            block_owner_deletion: None,
        };
        let expected = json!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "parent", "uid": "u1",
            "controller": false,
        });
        assert_eq!(build_owner_reference(&owner(), ownership), expected);
    }

    #[test]
    fn owners_are_appended_once_per_uid() {
        let other = json!({"uid": "u0"});
        let same = json!({"uid": "u1", "name": "renamed"});
        let mut obj = json!({"metadata": {"ownerReferences": [other]}});
        for _ in 0..2 {
            append_owner_reference(&mut obj, &owner(), Ownership::default()).unwrap();
        }
        let reference = build_owner_reference(&owner(), Ownership::default());
        assert_eq!(
            obj["metadata"]["ownerReferences"],
            json!([other, reference])
        );

        let mut obj = json!({"metadata": {"ownerReferences": [same]}});
        append_owner_reference(&mut obj, &owner(), Ownership::default()).unwrap();
        assert_eq!(obj["metadata"]["ownerReferences"], json!([same]));
    }

    #[test]
    fn owners_are_removed_by_uid() {
        let mut obj = json!({"metadata": {"ownerReferences": [{"uid": "u1"}, {"uid": "u0"}]}});
        remove_owner_reference(&mut obj, &owner()).unwrap();
        assert_eq!(obj["metadata"]["ownerReferences"], json!([{"uid": "u0"}]));

        let mut unowned = json!({"kind": "Pod"});
        remove_owner_reference(&mut unowned, &owner()).unwrap();
        assert_eq!(unowned, json!({"kind": "Pod"}));
    }

    #[test]
    fn owners_without_uid_and_malformed_objects_are_rejected() {
        let unreal = Body::new(json!({"metadata": {"name": "x", "namespace": "ns"}}));
        let error = append_owner_reference(&mut json!({}), &unreal, Ownership::default());
        assert_eq!(
            error.unwrap_err().to_string(),
            "the owner ns/x has no uid: it does not exist in the cluster yet"
        );
        let mut wrong = json!({"metadata": {"ownerReferences": {}}});
        let error = remove_owner_reference(&mut wrong, &owner()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the object has a wrong type of metadata.ownerReferences"
        );
    }
}
