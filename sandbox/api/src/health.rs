//! The health endpoints: `/healthz`, `/livez`, `/readyz` and their checks.

/// Checks of all three endpoints, in the order of a real server. All of them pass always.
const CHECKS: [&str; 32] = [
    "ping",
    "log",
    "etcd",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/max-in-flight-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Checks that only `/readyz` has.
const READINESS: [&str; 3] = ["etcd-readiness", "informer-sync", "shutdown"];
/// Checks that only `/healthz` and `/livez` have.
const LIVENESS: [&str; 1] = ["loopback-serving-certificate"];

/// Returns all checks with the endpoints that they belong to.
pub fn checks() -> impl Iterator<Item = (&'static str, &'static str)> {
    ["healthz", "livez", "readyz"]
        .into_iter()
        .flat_map(|endpoint| checks_of(endpoint).map(move |check| (endpoint, *check)))
}

fn checks_of(endpoint: &str) -> impl Iterator<Item = &'static &'static str> {
    let own: &[&str] = match endpoint {
        "readyz" => &READINESS,
        _ => &LIVENESS,
    };
    CHECKS.iter().chain(own)
}

/// Returns the body of a health endpoint or of one of its checks, or `None` for other paths.
pub fn text(path: &str, query: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    let (endpoint, check) = match rest.split_once('/') {
        Some((endpoint, check)) => (endpoint, Some(check)),
        None => (rest, None),
    };
    if !["healthz", "livez", "readyz"].contains(&endpoint) {
        return None;
    }
    let checks = || checks_of(endpoint);
    if let Some(check) = check {
        return checks()
            .any(|known| *known == check)
            .then(|| "ok".to_owned());
    }
    let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    if !parameters.iter().any(|(name, _)| name == "verbose") {
        return Some("ok".to_owned());
    }
    let mut lines = String::new();
    for check in checks() {
        let excluded = parameters
            .iter()
            .any(|(name, value)| name == "exclude" && value == check);
        lines.push_str("[+]");
        lines.push_str(check);
        lines.push_str(if excluded { " excluded: ok\n" } else { " ok\n" });
    }
    Some(format!("{lines}{endpoint} check passed\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbose_health_lists_checks() {
        assert_eq!(text("/healthz", "").as_deref(), Some("ok"));
        assert_eq!(text("/livez/ping", "").as_deref(), Some("ok"));
        assert_eq!(text("/livez/nope", ""), None);
        assert_eq!(text("/version", "verbose"), None);
        let verbose = text("/readyz", "verbose&exclude=etcd").unwrap();
        assert!(verbose.starts_with("[+]ping ok\n"), "{verbose}");
        assert!(verbose.contains("[+]etcd excluded: ok\n"), "{verbose}");
        assert!(verbose.contains("[+]informer-sync ok\n"), "{verbose}");
        assert!(verbose.ends_with("readyz check passed\n"), "{verbose}");
        let live = text("/livez", "verbose").unwrap();
        assert!(!live.contains("[+]informer-sync ok\n"), "{live}");
    }
}
