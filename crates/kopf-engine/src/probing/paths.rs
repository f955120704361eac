//! The endpoints of an operator: addresses with their paths.

use super::Endpoint;

/// The path of metrics, if the URL has none.
const METRICS: &str = "/metrics";

/// One address with its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) endpoint: Endpoint,
    pub(crate) role: Role,
    pub(super) paths: Paths,
}

/// The purpose of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Probes, and metrics unless they have their own address.
    Probes,
    /// Metrics only.
    Metrics,
}

/// The configured paths of one address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Paths {
    /// The path with the results of the probe handlers.
    pub(super) probe: Option<String>,
    pub(super) metrics: Option<String>,
}

/// The content of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Probe,
    Metrics,
    Readiness,
    Liveness,
}

impl Paths {
    /// Returns the content of a path. The configured paths take precedence.
    pub(super) fn route(&self, path: &str) -> Option<Route> {
        if self.probe.as_deref() == Some(path) {
            return Some(Route::Probe);
        }
        if self.metrics.as_deref() == Some(path) {
            return Some(Route::Metrics);
        }
        match path {
            "/readyz" => Some(Route::Readiness),
            "/livez" | "/healthz" => Some(Route::Liveness),
            _ => None,
        }
    }
}

/// Returns the addresses to listen at: one if both endpoints have the same host and port.
///
/// # Errors
/// Returns the endpoint if probes and metrics have the same URL.
pub(crate) fn sites(
    liveness: Option<Endpoint>,
    metrics: Option<Endpoint>,
) -> Result<Vec<Site>, Endpoint> {
    let path = metrics.as_ref().map(|endpoint| match endpoint.path() {
        "/" => METRICS.to_owned(),
        path => path.to_owned(),
    });
    let Some(liveness) = liveness else {
        return Ok(metrics
            .map(|endpoint| own(endpoint, path))
            .into_iter()
            .collect());
    };
    let probe = Some(liveness.path().to_owned());
    let is_shared = match &metrics {
        Some(metrics) => is_same_address(&liveness, metrics),
        None => true,
    };
    if is_shared {
        if path == probe {
            return Err(liveness);
        }
        let metrics = path.or_else(|| Some(METRICS.to_owned()));
        return Ok(vec![Site {
            endpoint: liveness,
            role: Role::Probes,
            paths: Paths { probe, metrics },
        }]);
    }
    let probes = Site {
        endpoint: liveness,
        role: Role::Probes,
        paths: Paths {
            probe,
            metrics: None,
        },
    };
    let metrics = metrics.map(|endpoint| own(endpoint, path));
    Ok(std::iter::once(probes).chain(metrics).collect())
}

fn own(endpoint: Endpoint, path: Option<String>) -> Site {
    Site {
        endpoint,
        role: Role::Metrics,
        paths: Paths {
            probe: None,
            metrics: path,
        },
    }
}

/// Returns `true` if both endpoints use the same port. Port 0 is any free port and differs every
/// time.
fn is_same_address(one: &Endpoint, other: &Endpoint) -> bool {
    one.host() == other.host() && one.port() == other.port() && one.port() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sites as `role address probe metrics`.
    fn planned(liveness: &str, metrics: &str) -> Vec<String> {
        let parse = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        let sites = sites(parse(liveness), parse(metrics)).unwrap();
        let describe = |site: Site| {
            let Paths { probe, metrics } = site.paths;
            let path = |path: Option<String>| path.unwrap_or_else(|| "-".to_owned());
            let (role, port) = (site.role, site.endpoint.port());
            format!("{role:?} {port} {} {}", path(probe), path(metrics))
        };
        sites.into_iter().map(describe).collect()
    }

    #[test]
    fn metrics_are_at_the_probe_endpoint_or_at_their_own() {
        assert!(planned("", "").is_empty());
        assert_eq!(
            planned("http://:1/healthz", ""),
            ["Probes 1 /healthz /metrics"]
        );
        assert_eq!(planned("", "http://:2"), ["Metrics 2 - /metrics"]);
        assert_eq!(planned("", "http://:2/m"), ["Metrics 2 - /m"]);
        assert_eq!(
            planned("http://:1/healthz", "http://:2/m"),
            ["Probes 1 /healthz -", "Metrics 2 - /m"]
        );
        assert_eq!(
            planned("http://:1/healthz", "http://:1/m"),
            ["Probes 1 /healthz /m"]
        );
        assert_eq!(
            planned("http://:0/healthz", "http://:0/m").len(),
            2,
            "port 0 is a different port every time"
        );
    }

    #[test]
    fn one_url_cannot_have_two_contents() {
        let endpoint = || Some("http://:1/x".parse().unwrap());
        assert!(sites(endpoint(), endpoint()).is_err());
    }

    #[test]
    fn configured_paths_take_precedence() {
        let paths = Paths {
            probe: Some("/healthz".to_owned()),
            metrics: Some("/readyz".to_owned()),
        };
        assert_eq!(paths.route("/healthz"), Some(Route::Probe));
        assert_eq!(paths.route("/readyz"), Some(Route::Metrics));
        assert_eq!(paths.route("/livez"), Some(Route::Liveness));
        assert_eq!(paths.route("/healthz/"), None);
        assert_eq!(Paths::default().route("/healthz"), Some(Route::Liveness));
    }
}
