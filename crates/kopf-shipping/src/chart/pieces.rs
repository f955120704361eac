//! Values of a chart, and the expressions of its templates that use them.

use std::fmt::Write as _;

use super::{Election, NAME, is_lease};
use crate::Identity;
use crate::deployment::{Deployment, Parts, Webhooks};
use crate::files::File;
use crate::plan::LEASE_OPTION;
use crate::yaml::quoted;

/// The value that switches the election on.
pub(super) const ELECTION: &str = ".Values.leaderElection";

/// Lines after the ServiceAccount.
pub(super) const ACCOUNT_ANNOTATIONS: &str = "{{- with .Values.serviceAccountAnnotations }}\n  \
    annotations:\n    {{- toYaml . | nindent 4 }}\n{{- end }}\n";

/// Several pods without an election would handle the same objects at the same time.
const GUARD: &str = "{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection) }}\n\
    {{- fail \"several replicas need an election: set leaderElection to true\" }}\n{{- end }}\n";

const ENV: &str = "{{- with .Values.env }}\n{{- toYaml . | nindent 12 }}\n{{- end }}\n";

macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../templates/chart/", $name))
    };
}

/// Returns the variable parts of the Deployment.
pub(super) fn parts(deployment: &Deployment, election: Election) -> Parts {
    let guard = match election {
        Election::Value(_) => GUARD,
        Election::Code => "",
    };
    Parts {
        image: quoted("{{ .Values.image }}"),
        replicas: "{{ .Values.replicas }}".to_owned(),
        strategy: "{{ if gt (int .Values.replicas) 1 }}RollingUpdate{{ else }}Recreate{{ end }}"
            .to_owned(),
        resources: "{{- toYaml .Values.resources | nindent 12 }}\n".to_owned(),
        arguments: arguments(deployment),
        pod_metadata: template!("pod-metadata.yaml"),
        pod: format!("{guard}{}", template!("pod.yaml")),
        container: template!("container.yaml"),
        variables: ENV,
    }
}

/// Returns the list of arguments. The name of the Lease is an argument only with an election, and is
/// that of the release: two releases in one namespace are two operators.
fn arguments(deployment: &Deployment) -> String {
    // Writing to a string does not fail.
    let mut text = String::new();
    for argument in deployment.all_arguments() {
        let separator = if text.is_empty() { "" } else { ", " };
        if is_lease(&argument) {
            let argument = quoted(&format!("{LEASE_OPTION}{NAME}"));
            let _ = write!(
                text,
                "{{{{ if {ELECTION} }}}}{separator}{argument}{{{{ end }}}}"
            );
        } else {
            let _ = write!(text, "{separator}{}", quoted(&argument));
        }
    }
    format!("[{text}{{{{ range .Values.extraArgs }}}}, {{{{ quote . }}}}{{{{ end }}}}]")
}

pub(super) fn metadata(identity: &Identity) -> String {
    format!(
        "apiVersion: v2\n\
         name: {name}\n\
         description: A Kubernetes operator\n\
         type: application\n\
         version: 0.1.0\n\
         appVersion: \"0.1.0\"\n",
        name = quoted(&identity.name),
    )
}

/// Returns `values.yaml`.
pub(super) fn values(deployment: &Deployment, election: Election) -> String {
    let parts = deployment.parts();
    let resources = parts.resources.lines();
    let resources: Vec<_> = resources.map(|line| format!("  {line}")).collect();
    let (needs, leader) = match election {
        Election::Value(default) => (
            "leaderElection",
            format!(
                "# Lets one of the pods handle the objects, and another one if it fails.\nleaderElection: {default}\n"
            ),
        ),
        Election::Code => ("the election in the code of the operator", String::new()),
    };
    let grace = deployment.grace();
    let grace = grace.map_or_else(|| "null".to_owned(), |seconds| seconds.to_string());
    template!("values.yaml")
        .replace("@IMAGE@", &parts.image)
        .replace("@REPLICAS@", &parts.replicas)
        .replace("@ELECTION@", needs)
        .replace("@LEADER@\n", &format!("{leader}\n"))
        .replace("@RESOURCES@", &resources.join("\n"))
        .replace("@GRACE@", &grace)
}

/// Returns the templates of objects that values switch on, and the notes for users.
pub(super) fn optional_objects(deployment: &Deployment) -> [File; 5] {
    let webhooks = match deployment.webhooks {
        Webhooks::Served => {
            "    # Requests of the API server, whose address no selector matches.\n    \
             - ports:\n        - port: webhooks\n"
        }
        Webhooks::Absent => "",
    };
    let policy = template!("networkpolicy.yaml").replace("@WEBHOOKS@\n", webhooks);
    [
        File::new("templates/podmonitor.yaml", template!("podmonitor.yaml")),
        File::new(
            "templates/servicemonitor.yaml",
            template!("servicemonitor.yaml"),
        ),
        File::new(
            "templates/poddisruptionbudget.yaml",
            template!("poddisruptionbudget.yaml"),
        ),
        File::new("templates/networkpolicy.yaml", policy),
        File::new("templates/NOTES.txt", template!("NOTES.txt")),
    ]
}
