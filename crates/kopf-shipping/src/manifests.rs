//! Manifests of operators.

use kopf_core::rights::Requirements;
use serde_json::Value;

use crate::deployment::Deployment;
use crate::yaml::{self, Error};
use crate::{Identity, rbac};

/// Returns the namespace, the CRDs, the roles, the Deployment and the Service of an operator as
/// YAML documents. Remarks are comments at the beginning.
pub fn manifests(
    identity: &Identity,
    requirements: &Requirements,
    definitions: &[Value],
    deployment: &Deployment,
) -> Result<String, Error> {
    let mut documents: Vec<String> = Vec::new();
    documents.extend(Deployment::namespace(identity));
    for definition in definitions {
        documents.push(yaml::documents(std::slice::from_ref(definition))?);
    }
    documents.extend(rbac::documents(identity, requirements));
    documents.push(deployment.text(identity, &deployment.parts()));
    documents.extend(deployment.service(identity));
    Ok(rbac::remarks(requirements) + &documents.join("---\n"))
}

#[cfg(test)]
pub(crate) mod tests {
    use kopf_core::admission::{SERVER_PORT, SERVICE_VARIABLE, ServiceReference};
    use serde_json::json;

    use super::*;
    use crate::Webhooks;

    pub(crate) fn deployment(replicas: u32) -> Deployment {
        Deployment {
            image: "registry.example/op:1".to_owned(),
            replicas,
            command: Vec::new(),
            arguments: vec!["run".to_owned(), "-A".to_owned()],
            files: Vec::new(),
            webhooks: Webhooks::Served,
        }
    }

    /// Checks that the pods, the Service and the webhook server of the operator agree.
    pub(crate) fn assert_agreement(deployment: &Value, service: &Value) {
        let template = &deployment["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let named = |list: &Value, name: &Value| {
            let list = list.as_array().unwrap().iter();
            let mut found = list.filter(|item| item["name"] == *name);
            found.next().unwrap_or_else(|| panic!("{name}")).clone()
        };
        let variable = named(&container["env"], &json!(SERVICE_VARIABLE));
        // As the webhook server reads it.
        let announced = ServiceReference::from_variable(variable["value"].as_str().unwrap());
        let announced = announced.unwrap();
        assert_eq!(service["metadata"]["name"], announced.name);
        assert_eq!(service["metadata"]["namespace"], announced.namespace);
        assert_eq!(service["spec"]["selector"], template["metadata"]["labels"]);
        let port = &service["spec"]["ports"][0];
        assert_eq!(port["port"], json!(announced.port));
        // Where the webhook server listens.
        let target = named(&container["ports"], &port["targetPort"]);
        assert_eq!(target["containerPort"], SERVER_PORT);
    }

    fn objects(text: &str) -> Vec<Value> {
        serde_saphyr::from_multiple(text).unwrap()
    }

    #[test]
    fn objects_follow_their_dependencies() {
        let identity = Identity::new("op", "ops").unwrap();
        let definition = json!({"kind": "CustomResourceDefinition", "metadata": {"name": "x"}});
        let text = manifests(
            &identity,
            &Requirements::default(),
            &[definition],
            &deployment(1),
        );
        let objects = objects(&text.unwrap());
        let kinds: Vec<_> = objects
            .iter()
            .map(|object| object["kind"].as_str())
            .collect();
        let expected = [
            "Namespace",
            "CustomResourceDefinition",
            "ServiceAccount",
            "Deployment",
            "Service",
        ];
        assert_eq!(kinds, expected.map(Some));
        let container = &objects[3]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            container["args"],
            json!(["run", "-A", "--liveness=http://0.0.0.0:8080/healthz"])
        );
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            assert_eq!(container[probe]["httpGet"]["path"], path);
        }
        assert_eq!(container["resources"]["limits"]["memory"], "256Mi");
        let pod = &objects[3]["spec"]["template"]["spec"];
        assert_eq!(pod["terminationGracePeriodSeconds"], 60);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(objects[3]["spec"]["strategy"]["type"], "Recreate");
        assert_eq!(objects[4]["metadata"]["name"], "op-webhook");
        assert_eq!(objects[4]["spec"]["publishNotReadyAddresses"], true);
        assert_agreement(&objects[3], &objects[4]);
    }

    #[test]
    fn the_default_namespace_is_not_created() {
        let identity = Identity::new("op", "default").unwrap();
        let mut deployment = deployment(2);
        deployment.webhooks = Webhooks::Absent;
        let text = manifests(&identity, &Requirements::default(), &[], &deployment).unwrap();
        let objects = objects(&text);
        assert_eq!(objects[0]["kind"], "ServiceAccount");
        assert_eq!(objects[1]["spec"]["replicas"], 2);
        assert_eq!(objects.len(), 2);
        assert!(!text.contains(SERVICE_VARIABLE), "{text}");
        assert!(!text.contains("terminationGrace"), "{text}");
    }
}
