//! Helm charts of operators.

use kopf_core::rights::{PermissionScope, Requirements};
use kopf_core::settings::Leading;
use serde_json::Value;

use crate::deployment::{Deployment, Parts};
use crate::files::File;
use crate::plan::LEASE_OPTION;
use crate::yaml::{self, Error, quoted};
use crate::{Identity, rbac};

const NAME: &str = "{{ .Release.Name }}";
const NAMESPACE: &str = "{{ .Release.Namespace }}";

/// Returns the files of a Helm chart. Objects are named after the release, in its namespace. So are
/// the Lease and the shared certificate of replicas, unless the code of the operator sets their
/// names. Image, replicas and resources are values.
pub fn chart(
    identity: &Identity,
    requirements: &Requirements,
    definitions: &[Value],
    deployment: &Deployment,
) -> Result<Vec<File>, Error> {
    let release = Identity {
        name: NAME.to_owned(),
        namespace: NAMESPACE.to_owned(),
    };
    let (deployment, lease) = with_released_lease(deployment);
    let requirements = released(identity, lease.as_deref(), requirements);
    let mut files = vec![
        File::new("Chart.yaml", metadata(identity)),
        File::new("values.yaml", values(&deployment)),
    ];
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap_or("crd");
        let text = yaml::documents(std::slice::from_ref(definition))?;
        files.push(File::new(format!("crds/{name}.yaml"), text));
    }
    let rbac = rbac::documents(&release, &requirements).join("---\n");
    files.push(File::new("templates/rbac.yaml", rbac));
    let parts = Parts {
        image: quoted("{{ .Values.image }}"),
        replicas: "{{ .Values.replicas }}".to_owned(),
        strategy: "{{ if gt (int .Values.replicas) 1 }}RollingUpdate{{ else }}Recreate{{ end }}"
            .to_owned(),
        resources: "{{- toYaml .Values.resources | nindent 12 }}\n".to_owned(),
    };
    let text = deployment.text(&release, &parts);
    files.push(File::new("templates/deployment.yaml", text));
    if let Some(service) = deployment.service(&release) {
        files.push(File::new("templates/service.yaml", service));
    }
    Ok(files)
}

/// Names the Lease after the release: two releases in one namespace are two operators. Returns the
/// previous name of the Lease, if it is an argument.
fn with_released_lease(deployment: &Deployment) -> (Deployment, Option<String>) {
    let mut deployment = deployment.clone();
    let mut previous = None;
    for argument in &mut deployment.arguments {
        if let Some(name) = argument.strip_prefix(LEASE_OPTION) {
            previous = Some(name.to_owned());
            *argument = format!("{LEASE_OPTION}{NAME}");
        }
    }
    (deployment, previous)
}

/// Moves the permissions in the operator's namespace to the namespace of the release, and renames
/// the Secret of the certificate that the replicas of this Lease share.
fn released(identity: &Identity, lease: Option<&str>, requirements: &Requirements) -> Requirements {
    let mut requirements = requirements.clone();
    let certificate = lease.and_then(certificate_secret);
    let permissions = requirements.permissions.into_iter();
    let permissions = permissions.map(|mut permission| {
        if permission.scope == PermissionScope::Namespace(identity.namespace.clone()) {
            permission.scope = PermissionScope::Namespace(NAMESPACE.to_owned());
            let is_certificate = certificate.is_some() && permission.name == certificate;
            if permission.resource == "secrets" && is_certificate {
                permission.name = certificate_secret(NAME);
            }
        }
        permission
    });
    requirements.permissions = permissions.collect();
    requirements
}

/// Returns the name of the Secret with the certificate that the replicas of a Lease share.
fn certificate_secret(lease: &str) -> Option<String> {
    let mut leading = Leading::default();
    leading.enabled = true;
    lease.clone_into(&mut leading.name);
    leading.certificate_secret_name()
}

fn metadata(identity: &Identity) -> String {
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

fn values(deployment: &Deployment) -> String {
    let parts = deployment.parts();
    let resources = parts.resources.lines();
    let resources: Vec<_> = resources.map(|line| format!("  {line}\n")).collect();
    let resources = resources.concat();
    format!(
        "# The image of the operator.\n\
         image: {}\n\
         # The number of pods. More than one require leader election or peering.\n\
         replicas: {}\n\
         # Requests and limits of the container.\n\
         resources:\n{resources}",
        parts.image, parts.replicas,
    )
}

#[cfg(test)]
mod tests {
    use kopf_core::rights::Permission;
    use serde_json::json;

    use super::*;
    use crate::manifests::tests::assert_agreement;
    use crate::{Launch, Webhooks};

    /// Renders the expressions of these charts as Helm does.
    fn rendered(text: &str) -> Vec<Value> {
        let text = text
            .replace(NAME, "rel")
            .replace(NAMESPACE, "relns")
            .replace("{{ .Values.image }}", "img")
            .replace("{{ .Values.replicas }}", "1")
            .replace(
                "{{ if gt (int .Values.replicas) 1 }}RollingUpdate{{ else }}Recreate{{ end }}",
                "Recreate",
            )
            .replace(
                "{{- toYaml .Values.resources | nindent 12 }}",
                "            limits: {}",
            );
        assert!(!text.contains("{{"), "{text}");
        serde_saphyr::from_multiple(&text).unwrap()
    }

    fn permission(resource: &str, name: Option<&str>) -> Permission {
        Permission {
            scope: PermissionScope::Namespace("ops".to_owned()),
            group: String::new(),
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            verb: "get".to_owned(),
        }
    }

    #[test]
    fn leases_and_certificates_follow_the_release() {
        let identity = Identity::new("op", "ops").unwrap();
        let launch = Launch {
            lease: Some("op".to_owned()),
            ..Launch::default()
        };
        let names = ["op-webhook-certificate", "other"];
        let secrets = names.map(|name| permission("secrets", Some(name)));
        let requirements = Requirements {
            permissions: secrets
                .into_iter()
                .chain([permission("secrets", None)])
                .collect(),
            ..Requirements::default()
        };
        let mut deployment = deployment(launch.arguments());
        let files = |deployment: &Deployment| {
            let files = chart(&identity, &requirements, &[], deployment).unwrap();
            let rendered = |index: usize| rendered(&files[index].content);
            let rules = rendered(2)[1]["rules"].clone();
            let rules = rules.as_array().unwrap().clone();
            let names = rules.iter().filter_map(|rule| rule.get("resourceNames"));
            let names: Vec<_> = names
                .flat_map(|names| names.as_array().unwrap().clone())
                .collect();
            let pod = rendered(3)[0]["spec"]["template"]["spec"].take();
            (pod["containers"][0]["args"].clone(), names)
        };
        let (arguments, names) = files(&deployment);
        let probes = "--liveness=http://0.0.0.0:8080/healthz";
        let expected = json!(["run", "--all-namespaces", "--leader-elect-name=rel", probes]);
        assert_eq!(arguments, expected);
        assert_eq!(names, ["other", "rel-webhook-certificate"]);
        // Names in the code of the operator are the same in every release.
        deployment.arguments = Launch::default().arguments();
        let (arguments, names) = files(&deployment);
        assert_eq!(arguments, json!(["run", "--all-namespaces", probes]));
        assert_eq!(names, ["op-webhook-certificate", "other"]);
    }

    fn deployment(arguments: Vec<String>) -> Deployment {
        Deployment {
            image: "registry.example/op:1".to_owned(),
            replicas: 1,
            command: Vec::new(),
            arguments,
            files: Vec::new(),
            webhooks: Webhooks::Served,
        }
    }

    #[test]
    fn rendered_charts_use_the_names_and_values_of_the_release() {
        let identity = Identity::new("op", "ops").unwrap();
        let requirements = Requirements {
            permissions: [permission("pods", None)].into(),
            ..Requirements::default()
        };
        let deployment = deployment(vec!["run".to_owned()]);
        let definition = json!({"kind": "CustomResourceDefinition", "metadata": {"name": "x.g"}});
        let files = chart(&identity, &requirements, &[definition], &deployment).unwrap();
        let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "Chart.yaml",
                "values.yaml",
                "crds/x.g.yaml",
                "templates/rbac.yaml",
                "templates/deployment.yaml",
                "templates/service.yaml"
            ]
        );
        let values = rendered(&files[1].content);
        assert_eq!(values[0]["resources"]["requests"]["cpu"], "50m");
        let roles = rendered(&files[3].content);
        assert_eq!(roles[1]["metadata"]["namespace"], "relns");
        let deployment = &rendered(&files[4].content)[0];
        assert_eq!(deployment["metadata"]["name"], "rel");
        assert_eq!(deployment["spec"]["replicas"], 1);
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert!(container["resources"]["limits"].is_object());
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
        let service = &rendered(&files[5].content)[0];
        assert_eq!(service["metadata"]["name"], "rel-webhook");
        assert_agreement(deployment, service);
    }
}
