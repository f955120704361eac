//! Tests that call webhooks over TLS.

mod calling;
mod chain;
mod server;
mod trust;

use std::sync::Arc;

use kopf_sandbox_schema::kind::{Kind, KindVersion, Origin, Subresource};
use kopf_sandbox_schema::rights::UserInfo;
use serde_json::json;

use super::*;

pub(super) fn kind(
    group: &str,
    plural: &str,
    versions: &[&str],
    subresources: &[&str],
) -> Arc<Kind> {
    let subresource = |name: &&str| {
        let (group, kind) = if *name == "scale" {
            ("autoscaling", "Scale")
        } else {
            ("", "")
        };
        Subresource {
            name: (*name).to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
            verbs: Vec::new(),
        }
    };
    Arc::new(Kind {
        terminating: false,
        conversion_webhook: None,
        group: group.into(),
        kind: "Thing".into(),
        list_kind: "ThingList".into(),
        plural: plural.into(),
        singular: "thing".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        versions: versions
            .iter()
            .map(|name| KindVersion {
                name: (*name).into(),
                verbs: Vec::new(),
                subresources: subresources.iter().map(subresource).collect(),
                schema: None,
                columns: Vec::new(),
                scale: None,
                selectable_fields: Vec::new(),
                deprecation_warning: None,
            })
            .collect(),
        storage_version: versions[0].into(),
        origin: Origin::BuiltIn,
    })
}

pub(super) fn attributes(kind: &Arc<Kind>, operation: Operation) -> Attributes<'_> {
    static NO_LABELS: serde_json::Value = serde_json::Value::Null;
    static USER: std::sync::LazyLock<UserInfo> =
        std::sync::LazyLock::new(|| UserInfo::new("ann", ["staff"]));
    Attributes {
        operation,
        kind,
        version: &kind.versions[0].name,
        subresource: None,
        name: "x",
        namespace: Some("ns"),
        namespace_labels: Some(&NO_LABELS),
        options: json!({ "kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1" }),
        dry_run: false,
        user: &USER,
        authorizer: kopf_sandbox_schema::rights::Authorizer::default(),
    }
}
