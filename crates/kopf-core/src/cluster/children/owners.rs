//! The owners of an object, as its owner references name them.

use serde_json::Value;

use crate::body::Body;
use crate::resource::Resource;

/// One owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The uid.
    pub uid: &'a str,
}

impl OwnerReference<'_> {
    /// Returns `true` if the owner is an object of this resource. Versions of one resource are
    /// equivalent.
    pub fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group && self.kind == resource.kind
    }
}

/// Returns the owners of an object. Incomplete references are left out.
pub fn owners(body: &Body) -> impl Iterator<Item = OwnerReference<'_>> {
    let references = body.metadata().get("ownerReferences");
    let references = references.and_then(Value::as_array);
    references.into_iter().flatten().filter_map(|reference| {
        let text = |key: &str| reference.get(key)?.as_str();
        let api_version = text("apiVersion")?;
        Some(OwnerReference {
            group: api_version.rsplit_once('/').map_or("", |(group, _)| group),
            kind: text("kind")?,
            uid: text("uid")?,
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_are_found_by_group_and_kind() {
        let body = Body::new(json!({"metadata": {"ownerReferences": [
            {"apiVersion": "kopf.dev/v1beta1", "kind": "KopfExample", "name": "x", "uid": "u1"},
            {"apiVersion": "v1", "kind": "Pod", "uid": "u2"},
            {"apiVersion": "v1", "kind": "Pod"},
            "text",
        ]}}));
        let uids: Vec<_> = owners(&body).map(|owner| owner.uid).collect();
        assert_eq!(uids, ["u1", "u2"]);
        let examples = Resource {
            group: "kopf.dev".into(),
            version: "v1".into(),
            kind: "KopfExample".into(),
            ..Resource::default()
        };
        let matching: Vec<_> = owners(&body)
            .filter(|owner| owner.is_of(&examples))
            .collect();
        assert_eq!(matching.len(), 1);
        assert_eq!(owners(&Body::new(json!({}))).count(), 0);
    }
}
