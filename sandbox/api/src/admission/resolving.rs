//! Services of webhooks, resolved as by the real server, or mapped to URLs.

use std::str::FromStr;

use serde_json::Value;

use super::endpoint::Endpoint;

/// The URL of the server behind a Service of webhooks, for the time in which no pods stand behind it.
///
/// ```
/// use kopf_sandbox::ServiceUrl;
///
/// let service: ServiceUrl = "operators/my-webhooks=https://127.0.0.1:9443".parse()?;
/// let same = ServiceUrl::new("operators", "my-webhooks", "https://127.0.0.1:9443")?;
/// assert_eq!(service, same);
/// # Ok::<(), kopf_sandbox::InvalidServiceUrl>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) endpoint: Endpoint,
}

/// Error for a mapping of a Service that is not of the form `NAMESPACE/NAME=https://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid service {given:?}: must be NAMESPACE/NAME=https://HOST[:PORT][/PATH], such as \
     operators/my-webhooks=https://127.0.0.1:9443"
)]
pub struct InvalidServiceUrl {
    given: String,
}

impl ServiceUrl {
    /// Maps a Service to a URL. A path of the URL is the prefix of the webhook's path.
    ///
    /// # Errors
    ///
    /// A name is empty, or the URL is not `https://HOST[:PORT][/PATH]`.
    pub fn new(namespace: &str, name: &str, url: &str) -> Result<Self, InvalidServiceUrl> {
        let endpoint = Endpoint::parse(url).ok().filter(|endpoint| {
            let is_bare = endpoint.query.is_empty() && endpoint.fragment.is_empty();
            let is_anonymous = endpoint.user.is_none();
            endpoint.scheme == "https" && !endpoint.host.is_empty() && is_bare && is_anonymous
        });
        let is_name = |text: &str| !text.is_empty() && !text.contains(['/', '=', ':']);
        match endpoint {
            Some(endpoint) if is_name(namespace) && is_name(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                endpoint,
            }),
            _ => Err(InvalidServiceUrl {
                given: format!("{namespace}/{name}={url}"),
            }),
        }
    }
}

impl FromStr for ServiceUrl {
    type Err = InvalidServiceUrl;

    fn from_str(text: &str) -> Result<Self, InvalidServiceUrl> {
        let invalid = || InvalidServiceUrl {
            given: text.to_owned(),
        };
        let (service, url) = text.split_once('=').ok_or_else(invalid)?;
        let (namespace, name) = service.split_once('/').ok_or_else(invalid)?;
        Self::new(namespace, name, url).map_err(|_| invalid())
    }
}

/// Returns a Service by its namespace and name.
pub type FindService<'a> = &'a (dyn Fn(&str, &str) -> Option<Value> + Send + Sync);

/// Returns the host and the port that the real server connects to for a port of a Service. The error is
/// the reason in the message to clients.
pub(super) fn resolve(
    service: Option<&Value>,
    name: &str,
    port: u16,
) -> Result<(String, u16), String> {
    let spec = service.and_then(|service| service.get("spec"));
    let Some(spec) = spec else {
        return Err(format!("service {name:?} not found"));
    };
    let text = |field: &str| spec.get(field).and_then(Value::as_str).unwrap_or_default();
    match (text("type"), text("clusterIP")) {
        ("ExternalName", _) => Ok((text("externalName").to_owned(), port)),
        ("ClusterIP", "None") => Err(r#"cannot route to service with ClusterIP "None""#.to_owned()),
        ("ClusterIP" | "NodePort" | "LoadBalancer", address) => {
            let ports = spec.get("ports").and_then(Value::as_array);
            let has_port = ports
                .into_iter()
                .flatten()
                .any(|entry| entry.get("port").and_then(Value::as_u64) == Some(u64::from(port)));
            if !has_port {
                return Err(format!("no service port {port} found for service {name:?}"));
            }
            // As with a Service without endpoints: no pods run here.
            Err(format!(
                "dial tcp {address}:{port}: connect: connection refused (no pods run here: map the \
                 service to a URL with --service, or make it an ExternalName)"
            ))
        }
        (other, _) => Err(format!("unsupported service type {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_resolved_as_by_the_real_server() {
        let of = |spec: Value| resolve(Some(&json!({ "spec": spec })), "svc", 8443);
        assert_eq!(
            of(json!({ "type": "ExternalName", "externalName": "localhost" })),
            Ok(("localhost".to_owned(), 8443))
        );
        assert_eq!(
            resolve(None, "svc", 443).unwrap_err(),
            r#"service "svc" not found"#
        );
        for (spec, reason) in [
            (
                json!({ "type": "ClusterIP", "clusterIP": "None" }),
                r#"cannot route to service with ClusterIP "None""#,
            ),
            (
                json!({ "type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{ "port": 443 }] }),
                r#"no service port 8443 found for service "svc""#,
            ),
            (
                json!({ "type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{ "port": 8443 }] }),
                "dial tcp 10.0.0.9:8443: connect: connection refused",
            ),
            (
                json!({ "type": "Odd" }),
                r#"unsupported service type "Odd""#,
            ),
        ] {
            let error = of(spec).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }

    #[test]
    fn malformed_mappings_are_rejected() {
        for wrong in [
            "",
            "ns/svc",
            "svc=https://a",
            "/svc=https://a",
            "ns/=https://a",
            "ns/svc=",
            "ns/svc=http://a",
            "ns/svc=https://",
            "ns/svc=a:443",
            "ns/svc=https://a?b=c",
            "ns/svc=https://u@a",
            "ns/s/vc=https://a",
        ] {
            let error = wrong.parse::<ServiceUrl>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("{wrong:?}")) && error.contains("NAMESPACE/NAME=https://"),
                "{error}"
            );
        }
    }
}
