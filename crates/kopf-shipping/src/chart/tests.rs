//! Tests of charts, rendered as Helm does.

use kopf_core::handler::{FunctionId, HandlerKind, HandlerSpec};
use kopf_core::selector::Selector;
use serde_json::{Value, json};

use super::rendering::render;
use super::*;
use crate::manifests::tests::{assert_agreement, deployment};
use crate::{Launch, Webhooks};

fn registry() -> Registry<()> {
    let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), HandlerKind::Event);
    spec.selector = Some(Selector::parse(&["pods"]).unwrap());
    [spec.build(()).unwrap()].into_iter().collect()
}

fn plan(lease: Option<&str>) -> Plan {
    Plan {
        identity: Identity::new("op", "ops").unwrap(),
        launch: Launch {
            lease: lease.map(str::to_owned),
            ..Launch::default()
        },
        extras: Vec::new(),
        managed_webhooks: None,
        definitions: vec![json!({"kind": "CustomResourceDefinition", "metadata": {"name": "x.g"}})],
        other_definitions: Vec::new(),
    }
}

/// A chart with its values.
struct Chart {
    files: Vec<File>,
    values: Value,
}

impl Chart {
    fn new(lease: Option<&str>, settings: &Settings) -> Self {
        let plan = plan(lease);
        let mut deployment = deployment(1);
        deployment.arguments = plan.launch.arguments();
        let files = chart(&plan, &registry(), settings, &deployment).unwrap();
        let values = files
            .iter()
            .find(|file| file.path == "values.yaml")
            .unwrap();
        let values = serde_saphyr::from_str(&values.content).unwrap();
        Self { files, values }
    }

    /// Returns all objects of the templates.
    fn objects(&self) -> Result<Vec<Value>, String> {
        let mut objects: Vec<Value> = Vec::new();
        let templates = self.files.iter().filter(|file| {
            file.path.starts_with("templates/") && !file.path.ends_with("NOTES.txt")
        });
        for file in templates {
            let text = render(&file.content, &self.values)?;
            let found: Vec<Value> = serde_saphyr::from_multiple(&text)
                .unwrap_or_else(|error| panic!("{}: {error}\n{text}", file.path));
            objects.extend(found.into_iter().filter(|object| !object.is_null()));
        }
        Ok(objects)
    }

    fn object(&self, kind: &str) -> Value {
        let objects = self.objects().unwrap();
        let mut found = objects.into_iter().filter(|object| object["kind"] == kind);
        found.next().unwrap_or_else(|| panic!("no {kind}"))
    }

    fn kinds(&self) -> Vec<String> {
        let objects = self.objects().unwrap();
        let kinds = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap().to_owned());
        kinds.collect()
    }

    fn container(&self) -> Value {
        self.object("Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
    }
}

#[test]
fn default_values_render_the_names_of_the_release() {
    let chart = Chart::new(None, &Settings::default());
    let paths: Vec<_> = chart.files.iter().map(|file| file.path.as_str()).collect();
    assert!(paths.contains(&"crds/x.g.yaml"), "{paths:?}");
    let expected = [
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Deployment",
        "Service",
    ];
    assert_eq!(chart.kinds(), expected);
    let deployment = chart.object("Deployment");
    assert_eq!(deployment["metadata"]["name"], "rel");
    assert_eq!(deployment["metadata"]["namespace"], "relns");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 60);
    assert_eq!(pod.get("nodeSelector"), None);
    assert_eq!(chart.container()["resources"]["requests"]["cpu"], "50m");
    assert_agreement(&deployment, &chart.object("Service"));
}

#[test]
fn values_reach_the_pods() {
    let mut chart = Chart::new(None, &Settings::default());
    let values = json!({
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "priorityClassName": "high",
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    });
    let container = json!({
        "imagePullPolicy": "Always",
        "envFrom": [{"secretRef": {"name": "keys"}}],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    });
    for fields in [&values, &container] {
        for (key, value) in fields.as_object().unwrap() {
            chart.values[key] = value.clone();
        }
    }
    chart.values["podAnnotations"] = json!({"a": "1"});
    chart.values["podLabels"] = json!({"team": "x"});
    chart.values["serviceAccountAnnotations"] = json!({"role": "cloud"});
    chart.values["env"] = json!([{"name": "LEVEL", "value": "3"}]);
    chart.values["extraArgs"] = json!(["--log-format=json"]);
    chart.values["terminationGracePeriodSeconds"] = json!(90);
    let template = &chart.object("Deployment")["spec"]["template"];
    for (key, value) in values.as_object().unwrap() {
        assert_eq!(template["spec"][key], *value);
    }
    let rendered = chart.container();
    for (key, value) in container.as_object().unwrap() {
        assert_eq!(rendered[key], *value);
    }
    assert_eq!(template["spec"]["terminationGracePeriodSeconds"], 90);
    assert_eq!(template["metadata"]["annotations"], json!({"a": "1"}));
    assert_eq!(template["metadata"]["labels"]["team"], "x");
    assert_eq!(
        template["metadata"]["labels"]["app.kubernetes.io/name"],
        "rel"
    );
    let account = chart.object("ServiceAccount");
    assert_eq!(account["metadata"]["annotations"], json!({"role": "cloud"}));
    let env = rendered["env"].as_array().unwrap();
    assert_eq!(env.last().unwrap(), &json!({"name": "LEVEL", "value": "3"}));
    assert_eq!(env.len(), 3, "{env:?}");
    let arguments = rendered["args"].as_array().unwrap();
    assert_eq!(arguments.last().unwrap(), "--log-format=json");
}

#[test]
fn several_replicas_need_an_election() {
    let mut chart = Chart::new(None, &Settings::default());
    chart.values["replicas"] = json!(2);
    let error = chart.objects().unwrap_err();
    assert!(error.contains("set leaderElection to true"), "{error}");
    chart.values["leaderElection"] = json!(true);
    assert_eq!(
        chart.object("Deployment")["spec"]["strategy"]["type"],
        "RollingUpdate"
    );
    let probes = "--liveness=http://0.0.0.0:8080/healthz";
    let expected = json!(["run", "--all-namespaces", "--leader-elect-name=rel", probes]);
    assert_eq!(chart.container()["args"], expected);
    let role = chart.object("Role");
    assert_eq!(role["metadata"]["namespace"], "relns");
    assert!(role["rules"].to_string().contains("leases"), "{role}");
    // Without the value, there are neither the argument nor the permissions.
    let chart = Chart::new(None, &Settings::default());
    assert_eq!(
        chart.container()["args"],
        json!(["run", "--all-namespaces", probes])
    );
    assert!(!chart.kinds().contains(&"Role".to_owned()));
    // The option of the command is the default of the value.
    let chart = Chart::new(Some("op"), &Settings::default());
    assert_eq!(chart.values["leaderElection"], true);
}

#[test]
fn elections_in_the_code_are_no_values() {
    let mut settings = Settings::default();
    settings.leading.enabled = true;
    "fixed".clone_into(&mut settings.leading.name);
    let mut chart = Chart::new(None, &settings);
    assert_eq!(chart.values.get("leaderElection"), None);
    chart.values["replicas"] = json!(3);
    let arguments = chart.container()["args"].to_string();
    assert!(!arguments.contains("leader-elect"), "{arguments}");
    assert!(chart.object("Role")["rules"].to_string().contains("leases"));
}

#[test]
fn optional_objects_select_the_pods() {
    let mut chart = Chart::new(None, &Settings::default());
    for key in [
        "podMonitor",
        "serviceMonitor",
        "podDisruptionBudget",
        "networkPolicy",
    ] {
        chart.values[key]["enabled"] = json!(true);
    }
    chart.values["podMonitor"]["labels"] = json!({"release": "prometheus"});
    chart.values["networkPolicy"]["egress"] = json!([{"ports": [{"port": 443}]}]);
    let labels = &chart.object("Deployment")["spec"]["template"]["metadata"]["labels"];
    let ports = chart.container()["ports"].to_string();
    let monitor = chart.object("PodMonitor");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], *labels);
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    assert!(ports.contains(&endpoint["port"].to_string()), "{ports}");
    let budget = chart.object("PodDisruptionBudget");
    assert_eq!(budget["spec"]["selector"]["matchLabels"], *labels);
    let policy = chart.object("NetworkPolicy");
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], *labels);
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    for rule in policy["spec"]["ingress"].as_array().unwrap() {
        assert!(
            ports.contains(&rule["ports"][0]["port"].to_string()),
            "{rule}"
        );
    }
    // The Service of the metrics, and not that of the webhooks.
    let monitor = chart.object("ServiceMonitor");
    let objects = chart.objects().unwrap();
    let mut services = objects.iter().filter(|object| {
        object["kind"] == "Service"
            && object["metadata"]["labels"] == monitor["spec"]["selector"]["matchLabels"]
    });
    let service = services.next().unwrap();
    assert_eq!(service["metadata"]["name"], "rel-metrics");
    assert_eq!(services.next(), None);
}

#[test]
fn operators_without_webhooks_have_no_rule_for_them() {
    let plan = plan(None);
    let mut deployment = deployment(1);
    deployment.webhooks = Webhooks::Absent;
    let files = chart(&plan, &registry(), &Settings::default(), &deployment).unwrap();
    let text = |path: &str| &files.iter().find(|file| file.path == path).unwrap().content;
    let policy = text("templates/networkpolicy.yaml");
    assert!(
        !policy.contains("webhooks") && !policy.contains('@'),
        "{policy}"
    );
    let values = text("values.yaml");
    assert!(
        values.contains("terminationGracePeriodSeconds: null"),
        "{values}"
    );
    assert!(!values.contains('@'), "{values}");
}

#[test]
fn certificates_of_replicas_follow_the_release() {
    let permission = |name: Option<&str>| kopf_core::rights::Permission {
        scope: PermissionScope::Namespace("ops".to_owned()),
        group: String::new(),
        resource: "secrets".to_owned(),
        name: name.map(str::to_owned),
        verb: "get".to_owned(),
    };
    let names = [None, Some("op-webhook-certificate"), Some("other")];
    let requirements = Requirements {
        permissions: names.map(permission).into(),
        ..Requirements::default()
    };
    let names = |plan: &Plan| -> Vec<_> {
        let permissions = released(plan, &requirements).permissions;
        let names = permissions
            .iter()
            .filter_map(|permission| permission.name.clone());
        names.collect()
    };
    let renamed = format!("{NAME}-webhook-certificate");
    assert_eq!(names(&plan(Some("op"))), ["other".to_owned(), renamed]);
    // Names in the code of the operator are the same in every release.
    assert_eq!(names(&plan(None)), ["op-webhook-certificate", "other"]);
}
