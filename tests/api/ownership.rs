//! Special cases of garbage collection: waiting owners, cycles, and kinds that are added and
//! removed.

use kopf_tests::{Api, eventually, objects::config_map, webhook::Webhook, webhook::rule};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::garbage::{Family, blocking};

impl Family<'_> {
    async fn is_marked(&self, name: &str) {
        eventually(&format!("{name} to be marked"), async || {
            let object = self.api.found(&self.path(name)).await;
            object
                .at("/metadata/deletionTimestamp")
                .is_string()
                .then_some(())
        })
        .await;
    }

    async fn owners(&self, name: &str) -> Value {
        let object = self.api.found(&self.path(name)).await;
        object.at("/metadata/ownerReferences").clone()
    }
}

#[tokio::test]
async fn waiting_owner_is_removed_when_a_dependent_has_another_owner() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let first = family.add("first", &[], &[]).await;
    let second = family.add("second", &[], &[]).await;
    let owners = [blocking(first), second.clone()];
    family.add("child", &owners, &[]).await;
    family.delete("first", "Foreground").await;
    family.gone("first").await;
    assert_eq!(family.owners("child").await, json!([second]));
}

#[tokio::test]
async fn waiting_owner_is_removed_when_a_dependent_drops_its_reference() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    family
        .add("child", &[blocking(owner)], &["example.com/hold"])
        .await;
    family.delete("owner", "Foreground").await;
    family.is_marked("child").await;
    let forget = json!({"metadata": {"ownerReferences": null}});
    api.merged(&family.path("child"), &forget).await;
    family.gone("owner").await;
    family.release("child").await;
    family.gone("child").await;
}

#[tokio::test]
async fn waiting_owner_is_removed_when_a_dependent_stops_blocking() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let mut owner = family.add("owner", &[], &[]).await;
    family
        .add("child", &[blocking(owner.clone())], &["example.com/hold"])
        .await;
    family.delete("owner", "Foreground").await;
    family.is_marked("child").await;
    owner["blockOwnerDeletion"] = json!(false);
    let unblock = json!({"metadata": {"ownerReferences": [owner]}});
    api.merged(&family.path("child"), &unblock).await;
    family.gone("owner").await;
    family.release("child").await;
    family.gone("child").await;
}

#[tokio::test]
async fn cycle_of_owners_is_deleted() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let first = family.add("first", &[], &[]).await;
    let second = family.add("second", &[blocking(first)], &[]).await;
    let close = json!({"metadata": {"ownerReferences": [blocking(second)]}});
    api.merged(&family.path("first"), &close).await;
    family.delete("first", "Foreground").await;
    family.gone("first").await;
    family.gone("second").await;
}

#[tokio::test]
async fn dependents_of_custom_objects_are_deleted_with_the_crd() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let crd = api.crd().create().await;
    let created = crd.created("owner", json!({})).await;
    let owner = json!({
        "apiVersion": crd.api_version(), "kind": "Widget", "name": "owner", "uid": created.uid(),
    });
    // The deletion of this object shows that the collector has discovered the new kind.
    let mut absent = owner.clone();
    absent["uid"] = json!("11111111-2222-3333-4444-555555555555");
    family.add("stray", &[absent], &[]).await;
    family.gone("stray").await;
    family.add("child", &[owner], &[]).await;
    api.deleted(&crd.definition_path()).await;
    family.gone("child").await;
}

#[tokio::test]
async fn owners_of_unknown_kinds_are_checked_when_the_kind_is_served() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = json!({
        "apiVersion": format!("{}/v1", api.group()),
        "kind": "Widget",
        "name": "owner",
        "uid": "11111111-2222-3333-4444-555555555555",
    });
    family.add("child", &[owner], &[]).await;
    api.crd().create().await;
    family.gone("child").await;
}

#[tokio::test]
async fn dependent_of_an_owner_in_an_unserved_version_is_kept() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let unknown = json!({
        "apiVersion": "apps/v9",
        "kind": "Deployment",
        "name": "owner",
        "uid": "11111111-2222-3333-4444-555555555555",
    });
    let absent = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "absent",
        "uid": "66666666-2222-3333-4444-555555555555",
    });
    let both = [unknown.clone(), absent.clone()];
    family
        .add("kept", std::slice::from_ref(&unknown), &[])
        .await;
    family.add("kept-entirely", &both, &[]).await;
    family.add("lost", &[absent], &[]).await;
    family.gone("lost").await;
    assert_eq!(family.owners("kept").await, json!([unknown]));
    assert_eq!(family.owners("kept-entirely").await, json!(both));
}

const JOBS_WARNING: &str = "child pods are preserved by default when jobs are deleted; \
    set propagationPolicy=Background to remove them \
    or set propagationPolicy=Orphan to suppress this warning";

#[tokio::test]
async fn jobs_and_replication_controllers_orphan_by_default() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let containers = json!([{"name": "main", "image": "example.com/main:1"}]);
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "owner"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    });
    let controller = json!({
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "owner"},
        "spec": {
            "selector": {"app": "main"},
            "template": {
                "metadata": {"labels": {"app": "main"}},
                "spec": {"containers": containers},
            },
        },
    });
    let cases = [
        (api.group_path("batch/v1", "jobs"), job, vec![JOBS_WARNING]),
        (api.ns_path("replicationcontrollers"), controller, vec![]),
    ];
    for (path, object, warnings) in cases {
        let created = api.created(&path, &object).await;
        let owner = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "name": "owner",
            "uid": created.uid(),
        });
        let child = object["kind"].as_str().unwrap().to_lowercase();
        family.add(&child, &[owner], &[]).await;
        let path = format!("{path}/owner");
        let dry = api.delete(&format!("{path}?dryRun=All")).await;
        assert_eq!(dry.expect_code(200).warnings(), warnings);
        let deleted = api.deleted(&path).await;
        assert_eq!(deleted.json["kind"], object["kind"]);
        assert_eq!(deleted.at("/metadata/finalizers"), &json!(["orphan"]));
        assert_eq!(deleted.warnings(), warnings);
        eventually("the owner to be deleted", async || {
            (api.get(&path).await.code == 404).then_some(())
        })
        .await;
        assert_eq!(family.owners(&child).await, Value::Null);
    }
}

#[tokio::test]
async fn explicit_policy_suppresses_the_warning_for_jobs() {
    let api = Api::start().await;
    let jobs = api.group_path("batch/v1", "jobs");
    for (policy, response) in [("Background", "Status"), ("Orphan", "Job")] {
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": policy.to_lowercase()},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "example.com/main:1"}],
            }}},
        });
        let created = api.created(&jobs, &job).await;
        let path = format!("{jobs}/{}?propagationPolicy={policy}", created.name());
        let deleted = api.deleted(&path).await;
        assert_eq!(deleted.json["kind"], response);
        assert!(deleted.warnings().is_empty());
    }
}

#[tokio::test]
async fn events_ignore_the_propagation_policy() {
    let api = Api::start().await;
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "event"},
        "involvedObject": {"namespace": api.namespace()},
    });
    for policy in ["Orphan", "Foreground"] {
        let events = api.ns_path("events");
        api.created(&events, &event).await;
        let path = format!("{events}/event?propagationPolicy={policy}");
        let deleted = api.deleted(&path).await;
        assert_eq!(deleted.json["kind"], "Status");
    }
}

#[tokio::test]
async fn namespace_deletion_does_not_wait_for_dependents() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let owner = family.add("owner", &[], &[]).await;
    family
        .add("child", &[blocking(owner)], &["example.com/hold"])
        .await;
    family.delete("owner", "Foreground").await;
    family.is_marked("child").await;
    let namespace = format!("/api/v1/namespaces/{}", api.namespace());
    api.deleted(&namespace).await;
    family.gone("owner").await;
    api.found(&family.path("child")).await;
    family.release("child").await;
    eventually("the namespace to be deleted", async || {
        (api.get(&namespace).await.code == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn webhooks_are_not_called_for_the_deletion_of_a_crd() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let webhook = Webhook::start(|_| kopf_tests::webhook::Verdict::deny("no")).await;
    let rules = [rule(&api.group(), "v1", &["widgets"], &["DELETE"])];
    let hook = webhook.hook(&api, "deny.example.com", "/deny", &rules);
    webhook.validate_with(&api, "deny", &[hook]).await;
    crd.created("held", json!({})).await;
    api.delete(&crd.path_of("held")).await.expect_code(400);
    api.deleted(&crd.definition_path()).await;
    eventually("the CRD to be deleted", async || {
        (api.get(&crd.definition_path()).await.code == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn stalled_webhook_does_not_block_the_collector() {
    let api = Api::start().await;
    let family = Family { api: &api };
    let elsewhere = api.unique("elsewhere");
    api.create_namespace(&elsewhere).await;
    let elsewhere = format!("/api/v1/namespaces/{elsewhere}/configmaps");

    // Connections are accepted by the operating system and never served.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhook = Webhook::start(|_| kopf_tests::webhook::Verdict::allow()).await;
    let rules = [rule("", "v1", &["configmaps"], &["DELETE"])];
    let mut hook = webhook.hook(&api, "silent.example.com", "/silent", &rules);
    hook["clientConfig"]["url"] = json!(format!("https://{}/", silent.local_addr().unwrap()));
    hook["objectSelector"] = json!({"matchLabels": {"held": "yes"}});
    hook["failurePolicy"] = json!("Fail");
    hook["timeoutSeconds"] = json!(30);
    webhook.validate_with(&api, "silent", &[hook]).await;

    let absent = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "absent",
        "uid": "66666666-2222-3333-4444-555555555555",
    });
    let mut held = config_map("held", Value::Null);
    held["metadata"]["ownerReferences"] = json!([absent]);
    held["metadata"]["labels"] = json!({"held": "yes"});
    api.created(&api.ns_path("configmaps"), &held).await;
    // The collector calls the webhook, and continues before that times out.
    let (connection, _) = silent.accept().await.unwrap();
    let mut free = config_map("free", Value::Null);
    free["metadata"]["ownerReferences"] = json!([absent]);
    api.created(&elsewhere, &free).await;
    eventually("the object without finalizers to be deleted", async || {
        (api.get(&format!("{elsewhere}/free")).await.code == 404).then_some(())
    })
    .await;
    let mut silent_still = [0_u8; 1];
    // The received data is the beginning of a handshake.
    while connection.try_read(&mut silent_still).is_ok_and(|n| n > 0) {}
    let end = connection.try_read(&mut silent_still);
    assert!(
        end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "the collector has waited for the webhook"
    );
    api.found(&family.path("held")).await;
}
