//! The review of the operator's permissions at its start: all missing ones are reported at once.
//!
//! The required permissions are those of [`kopf_core::rights`] for the discovered resources. The
//! granted rules are read by one `SelfSubjectRulesReview` for the cluster and one per served
//! namespace. If the rules are incomplete, as with authorization webhooks, permissions are reviewed
//! one by one. The review runs in parallel to the operator and does not affect it: if reviews are
//! forbidden, it ends silently.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use kopf_client::{Client, Error};
use kopf_core::namespace::Scope;
use kopf_core::rights::{
    Completeness, Coverage, Grants, Options, Permission, PermissionScope, Requirements, Usage,
    rules, to_yaml,
};
use serde_json::json;
use tracing::{debug, warn};

use crate::observation::{DiscoveryReceiver, Resources};
use crate::shared::Shared;

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

/// A namespace name that cannot exist and so has no Roles: its rules are those of the whole
/// cluster. Reviews without a namespace are rejected.
const NO_NAMESPACE: &str = "-";

/// Concurrent reviews. The server processes them in memory.
const CONCURRENCY: usize = 8;

/// Maximum number of permissions or namespaces to review, as each takes a request.
const MAX_REVIEWS: usize = 300;

/// A review of the permissions of one operator.
pub(crate) struct Review {
    pub(crate) shared: Arc<Shared>,
    pub(crate) scope: Scope,
    pub(crate) options: Options,
    pub(crate) discovery: DiscoveryReceiver,
}

impl Review {
    /// Reviews the permissions once the resources are discovered, then never returns.
    pub(crate) async fn run(mut self) {
        if let Some((resources, _)) = self.discovery.next().await {
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
        let usage = Usage {
            registry: &self.shared.registry,
            settings: &self.shared.context.settings,
            scope: &self.scope,
            resources: resources.iter().map(AsRef::as_ref).collect(),
            coverage: Coverage::Complete,
            options: &self.options,
        };
        Requirements::of(&usage).permissions
    }
}

/// Returns the permissions that are not granted.
async fn missing(
    client: &Client,
    permissions: BTreeSet<Permission>,
) -> Result<BTreeSet<Permission>, Error> {
    if permissions.is_empty() {
        return Ok(permissions);
    }
    let everywhere = grants(client, &PermissionScope::Cluster).await?;
    let mut uncovered: BTreeMap<PermissionScope, BTreeSet<Permission>> = BTreeMap::new();
    for permission in permissions {
        if !everywhere.cover(&permission) {
            let there = uncovered.entry(permission.scope.clone()).or_default();
            there.insert(permission);
        }
    }
    let mut missing = BTreeSet::new();
    let mut unclear = BTreeSet::new();
    let count = uncovered.len();
    if count > MAX_REVIEWS {
        debug!("Permissions are not reviewed: too many namespaces ({count}).");
        return Ok(missing);
    }
    for (scope, mut permissions) in uncovered {
        let grants = match &scope {
            PermissionScope::Cluster => everywhere.clone(),
            PermissionScope::Namespace(_) => grants(client, &scope).await?,
        };
        permissions.retain(|permission| !grants.cover(permission));
        match grants.completeness() {
            Completeness::Complete => missing.append(&mut permissions),
            Completeness::Partial => unclear.append(&mut permissions),
        }
    }
    let count = unclear.len();
    if count > MAX_REVIEWS {
        debug!("Permissions are not reviewed: too many single reviews ({count}).");
        unclear.clear();
    }
    missing.append(&mut refused(client, unclear).await?);
    // Members of the group of administrators have all permissions without rules.
    if !missing.is_empty() && is_granted(client, &everything()).await? {
        missing.clear();
    }
    Ok(missing)
}

/// Returns the rules of the user in a namespace or in the cluster.
async fn grants(client: &Client, scope: &PermissionScope) -> Result<Grants, Error> {
    let namespace = match scope {
        PermissionScope::Cluster => NO_NAMESPACE,
        PermissionScope::Namespace(namespace) => namespace,
    };
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    match client.post_json(RULES, &review).await {
        Ok(reviewed) => Ok(Grants::of_review(&reviewed)),
        // Authorizers without this review usually support reviews of single permissions.
        Err(error) if error.is_forbidden() || error.is_not_found() => Ok(Grants::default()),
        Err(error) => Err(error),
    }
}

/// Reviews permissions one by one and returns those that are not granted.
async fn refused(
    client: &Client,
    permissions: BTreeSet<Permission>,
) -> Result<BTreeSet<Permission>, Error> {
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

fn everything() -> Permission {
    Permission {
        scope: PermissionScope::Cluster,
        group: "*".to_owned(),
        resource: "*".to_owned(),
        name: None,
        verb: "*".to_owned(),
    }
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
    if let PermissionScope::Namespace(namespace) = &permission.scope {
        attributes["namespace"] = json!(namespace);
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let reviewed = client.post_json(ACCESS, &review).await?;
    Ok(reviewed["status"]["allowed"] == true)
}

/// Returns the message with the missing permissions and the rules that grant them.
fn describe(missing: &BTreeSet<Permission>) -> String {
    let permissions: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "Not enough permissions to {}. Add these rules to the roles of the operator:",
        permissions.join(", ")
    );
    for (scope, rules) in rules(missing) {
        // Writing to a string cannot fail.
        let _ = match scope {
            PermissionScope::Cluster => write!(text, "\n# ClusterRole\nrules:\n"),
            PermissionScope::Namespace(namespace) => {
                write!(text, "\n# Role in the namespace {namespace:?}\nrules:\n")
            }
        };
        text.push_str(to_yaml(&rules, 2).trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fake_api::{FakeRequest, FakeResponse, serve};

    fn permission(resource: &str, scope: PermissionScope) -> Permission {
        Permission {
            scope,
            group: "g".to_owned(),
            resource: resource.to_owned(),
            name: None,
            verb: "patch".to_owned(),
        }
    }

    /// A server with these rules in the cluster and in the namespace `ns`, and with these granted
    /// resources in access reviews.
    struct Server {
        completeness: Completeness,
        everywhere: Value,
        ns: Value,
        granted: &'static [&'static str],
    }

    impl Server {
        fn respond(&self, request: &FakeRequest) -> FakeResponse {
            let spec = &request.body["spec"];
            if request.path.starts_with(RULES) {
                let mut rules = self.everywhere.as_array().unwrap().clone();
                if spec["namespace"] == "ns" {
                    rules.extend(self.ns.as_array().unwrap().clone());
                }
                let incomplete = self.completeness == Completeness::Partial;
                let status = json!({"resourceRules": rules, "incomplete": incomplete});
                return FakeResponse::Json(201, json!({"status": status}));
            }
            let resource = spec["resourceAttributes"]["resource"].as_str().unwrap();
            let allowed = self.granted.contains(&resource);
            FakeResponse::Json(201, json!({"status": {"allowed": allowed}}))
        }
    }

    fn namespace() -> PermissionScope {
        PermissionScope::Namespace("ns".to_owned())
    }

    fn rule(resource: &str) -> Value {
        json!({"verbs": ["patch"], "apiGroups": ["g"], "resources": [resource]})
    }

    #[tokio::test]
    async fn missing_permissions_are_found_together() {
        let server = Server {
            completeness: Completeness::Complete,
            everywhere: json!([rule("things")]),
            ns: json!([rule("known")]),
            granted: &[],
        };
        let (client, log) = serve(move |request| server.respond(request));
        let permissions = BTreeSet::from([
            permission("things", PermissionScope::Cluster),
            permission("things", namespace()),
            permission("things/status", PermissionScope::Cluster),
            permission("known", namespace()),
            permission("known", PermissionScope::Cluster),
            permission("others", namespace()),
        ]);
        let missing = missing(&client, permissions).await.unwrap();
        let text = describe(&missing);
        assert_eq!(
            text,
            "Not enough permissions to patch known.g cluster-wide, patch things.g/status cluster-wide, \
             patch others.g in the namespace \"ns\". Add these rules to the roles of the operator:\n\
             # ClusterRole\nrules:\n  - apiGroups: [\"g\"]\n    \
             resources: [\"known\", \"things/status\"]\n    verbs: [\"patch\"]\n\
             # Role in the namespace \"ns\"\nrules:\n  - apiGroups: [\"g\"]\n    \
             resources: [\"others\"]\n    verbs: [\"patch\"]"
        );
        // One for the cluster, one for the namespace, and one for administrators.
        assert_eq!((log.count(RULES), log.count(ACCESS)), (2, 1));
    }

    #[tokio::test]
    async fn rules_of_the_cluster_are_one_request() {
        let server = Server {
            completeness: Completeness::Complete,
            everywhere: json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
            ns: json!([]),
            granted: &[],
        };
        let (client, log) = serve(move |request| server.respond(request));
        let scopes = [PermissionScope::Cluster, namespace()];
        let permissions = scopes.map(|scope| permission("things", scope)).into();
        assert!(missing(&client, permissions).await.unwrap().is_empty());
        assert_eq!((log.count(RULES), log.count(ACCESS)), (1, 0));
    }

    #[tokio::test]
    async fn partial_rules_are_completed_by_access_reviews() {
        let server = Server {
            completeness: Completeness::Partial,
            everywhere: json!([rule("known")]),
            ns: json!([]),
            granted: &["things"],
        };
        let (client, log) = serve(move |request| server.respond(request));
        let resources = ["known", "things", "others"];
        let permissions = resources.map(|resource| permission(resource, namespace()));
        let missing = missing(&client, permissions.into()).await.unwrap();
        assert_eq!(missing, BTreeSet::from([permission("others", namespace())]));
        // Two for the permissions without rules, and one for administrators.
        assert_eq!((log.count(RULES), log.count(ACCESS)), (2, 3));
    }

    #[tokio::test]
    async fn administrators_need_no_rules() {
        let server = Server {
            completeness: Completeness::Complete,
            everywhere: json!([]),
            ns: json!([]),
            granted: &["*"],
        };
        let (client, _) = serve(move |request| server.respond(request));
        let permissions = BTreeSet::from([permission("things", PermissionScope::Cluster)]);
        assert!(missing(&client, permissions).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn forbidden_reviews_are_an_error() {
        let (client, _) = serve(|_| FakeResponse::status(403));
        let permissions = BTreeSet::from([permission("things", PermissionScope::Cluster)]);
        assert!(missing(&client, permissions).await.is_err());
    }
}
