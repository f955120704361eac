//! Services in front of webhook servers: references, DNS names, and the environment variable of pods.
//!
//! Generated manifests and webhook servers take names and ports from here, so that they agree.

use std::fmt;

use super::ServiceReference;
use super::naming::is_name;

/// Environment variable of a pod with the Service of its webhooks: `NAMESPACE/NAME:PORT`.
pub const SERVICE_VARIABLE: &str = "KOPF_WEBHOOK_SERVICE";

/// Port of Services: API servers use it if a reference has none.
pub const SERVICE_PORT: u16 = 443;

/// Port on which servers behind a Service listen by default. Unprivileged processes can use it.
pub const SERVER_PORT: u16 = 9443;

/// Maximum length of the names of namespaces and Services.
const LIMIT: usize = 63;

/// Error for an invalid Service in front of a webhook server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidService {
    /// The environment variable has another format.
    #[error(
        "invalid value {value:?} of the environment variable {SERVICE_VARIABLE}: must be \
         NAMESPACE/NAME:PORT of the Service in front of the webhook server, such as \
         operators/my-operator-webhook:443"
    )]
    Variable {
        /// The value.
        value: String,
    },
    /// The name is not that of a Service.
    #[error(
        "invalid service {given:?} of the webhook server: must be NAME or NAMESPACE/NAME, each with 1 to 63 \
         lower-case letters, digits and dashes, starting and ending with a letter or digit"
    )]
    Name {
        /// The given name.
        given: String,
    },
    /// There is no such port.
    #[error(
        "invalid port {port} of the service {name:?} of the webhook server: must be 1 to 65535"
    )]
    Port {
        /// The name of the Service.
        name: String,
        /// The port.
        port: u16,
    },
    /// API servers do not accept the path.
    #[error(
        "invalid path {path:?} of the webhook server: behind a Service, API servers accept only segments of \
         lower-case letters, digits, dashes and dots, starting and ending with a letter or digit"
    )]
    Path {
        /// The path.
        path: String,
    },
}

impl ServiceReference {
    /// Returns the reference to a Service: `NAME` in the namespace of the operator, or
    /// `NAMESPACE/NAME`.
    ///
    /// # Errors
    ///
    /// The name or the port is invalid.
    pub fn new(name: &str, port: u16, namespace: &str) -> Result<Self, InvalidService> {
        let (namespace, label) = name.split_once('/').unwrap_or((namespace, name));
        if ![namespace, label].into_iter().all(is_label) {
            let given = name.to_owned();
            return Err(InvalidService::Name { given });
        }
        if port == 0 {
            let name = name.to_owned();
            return Err(InvalidService::Port { name, port });
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: label.to_owned(),
            path: None,
            port: Some(port),
        })
    }

    /// Parses the value of the environment variable. It is what [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    ///
    /// The value has another format.
    pub fn from_variable(value: &str) -> Result<Self, InvalidService> {
        let parsed = value.trim().rsplit_once(':').and_then(|(name, port)| {
            let name = Some(name).filter(|name| name.contains('/'))?;
            // Without the signs that numbers in Rust can have.
            let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))?;
            Self::new(name, port.parse().ok()?, "").ok()
        });
        parsed.ok_or_else(|| InvalidService::Variable {
            value: value.to_owned(),
        })
    }

    /// Sets the root path of the server.
    ///
    /// # Errors
    ///
    /// API servers do not accept it in references to Services.
    pub fn with_path(mut self, path: &str) -> Result<Self, InvalidService> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.collect();
        if !parts.iter().all(|part| is_name(part)) {
            let path = path.to_owned();
            return Err(InvalidService::Path { path });
        }
        self.path = (!parts.is_empty()).then(|| format!("/{}", parts.join("/")));
        Ok(self)
    }

    /// Returns the names of the Service in DNS. API servers verify certificates for the first one.
    pub fn dns_names(&self) -> [String; 3] {
        let short = format!("{}.{}", self.name, self.namespace);
        [
            format!("{short}.svc"),
            format!("{short}.svc.cluster.local"),
            short,
        ]
    }
}

impl fmt::Display for ServiceReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.unwrap_or(SERVICE_PORT);
        write!(f, "{}/{}:{port}", self.namespace, self.name)
    }
}

/// Returns `true` for RFC 1123 labels.
fn is_label(text: &str) -> bool {
    text.len() <= LIMIT && !text.contains('.') && is_name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_namespace_name_and_port() {
        let service = ServiceReference::from_variable("ops/my-op-webhook:8443").unwrap();
        assert_eq!(
            (&*service.namespace, &*service.name, service.port),
            ("ops", "my-op-webhook", Some(8443))
        );
        assert_eq!(service.to_string(), "ops/my-op-webhook:8443");
        assert_eq!(
            service.dns_names(),
            [
                "my-op-webhook.ops.svc",
                "my-op-webhook.ops.svc.cluster.local",
                "my-op-webhook.ops"
            ]
        );
        for wrong in [
            "name",
            "name:443",
            "ns/name",
            "ns/name:",
            "ns/name:x",
            "ns/name:+1",
            "ns/name:0",
            "ns/name:65536",
            "/name:443",
            "ns/:443",
            "ns/a/b:443",
            "https://name.ns.svc:443",
            "ns/Name:443",
            "{{ .Release.Namespace }}/name:443",
        ] {
            let error = ServiceReference::from_variable(wrong).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("KOPF_WEBHOOK_SERVICE") && text.contains("NAMESPACE/NAME:PORT"),
                "{text}"
            );
            assert!(text.contains(&format!("{wrong:?}")), "{text}");
        }
    }

    #[test]
    fn names_without_a_namespace_are_in_that_of_the_operator() {
        let own = ServiceReference::new("op", 443, "ops").unwrap();
        assert_eq!(own.to_string(), "ops/op:443");
        let other = ServiceReference::new("other/op", 443, "ops").unwrap();
        assert_eq!(other.to_string(), "other/op:443");
        let long = "a".repeat(64);
        for wrong in ["", "/op", "ns/", "a/b/c", "op.ns.svc", "Op", "-op", &long] {
            let error = ServiceReference::new(wrong, 443, "ops").unwrap_err();
            assert!(error.to_string().contains("NAMESPACE/NAME"), "{error}");
        }
        let error = ServiceReference::new("op", 0, "ops").unwrap_err();
        assert!(error.to_string().contains("1 to 65535"), "{error}");
    }

    #[test]
    fn paths_are_those_that_api_servers_accept() {
        let service = || ServiceReference::new("op", 443, "ops").unwrap();
        for (given, expected) in [
            ("", None),
            ("/", None),
            ("hooks", Some("/hooks")),
            ("/a/b.c-d/", Some("/a/b.c-d")),
        ] {
            let path = service().with_path(given).unwrap().path;
            assert_eq!(path.as_deref(), expected, "{given:?}");
        }
        for wrong in ["/a_b", "/Hooks", "/a b", "/a%20b", "/-a"] {
            let error = service().with_path(wrong).unwrap_err();
            assert!(error.to_string().contains(wrong), "{error}");
        }
    }
}
