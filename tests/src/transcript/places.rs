//! Short forms of paths, and the kinds of the objects at a path.

use std::fmt::Write as _;

use super::scope::Scope;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The kinds of plurals, for bodies without a kind.
const KINDS: &str = "
    configmaps ConfigMap, secrets Secret, pods Pod, services Service, events Event, namespaces Namespace,
    nodes Node, endpoints Endpoints, serviceaccounts ServiceAccount, persistentvolumes PersistentVolume,
    persistentvolumeclaims PersistentVolumeClaim, replicationcontrollers ReplicationController,
    resourcequotas ResourceQuota, limitranges LimitRange, podtemplates PodTemplate,
    deployments Deployment, statefulsets StatefulSet, daemonsets DaemonSet, replicasets ReplicaSet,
    controllerrevisions ControllerRevision, jobs Job, cronjobs CronJob,
    horizontalpodautoscalers HorizontalPodAutoscaler, poddisruptionbudgets PodDisruptionBudget,
    ingresses Ingress, ingressclasses IngressClass, networkpolicies NetworkPolicy,
    ipaddresses IPAddress, servicecidrs ServiceCIDR,
    storageclasses StorageClass, csidrivers CSIDriver, csinodes CSINode,
    volumeattachments VolumeAttachment, priorityclasses PriorityClass, runtimeclasses RuntimeClass,
    roles Role, rolebindings RoleBinding, clusterroles ClusterRole,
    clusterrolebindings ClusterRoleBinding, leases Lease, endpointslices EndpointSlice,
    certificatesigningrequests CertificateSigningRequest, flowschemas FlowSchema,
    prioritylevelconfigurations PriorityLevelConfiguration,
    customresourcedefinitions CustomResourceDefinition,
    validatingwebhookconfigurations ValidatingWebhookConfiguration,
    mutatingwebhookconfigurations MutatingWebhookConfiguration,
    validatingadmissionpolicies ValidatingAdmissionPolicy,
    validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding,
    mutatingadmissionpolicies MutatingAdmissionPolicy,
    mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding,
    tokenreviews TokenReview, subjectaccessreviews SubjectAccessReview,
    selfsubjectaccessreviews SelfSubjectAccessReview, selfsubjectrulesreviews SelfSubjectRulesReview,
    localsubjectaccessreviews LocalSubjectAccessReview, selfsubjectreviews SelfSubjectReview,
    widgets Widget";

/// Returns the absolute path of a short one, with names replaced and encoded.
///
/// Short paths are in the test's namespace: `configmaps/a` of the core group, `widgets/a` of the
/// test's CRD, `apps/v1/deployments/a` of a group. `crds` are the CRDs, `crds/widgets` the test's own.
pub(super) fn absolute(path: &str, scope: &Scope) -> Result<String, String> {
    let (place, query) = match path.split_once('?') {
        Some((place, query)) => (place, format!("?{}", encoded(&scope.text(query)?))),
        None => (path, String::new()),
    };
    let place = scope.text(place)?;
    let mut parts = place.split('/');
    let (first, second) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let is_version = second
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let place = match first {
        "" => place,
        "crds" if second == "widgets" => {
            scope.text(&format!("{CRDS}/widgets.$group"))? + &place["crds/widgets".len()..]
        }
        "crds" => place.replacen("crds", CRDS, 1),
        "widgets" => scope.text(&format!("/apis/$group/v1/namespaces/$namespace/{place}"))?,
        group if is_version => {
            let rest = &place[group.len() + second.len() + 2..];
            scope.text(&format!(
                "/apis/{group}/{second}/namespaces/$namespace/{rest}"
            ))?
        }
        _ => scope.text(&format!("/api/v1/namespaces/$namespace/{place}"))?,
    };
    Ok(place + &query)
}

/// Encodes the characters of a query that are not allowed in URLs.
fn encoded(query: &str) -> String {
    let mut result = String::new();
    for byte in query.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}#+".contains(&byte) {
            result.push(char::from(byte));
        } else {
            write!(result, "%{byte:02X}").expect("writing to a String never fails");
        }
    }
    result
}

/// Returns the `apiVersion` and the `kind` of the objects at an absolute path.
pub(super) fn kind_at(path: &str) -> Option<(String, &'static str)> {
    let path = path.split('?').next()?;
    let (version, rest) = match path.strip_prefix("/apis/") {
        Some(rest) => {
            let (group, rest) = rest.split_once('/')?;
            let (version, rest) = rest.split_once('/')?;
            (format!("{group}/{version}"), rest)
        }
        None => ("v1".to_owned(), path.strip_prefix("/api/v1/")?),
    };
    let parts: Vec<&str> = rest.split('/').collect();
    let plural = match parts[..] {
        ["namespaces", _, plural, ..] if !["status", "finalize"].contains(&plural) => plural,
        [plural, ..] => plural,
        [] => return None,
    };
    let kinds = KINDS
        .split(',')
        .filter_map(|entry| entry.trim().split_once(' '));
    let (_, kind) = kinds.into_iter().find(|(name, _)| *name == plural)?;
    Some((version, kind))
}

#[cfg(test)]
mod tests {
    use super::{absolute, kind_at};
    use crate::transcript::scope::Scope;

    #[test]
    fn short_paths_are_completed() {
        let mut scope = Scope::default();
        scope.set("namespace", "ns");
        scope.set("group", "g.example.com");
        for (short, long) in [
            ("configmaps/a", "/api/v1/namespaces/ns/configmaps/a"),
            (
                "apps/v1/deployments",
                "/apis/apps/v1/namespaces/ns/deployments",
            ),
            (
                "$group/v2/widgets/a",
                "/apis/g.example.com/v2/namespaces/ns/widgets/a",
            ),
            ("widgets", "/apis/g.example.com/v1/namespaces/ns/widgets"),
            ("/api/v1/namespaces/$namespace", "/api/v1/namespaces/ns"),
            (
                "pods?labelSelector=a in (b)",
                "/api/v1/namespaces/ns/pods?labelSelector=a%20in%20(b)",
            ),
            (
                "crds/widgets/status",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.g.example.com/status",
            ),
        ] {
            assert_eq!(absolute(short, &scope).unwrap(), long);
        }
        assert!(absolute("pods/$nope", &scope).is_err());
    }

    #[test]
    fn paths_have_kinds() {
        let kind = |path| kind_at(path).map(|(version, kind)| format!("{version} {kind}"));
        assert_eq!(
            kind("/api/v1/namespaces/ns/configmaps").unwrap(),
            "v1 ConfigMap"
        );
        assert_eq!(kind("/api/v1/namespaces/ns").unwrap(), "v1 Namespace");
        assert_eq!(
            kind("/apis/apps/v1/namespaces/ns/deployments/a").unwrap(),
            "apps/v1 Deployment"
        );
        assert_eq!(kind("/apis/g/v1/namespaces/ns/unknown"), None);
    }
}
