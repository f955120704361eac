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
mod tests {
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
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(objects[3]["spec"]["strategy"]["type"], "Recreate");
        assert_eq!(objects[4]["metadata"]["name"], "op-webhook");
        assert_eq!(objects[4]["spec"]["publishNotReadyAddresses"], true);
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
    }
}
