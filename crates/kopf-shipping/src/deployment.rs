//! The Deployment of an operator, with its probes, and the Service of its webhooks.

use std::fmt::Write as _;

use kopf_core::admission::{SERVER_PORT, SERVICE_PORT, SERVICE_VARIABLE};

use crate::Identity;
use crate::yaml::quoted;

/// The port of health probes.
const PROBES: u16 = 8080;

/// Seconds for the shutdown of an operator with webhooks: 7 for handlers, up to 27 to remove the
/// webhooks while the API server is unreachable, and the rest for cleanup handlers. Others need less
/// than the 30 seconds that Kubernetes grants by default.
const GRACE: u16 = 60;

/// The webhook server of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhooks {
    /// The operator has no admission handlers.
    Absent,
    /// The operator serves webhooks behind a Service.
    Served,
}

/// The container and the replicas of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The image.
    pub image: String,
    /// The number of replicas.
    pub replicas: u32,
    /// The command; if empty, the entrypoint of the image is used.
    pub command: Vec<String>,
    /// The arguments of the command, without those of probes.
    pub arguments: Vec<String>,
    /// Arguments after those of probes, such as files with handlers.
    pub files: Vec<String>,
    /// The webhook server.
    pub webhooks: Webhooks,
}

/// The variable parts of the text: values, or expressions of a template.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) image: String,
    pub(crate) replicas: String,
    pub(crate) strategy: String,
    pub(crate) resources: String,
    /// All arguments as a list.
    pub(crate) arguments: String,
    /// More lines of the metadata of pods, of their specs, of the container and of its variables, with
    /// their indentation.
    pub(crate) pod_metadata: &'static str,
    pub(crate) pod: String,
    pub(crate) container: &'static str,
    pub(crate) variables: &'static str,
}

impl Deployment {
    pub(crate) fn parts(&self) -> Parts {
        // A rolling update would run two operators at a time on the same objects.
        let strategy = if self.replicas > 1 {
            "RollingUpdate"
        } else {
            "Recreate"
        };
        Parts {
            image: quoted(&self.image),
            replicas: self.replicas.to_string(),
            strategy: strategy.to_owned(),
            resources: "requests:\n  cpu: 50m\n  memory: 64Mi\nlimits:\n  memory: 256Mi\n"
                .to_owned(),
            arguments: listed(&self.all_arguments()),
            pod: match self.grace() {
                Some(seconds) => format!("      terminationGracePeriodSeconds: {seconds}\n"),
                None => String::new(),
            },
            ..Parts::default()
        }
    }

    /// Returns the arguments of the command, with those of probes.
    pub(crate) fn all_arguments(&self) -> Vec<String> {
        let probes = format!("--liveness=http://0.0.0.0:{PROBES}/healthz");
        [self.arguments.clone(), vec![probes], self.files.clone()].concat()
    }

    /// Returns the seconds for the shutdown, if the default of Kubernetes does not suffice.
    pub(crate) fn grace(&self) -> Option<u16> {
        (self.webhooks == Webhooks::Served).then_some(GRACE)
    }

    /// Returns the Namespace of the operator; `None` for `default`, which always exists.
    pub(crate) fn namespace(identity: &Identity) -> Option<String> {
        if identity.namespace == "default" {
            return None;
        }
        Some(format!(
            "apiVersion: v1\n\
             kind: Namespace\n\
             metadata:\n  \
               name: {}\n  \
               labels:\n    \
                 pod-security.kubernetes.io/enforce: restricted\n",
            quoted(&identity.namespace),
        ))
    }

    /// Returns the Deployment.
    pub(crate) fn text(&self, identity: &Identity, parts: &Parts) -> String {
        let name = quoted(&identity.name);
        let mut text = format!(
            "apiVersion: apps/v1\n\
             kind: Deployment\n\
             metadata:\n  \
               name: {name}\n  \
               namespace: {}\n  \
               labels:\n    \
                 app.kubernetes.io/name: {name}\n\
             spec:\n  \
               replicas: {}\n  \
               strategy:\n    \
                 type: {}\n  \
               selector:\n    \
                 matchLabels:\n      \
                   app.kubernetes.io/name: {name}\n  \
               template:\n    \
                 metadata:\n      \
                   labels:\n        \
                     app.kubernetes.io/name: {name}\n\
             {}    \
                 spec:\n      \
                   serviceAccountName: {name}\n\
             {}      \
                   securityContext:\n        \
                     runAsNonRoot: true\n        \
                     seccompProfile:\n          \
                       type: RuntimeDefault\n      \
                   containers:\n        \
                     - name: operator\n",
            quoted(&identity.namespace),
            parts.replicas,
            parts.strategy,
            parts.pod_metadata,
            parts.pod,
        );
        let container = self.container(identity, parts);
        push_indented(&mut text, &container, 10);
        text.push_str(parts.container);
        text
    }

    fn container(&self, identity: &Identity, parts: &Parts) -> String {
        let mut text = format!("image: {}\n", parts.image);
        // Writing to a string does not fail.
        if !self.command.is_empty() {
            let _ = writeln!(text, "command: {}", listed(&self.command));
        }
        let _ = writeln!(text, "args: {}", parts.arguments);
        text.push_str(
            "env:\n  \
               - name: POD_ID\n    \
                 valueFrom:\n      \
                   fieldRef:\n        \
                     fieldPath: metadata.name\n",
        );
        if self.webhooks == Webhooks::Served {
            let service = quoted(&identity.webhook_service().to_string());
            let _ = writeln!(text, "  - name: {SERVICE_VARIABLE}\n    value: {service}");
        }
        text.push_str(parts.variables);
        text.push_str("ports:\n");
        let _ = writeln!(text, "  - name: probes\n    containerPort: {PROBES}");
        if self.webhooks == Webhooks::Served {
            let _ = writeln!(text, "  - name: webhooks\n    containerPort: {SERVER_PORT}");
        }
        text.push_str(
            "livenessProbe:\n  \
               httpGet:\n    \
                 path: /healthz\n    \
                 port: probes\n  \
               initialDelaySeconds: 15\n  \
               periodSeconds: 30\n\
             readinessProbe:\n  \
               httpGet:\n    \
                 path: /readyz\n    \
                 port: probes\n  \
               periodSeconds: 10\n",
        );
        text.push_str("resources:\n");
        push_indented(&mut text, &parts.resources, 2);
        text.push_str(
            "securityContext:\n  \
               allowPrivilegeEscalation: false\n  \
               readOnlyRootFilesystem: true\n  \
               capabilities:\n    \
                 drop: [\"ALL\"]\n",
        );
        text
    }

    /// Returns the Service of the webhooks; `None` without webhooks.
    pub(crate) fn service(&self, identity: &Identity) -> Option<String> {
        if self.webhooks == Webhooks::Absent {
            return None;
        }
        let service = identity.webhook_service();
        Some(format!(
            "# The webhook server of the operator announces this Service ({SERVICE_VARIABLE}).\n\
             # Pods receive requests before they are ready: the listing of objects that the operator\n\
             # converts needs its webhook, and an operator is not ready before the listing.\n\
             apiVersion: v1\n\
             kind: Service\n\
             metadata:\n  \
               name: {}\n  \
               namespace: {}\n\
             spec:\n  \
               publishNotReadyAddresses: true\n  \
               selector:\n    \
                 app.kubernetes.io/name: {}\n  \
               ports:\n    \
                 - name: webhooks\n      \
                   port: {}\n      \
                   targetPort: webhooks\n",
            quoted(&service.name),
            quoted(&service.namespace),
            quoted(&identity.name),
            service.port.unwrap_or(SERVICE_PORT),
        ))
    }
}

fn listed(texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

fn push_indented(text: &mut String, block: &str, indentation: usize) {
    let indent = " ".repeat(indentation);
    for line in block.lines() {
        // Template expressions are not indented.
        let indent = if line.starts_with("{{") { "" } else { &indent };
        let _ = writeln!(text, "{indent}{line}");
    }
}
