//! Discovery: groups, versions and resources.

use http::Method;
use kopf_tests::{Api, ApiResponse, eventually};
use serde_json::{Value, json};

/// The `Accept` header of kubectl for aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                          application/json";

fn resource<'a>(list: &'a ApiResponse, name: &str) -> &'a Value {
    let resources = list.json["resources"].as_array().into_iter().flatten();
    resources
        .into_iter()
        .find(|resource| resource["name"] == name)
        .unwrap_or(&Value::Null)
}

fn group<'a>(list: &'a Value, name: &str) -> &'a Value {
    let groups = list["groups"].as_array().into_iter().flatten();
    groups
        .into_iter()
        .find(|group| group["name"] == name)
        .unwrap_or(&Value::Null)
}

fn item<'a>(list: &'a Value, name: &str) -> &'a Value {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .into_iter()
        .find(|item| item["metadata"]["name"] == name)
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn core_versions_are_listed() {
    let api = Api::start().await;
    let versions = api.found("/api").await;
    assert_eq!(versions.json["kind"], "APIVersions");
    assert_eq!(versions.json["versions"], json!(["v1"]));
}

#[tokio::test]
async fn all_groups_are_listed_with_their_versions() {
    let api = Api::start().await;
    let groups = api.found("/apis").await;
    assert_eq!(groups.json["kind"], "APIGroupList");
    assert_eq!(groups.json["apiVersion"], "v1");
    for (name, preferred, others) in [
        ("apps", "v1", &[][..]),
        ("events.k8s.io", "v1", &[]),
        ("authentication.k8s.io", "v1", &[]),
        ("authorization.k8s.io", "v1", &[]),
        ("autoscaling", "v2", &["v1"]),
        ("batch", "v1", &[]),
        ("networking.k8s.io", "v1", &[]),
        ("policy", "v1", &[]),
        ("rbac.authorization.k8s.io", "v1", &[]),
        ("storage.k8s.io", "v1", &[]),
        ("admissionregistration.k8s.io", "v1", &[]),
        ("apiextensions.k8s.io", "v1", &[]),
        ("coordination.k8s.io", "v1", &[]),
        ("discovery.k8s.io", "v1", &[]),
    ] {
        let group = group(&groups.json, name);
        let version = |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
        assert_eq!(
            group["preferredVersion"],
            version(preferred),
            "{name}: {group}"
        );
        let mut versions = vec![version(preferred)];
        versions.extend(others.iter().map(|other| version(other)));
        assert_eq!(group["versions"], json!(versions), "{name}");
    }
}

#[tokio::test]
async fn group_lists_its_versions() {
    let api = Api::start().await;
    let group = api.found("/apis/autoscaling").await;
    assert_eq!(
        group.json,
        json!({
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": "autoscaling",
            "versions": [
                {"groupVersion": "autoscaling/v2", "version": "v2"},
                {"groupVersion": "autoscaling/v1", "version": "v1"},
            ],
            "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"},
        })
    );
}

/// Version, plural, kind, singular, scope, short names, categories.
const CORE: &str = "
v1 namespaces              Namespace              namespace              cluster    ns       -
v1 nodes                   Node                   node                   cluster    no       -
v1 pods                    Pod                    pod                    namespaced po       all
v1 services                Service                service                namespaced svc      all
v1 endpoints               Endpoints              endpoints              namespaced ep       -
v1 configmaps              ConfigMap              configmap              namespaced cm       -
v1 secrets                 Secret                 secret                 namespaced -        -
v1 serviceaccounts         ServiceAccount         serviceaccount         namespaced sa       -
v1 events                  Event                  event                  namespaced ev       -
v1 persistentvolumes       PersistentVolume       persistentvolume       cluster    pv       -
v1 persistentvolumeclaims  PersistentVolumeClaim  persistentvolumeclaim  namespaced pvc      -
v1 replicationcontrollers  ReplicationController  replicationcontroller  namespaced rc       all
v1 resourcequotas          ResourceQuota          resourcequota          namespaced quota    -
v1 limitranges             LimitRange             limitrange             namespaced limits   -
";

/// The same of the kinds in groups.
const GROUPS: &str = "
apps/v1 deployments Deployment deployment namespaced deploy all
apps/v1 statefulsets StatefulSet statefulset namespaced sts all
apps/v1 daemonsets DaemonSet daemonset namespaced ds all
apps/v1 replicasets ReplicaSet replicaset namespaced rs all
apps/v1 controllerrevisions ControllerRevision controllerrevision namespaced - -
batch/v1 jobs Job job namespaced - all
batch/v1 cronjobs CronJob cronjob namespaced cj all
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler horizontalpodautoscaler \
    namespaced hpa all
policy/v1 poddisruptionbudgets PodDisruptionBudget poddisruptionbudget namespaced pdb -
networking.k8s.io/v1 ingresses Ingress ingress namespaced ing -
networking.k8s.io/v1 networkpolicies NetworkPolicy networkpolicy namespaced netpol -
storage.k8s.io/v1 storageclasses StorageClass storageclass cluster sc -
rbac.authorization.k8s.io/v1 roles Role role namespaced - -
rbac.authorization.k8s.io/v1 rolebindings RoleBinding rolebinding namespaced - -
rbac.authorization.k8s.io/v1 clusterroles ClusterRole clusterrole cluster - -
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding clusterrolebinding cluster - -
coordination.k8s.io/v1 leases Lease lease namespaced - -
events.k8s.io/v1 events Event event namespaced ev -
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition \
    customresourcedefinition cluster crd,crds api-extensions
admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration \
    validatingwebhookconfiguration cluster - api-extensions
admissionregistration.k8s.io/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration \
    mutatingwebhookconfiguration cluster - api-extensions
";

async fn assert_kinds(api: &Api, rows: &str) {
    for row in rows.trim().lines() {
        let fields: Vec<_> = row.split_whitespace().collect();
        let [version, plural, kind, singular, scope, short, categories] = fields[..] else {
            panic!("not a row of seven fields: {row}");
        };
        let prefix = if version == "v1" { "/api" } else { "/apis" };
        let list = api.found(&format!("{prefix}/{version}")).await;
        assert_eq!(list.json["kind"], "APIResourceList", "{version}");
        assert_eq!(list.json["groupVersion"], version);
        let found = resource(&list, plural);
        assert_eq!(found["kind"], kind, "{plural}: {found}");
        assert_eq!(found["singularName"], singular, "{plural}");
        assert_eq!(found["namespaced"], scope == "namespaced", "{plural}");
        let names = |text: &str| match text {
            "-" => Value::Null,
            names => json!(names.split(',').collect::<Vec<_>>()),
        };
        assert_eq!(found["shortNames"], names(short), "{plural}");
        assert_eq!(found["categories"], names(categories), "{plural}");
        let mut verbs = vec![
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ];
        // The collection of namespaces cannot be deleted.
        verbs.retain(|verb| plural != "namespaces" || *verb != "deletecollection");
        assert_eq!(found["verbs"], json!(verbs), "{plural}");
    }
}

#[tokio::test]
async fn core_kinds_have_their_names() {
    let api = Api::start().await;
    assert_kinds(&api, CORE).await;
}

#[tokio::test]
async fn kinds_of_other_groups_have_their_names() {
    let api = Api::start().await;
    assert_kinds(&api, GROUPS).await;
}

#[tokio::test]
async fn subresources_are_listed_beside_their_kinds() {
    let api = Api::start().await;
    let core = api.found("/api/v1").await;
    for name in [
        "namespaces/status",
        "namespaces/finalize",
        "nodes/status",
        "pods/status",
        "pods/eviction",
        "services/status",
        "persistentvolumes/status",
        "persistentvolumeclaims/status",
        "replicationcontrollers/scale",
        "resourcequotas/status",
    ] {
        let found = resource(&core, name);
        assert_eq!(found["name"], name);
        assert_eq!(found["singularName"], "", "{name}");
    }
    assert_eq!(resource(&core, "configmaps/status"), &Value::Null);

    let apps = api.found("/apis/apps/v1").await;
    let status = resource(&apps, "deployments/status");
    assert_eq!(status["kind"], "Deployment");
    assert_eq!(status["verbs"], json!(["get", "patch", "update"]));
    let scale = resource(&apps, "deployments/scale");
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["group"], "autoscaling");
    assert_eq!(scale["version"], "v1");
    assert_eq!(scale["verbs"], json!(["get", "patch", "update"]));
}

#[tokio::test]
async fn aggregated_discovery_is_returned_on_request() {
    let api = Api::start().await;
    let get = async |path| {
        api.request(Method::GET, path)
            .header("accept", AGGREGATED)
            .send()
            .await
            .expect_code(200)
    };
    let core = get("/api").await;
    assert_eq!(core.json["kind"], "APIGroupDiscoveryList");
    assert_eq!(core.json["apiVersion"], "apidiscovery.k8s.io/v2");
    let content_type = core.headers["content-type"].to_str().unwrap_or_default();
    for part in [
        "application/json",
        "g=apidiscovery.k8s.io",
        "v=v2",
        "as=APIGroupDiscoveryList",
    ] {
        assert!(content_type.contains(part), "{content_type}");
    }
    let version = &core.json["items"][0]["versions"][0];
    assert_eq!(version["version"], "v1");
    let resources = version["resources"].as_array().unwrap();
    let pods = resources.iter().find(|r| r["resource"] == "pods").unwrap();
    assert_eq!(
        pods["responseKind"],
        json!({"group": "", "version": "", "kind": "Pod"})
    );
    assert_eq!(pods["scope"], "Namespaced");
    assert_eq!(pods["singularResource"], "pod");
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(pods["categories"], json!(["all"]));
    let subresources = pods["subresources"].as_array().unwrap();
    let status = subresources
        .iter()
        .find(|s| s["subresource"] == "status")
        .unwrap();
    assert_eq!(status["verbs"], json!(["get", "patch", "update"]));

    let groups = get("/apis").await;
    assert_eq!(groups.json["kind"], "APIGroupDiscoveryList");
    let autoscaling = item(&groups.json, "autoscaling");
    assert_eq!(autoscaling["versions"][0]["version"], "v2");
    assert_eq!(autoscaling["versions"][0]["freshness"], "Current");
    assert_eq!(autoscaling["versions"][1]["version"], "v1");
    let apps = item(&groups.json, "apps");
    let resources = apps["versions"][0]["resources"].as_array().unwrap();
    let deployments = resources
        .iter()
        .find(|r| r["resource"] == "deployments")
        .unwrap();
    let subresources = deployments["subresources"].as_array().unwrap();
    let scale = subresources
        .iter()
        .find(|s| s["subresource"] == "scale")
        .unwrap();
    assert_eq!(
        scale["responseKind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
}

#[tokio::test]
async fn version_is_returned() {
    let api = Api::start().await;
    let version = api.found("/version").await;
    assert_eq!(version.json["major"], "1");
    let minor: u32 = version.json["minor"].as_str().unwrap().parse().unwrap();
    assert!(
        minor >= 30,
        "kubectl warns about servers which are too old: {minor}"
    );
    let git = version.json["gitVersion"].as_str().unwrap();
    assert!(git.starts_with(&format!("v1.{minor}.")), "{git}");
    assert!(version.json["platform"].is_string());
}

#[tokio::test]
async fn health_endpoints_return_ok() {
    let api = Api::start().await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let response = api.found(path).await;
        assert_eq!(response.text(), "ok", "{path}");
        assert_eq!(response.content_type(), "text/plain", "{path}");
    }
}

#[tokio::test]
async fn unknown_groups_versions_and_resources_are_not_found() {
    let api = Api::start().await;
    for path in [
        "/apis/nosuch.example.com/v1/things",
        "/apis/apps/v9/deployments",
        "/api/v1/nosuchthings",
        &api.ns_path("nosuchthings"),
        &api.ns_path("nosuchthings/name"),
        "/apis/nosuch.example.com",
        "/apis/nosuch.example.com/v1",
        "/apis/apps/v9",
        "/api/v2",
        "/nosuch",
    ] {
        let response = api.get(path).await.expect_code(404);
        // The server responds in plain text where it routes by path, and with a Status where it
        // routes by resource; clients check only the code.
        assert!(
            response.json["kind"] == "Status" || response.text().contains("404"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn crd_appears_in_discovery_and_disappears() {
    let api = Api::start().await;
    let crd = api
        .crd()
        .with_status()
        .with_scale()
        .edit(|crd| {
            crd["spec"]["names"]["shortNames"] = json!(["wdg"]);
            crd["spec"]["names"]["categories"] = json!(["all"]);
        })
        .create()
        .await;
    let group_path = format!("/apis/{}", crd.group());
    let list_path = format!("/apis/{}", crd.api_version());
    let list = eventually("the group to be listed", async || {
        let list = api.get(&list_path).await;
        (list.code == 200 && !resource(&list, "widgets").is_null()).then_some(list)
    })
    .await;
    let widgets = resource(&list, "widgets");
    assert_eq!(widgets["kind"], "Widget");
    assert_eq!(widgets["singularName"], "widget");
    assert_eq!(widgets["namespaced"], true);
    assert_eq!(widgets["shortNames"], json!(["wdg"]));
    assert_eq!(widgets["categories"], json!(["all"]));
    assert_eq!(
        widgets["verbs"],
        json!([
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch"
        ])
    );
    assert_eq!(
        resource(&list, "widgets/status")["verbs"],
        json!(["get", "patch", "update"])
    );
    assert_eq!(resource(&list, "widgets/scale")["kind"], "Scale");
    assert_eq!(resource(&list, "widgets/scale")["group"], "autoscaling");

    let group_answer = api.found(&group_path).await;
    assert_eq!(group_answer.json["preferredVersion"]["version"], "v1");
    eventually("the group to be in the list of groups", async || {
        let groups = api.get("/apis").await.ok();
        (!group(&groups.json, crd.group()).is_null()).then_some(())
    })
    .await;
    let aggregated = eventually("the group to be in the aggregated list", async || {
        let list = api
            .request(Method::GET, "/apis")
            .header("accept", AGGREGATED)
            .send()
            .await;
        let found = item(&list.json, crd.group()).clone();
        (!found.is_null()).then_some(found)
    })
    .await;
    let resources = aggregated["versions"][0]["resources"].as_array().unwrap();
    let widgets = resources
        .iter()
        .find(|r| r["resource"] == "widgets")
        .unwrap();
    assert_eq!(widgets["responseKind"]["kind"], "Widget");
    assert_eq!(widgets["responseKind"]["group"], crd.group());

    api.delete(&crd.definition_path()).await.ok();
    eventually("the group to leave discovery", async || {
        let gone = api.get(&group_path).await.code == 404
            && api.get(&list_path).await.code == 404
            && group(&api.get("/apis").await.ok().json, crd.group()).is_null();
        gone.then_some(())
    })
    .await;
}

#[tokio::test]
async fn custom_resources_have_a_storage_version_hash() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let list = api.found(&format!("/apis/{}", crd.api_version())).await;
    let hash = list.json["resources"][0]["storageVersionHash"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(hash.len(), 12, "{hash:?}");
}

#[tokio::test]
async fn health_endpoints_list_their_checks() {
    let api = Api::start().await;
    for endpoint in ["healthz", "livez", "readyz"] {
        let text = api.found(&format!("/{endpoint}?verbose")).await.text();
        for check in ["ping", "etcd", "poststarthook/bootstrap-controller"] {
            assert!(text.contains(&format!("[+]{check} ok\n")), "{text}");
        }
        assert!(
            text.ends_with(&format!("{endpoint} check passed\n")),
            "{text}"
        );
        let one = api.found(&format!("/{endpoint}/ping")).await;
        assert_eq!(one.text(), "ok");
    }
    api.get("/livez/nosuchcheck").await.expect_code(404);
}
