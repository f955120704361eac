//! The review of the operator's permissions at its start: all missing ones are reported at once.
//!
//! The permissions are those of [`kopf_core::rights`] for the discovered resources. The review runs
//! beside the operator and changes nothing: where reviews are forbidden, it ends silently.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use kopf_client::{Client, Error};
use kopf_core::namespace::Scope;
use kopf_core::rights::{
    Demand, Knowledge, Options, Permission, Place, Requirements, rules, to_yaml,
};
use serde_json::json;
use tracing::{debug, warn};

use crate::observation::{Insights, Resources};
use crate::shared::Shared;

const PATH: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// Concurrent reviews. The server answers them from memory.
const CONCURRENCY: usize = 8;

/// Above this number, permissions are not reviewed: each is a request.
const LIMIT: usize = 300;

/// A review of the permissions of one operator.
pub(crate) struct Review {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scope: Scope,
    pub(crate) options: Options,
    pub(crate) insights: Insights,
}

impl Review {
    /// Reviews the permissions when the resources are known, then never ends.
    pub(crate) async fn run(mut self) {
        if let Some((resources, _)) = self.insights.next().await {
            let permissions = self.permissions(&resources);
            match missing(&self.shared.context.client, permissions).await {
                Ok(missing) if missing.is_empty() => debug!("All permissions are granted."),
                Ok(missing) => warn!("{}", describe(&missing)),
                Err(error) => debug!("Permissions cannot be reviewed: {error}"),
            }
        }
        std::future::pending::<()>().await;
    }

    fn permissions(&self, resources: &Resources) -> BTreeSet<Permission> {
        let demand = Demand {
            registry: &self.shared.registry,
            settings: &self.shared.context.settings,
            scope: &self.scope,
            resources: resources.iter().map(AsRef::as_ref).collect(),
            knowledge: Knowledge::Complete,
            options: &self.options,
        };
        Requirements::of(&demand).permissions
    }
}

/// Returns the permissions that are not granted.
async fn missing(
    client: &Client,
    permissions: BTreeSet<Permission>,
) -> Result<BTreeSet<Permission>, Error> {
    let everything = Permission {
        place: Place::Cluster,
        group: "*".to_owned(),
        resource: "*".to_owned(),
        name: None,
        verb: "*".to_owned(),
    };
    if permissions.is_empty() || is_granted(client, &everything).await? {
        return Ok(BTreeSet::new());
    }
    if permissions.len() > LIMIT {
        let count = permissions.len();
        debug!("{count} permissions are needed: too many for a review.");
        return Ok(BTreeSet::new());
    }
    let reviews = permissions.into_iter().map(|permission| async {
        let is_granted = is_granted(client, &permission).await?;
        Ok((!is_granted).then_some(permission))
    });
    let reviewed = futures::stream::iter(reviews).buffer_unordered(CONCURRENCY);
    reviewed
        .try_filter_map(async |missing| Ok(missing))
        .try_collect()
        .await
}

async fn is_granted(client: &Client, permission: &Permission) -> Result<bool, Error> {
    let (resource, subresource) = permission.resource_parts();
    let mut attributes = json!({
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
    });
    if let Some(subresource) = subresource {
        attributes["subresource"] = json!(subresource);
    }
    if let Some(name) = &permission.name {
        attributes["name"] = json!(name);
    }
    if let Place::Namespace(namespace) = &permission.place {
        attributes["namespace"] = json!(namespace);
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let reviewed = client.post_json(PATH, &review).await?;
    Ok(reviewed["status"]["allowed"] == true)
}

/// Returns the missing permissions, and the rules that grant them.
fn describe(missing: &BTreeSet<Permission>) -> String {
    let permissions: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "Not enough permissions to {}. Add these rules to the roles of the operator:",
        permissions.join(", ")
    );
    for (place, rules) in rules(missing) {
        // Writing to a string does not fail.
        let _ = match place {
            Place::Cluster => write!(text, "\n# ClusterRole\nrules:\n"),
            Place::Namespace(namespace) => {
                write!(text, "\n# Role in the namespace {namespace:?}\nrules:\n")
            }
        };
        text.push_str(to_yaml(&rules, 2).trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::{Answer, Asked, serve};

    fn permission(resource: &str, place: Place) -> Permission {
        Permission {
            place,
            group: "g".to_owned(),
            resource: resource.to_owned(),
            name: None,
            verb: "patch".to_owned(),
        }
    }

    fn review(asked: &Asked, is_granted: impl Fn(&serde_json::Value) -> bool) -> Answer {
        let allowed = is_granted(&asked.body["spec"]["resourceAttributes"]);
        Answer::Json(201, json!({"status": {"allowed": allowed}}))
    }

    #[tokio::test]
    async fn missing_permissions_are_found_together() {
        let (client, _) = serve(|asked| {
            review(asked, |attributes| {
                attributes["resource"] == "things" && attributes.get("subresource").is_none()
            })
        });
        let namespace = || Place::Namespace("ns".to_owned());
        let permissions = BTreeSet::from([
            permission("things", Place::Cluster),
            permission("things/status", Place::Cluster),
            permission("others", namespace()),
        ]);
        let missing = missing(&client, permissions).await.unwrap();
        let text = describe(&missing);
        assert_eq!(
            text,
            "Not enough permissions to patch things.g/status cluster-wide, patch others.g in the \
             namespace \"ns\". Add these rules to the roles of the operator:\n\
             # ClusterRole\nrules:\n  - apiGroups: [\"g\"]\n    resources: [\"things/status\"]\n    \
             verbs: [\"patch\"]\n\
             # Role in the namespace \"ns\"\nrules:\n  - apiGroups: [\"g\"]\n    \
             resources: [\"others\"]\n    verbs: [\"patch\"]"
        );
    }

    #[tokio::test]
    async fn administrators_are_asked_about_once() {
        let (client, log) = serve(|asked| review(asked, |attributes| attributes["verb"] == "*"));
        let permissions = BTreeSet::from([permission("things", Place::Cluster)]);
        assert!(missing(&client, permissions).await.unwrap().is_empty());
        assert_eq!(log.count(PATH), 1);
    }

    #[tokio::test]
    async fn reviews_that_are_forbidden_are_an_error() {
        let (client, _) = serve(|_| Answer::status(403));
        let permissions = BTreeSet::from([permission("things", Place::Cluster)]);
        assert!(missing(&client, permissions).await.is_err());
    }
}
