//! Helm charts of operators.

use kopf_core::rights::{Place, Requirements};
use serde_json::Value;

use crate::deployment::{Deployment, Parts};
use crate::files::File;
use crate::yaml::{self, Error, quoted};
use crate::{Identity, rbac};

const NAME: &str = "{{ .Release.Name }}";
const NAMESPACE: &str = "{{ .Release.Namespace }}";

/// Returns the files of a Helm chart. Objects are named after the release, in its namespace. Image,
/// replicas and resources are values.
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
    let requirements = released(identity, requirements);
    let mut files = vec![
        File::new("Chart.yaml", metadata(identity)),
        File::new("values.yaml", values(deployment)),
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

/// Moves the permissions in the operator's namespace to the namespace of the release.
fn released(identity: &Identity, requirements: &Requirements) -> Requirements {
    let mut requirements = requirements.clone();
    let permissions = requirements.permissions.into_iter();
    let permissions = permissions.map(|mut permission| {
        if permission.place == Place::Namespace(identity.namespace.clone()) {
            permission.place = Place::Namespace(NAMESPACE.to_owned());
        }
        permission
    });
    requirements.permissions = permissions.collect();
    requirements
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
    use crate::Webhooks;

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

    #[test]
    fn rendered_charts_use_the_names_and_values_of_the_release() {
        let identity = Identity::new("op", "ops").unwrap();
        let permission = Permission {
            place: Place::Namespace("ops".to_owned()),
            group: String::new(),
            resource: "pods".to_owned(),
            name: None,
            verb: "list".to_owned(),
        };
        let requirements = Requirements {
            permissions: [permission].into(),
            ..Requirements::default()
        };
        let deployment = Deployment {
            image: "registry.example/op:1".to_owned(),
            replicas: 1,
            command: Vec::new(),
            arguments: vec!["run".to_owned()],
            files: Vec::new(),
            webhooks: Webhooks::Served,
        };
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
    }
}
