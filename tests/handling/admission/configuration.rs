//! Webhook configurations managed by the operator.

use kopf_core::admission::Operation;
use serde_json::{Value, json};

use super::{FakeServer, admitting};
use crate::front::{Declaration, on};
use crate::stage::{Setup, Stage, everywhere, sandboxed};

pub(super) const KINDS: [&str; 2] = [
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
];

/// Returns the name of the configurations of a test case.
pub(super) fn managed(stage: &Stage) -> String {
    format!("{}.kopf.dev", stage.api.unique("auto"))
}

/// Returns an operator with this server and managed configurations.
pub(super) fn managing<'a>(
    stage: &'a Stage,
    server: &FakeServer,
    handlers: impl IntoIterator<Item = Declaration>,
) -> Setup<'a> {
    let name = managed(stage);
    for kind in KINDS {
        stage.api.delete_at_end(path(kind, &name));
    }
    admitting(stage, server, handlers).settings(|settings| settings.admission.managed = Some(name))
}

pub(super) fn path(kind: &str, name: &str) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}")
}

/// Returns a configuration, or null if it does not exist.
pub(super) async fn configuration(stage: &Stage, kind: &str) -> Value {
    let response = stage.api.get(&path(kind, &managed(stage))).await;
    if response.code == 404 {
        return Value::Null;
    }
    response.expect_code(200).json
}

/// Returns the webhooks of a configuration.
async fn webhooks(stage: &Stage, kind: &str) -> Vec<Value> {
    let configuration = configuration(stage, kind).await;
    let webhooks = configuration["webhooks"].as_array().cloned();
    webhooks.unwrap_or_default()
}

/// Waits until the webhooks satisfy the condition.
pub(super) async fn until(
    stage: &Stage,
    kind: &str,
    what: &str,
    is_so: impl Fn(&[Value]) -> bool,
) -> Vec<Value> {
    let waiting = async {
        loop {
            let webhooks = webhooks(stage, kind).await;
            if is_so(&webhooks) {
                return webhooks;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    stage.within(what, waiting).await
}

pub(super) fn urls(webhooks: &[Value]) -> Vec<&str> {
    let urls = webhooks
        .iter()
        .map(|webhook| &webhook["clientConfig"]["url"]);
    urls.filter_map(Value::as_str).collect()
}

#[test]
fn both_configurations_exist_even_if_one_is_empty() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost:1/root/");
        let check = on::validate("check").operations([Operation::Create]);
        let operator = managing(stage, &server, [check]).start().await;
        let validating = until(stage, KINDS[0], "the webhook", |all| all.len() == 1).await;
        assert_eq!(urls(&validating), ["https://localhost:1/root/check"]);
        assert_eq!(validating[0]["rules"][0]["operations"], json!(["CREATE"]));
        assert_eq!(webhooks(stage, KINDS[1]).await, [Value::Null; 0]);
        assert!(configuration(stage, KINDS[1]).await.is_object());
        operator.stop().await;
        assert_eq!(webhooks(stage, KINDS[0]).await, [Value::Null; 0]);
        assert!(
            configuration(stage, KINDS[0]).await.is_object(),
            "the empty configuration is kept"
        );
    });
}

#[test]
fn restarted_operator_takes_over_existing_webhooks() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost:1/");
        let handlers = [
            on::mutate("kept").persistent(),
            on::mutate("dropped").ignore_failures().side_effects(),
        ];
        let operator = managing(stage, &server, handlers).start().await;
        let two = |all: &[Value]| all.len() == 2;
        let before = until(stage, KINDS[1], "the webhooks", two).await;
        assert_eq!(before[1]["failurePolicy"], "Ignore");
        assert_eq!(before[1]["sideEffects"], "NoneOnDryRun");
        operator.stop().await;
        let left = webhooks(stage, KINDS[1]).await;
        assert_eq!(urls(&left), ["https://localhost:1/kept"]);
        operator.start().await;
        assert_eq!(until(stage, KINDS[1], "the webhooks", two).await, before);
        operator.kill().await;
        assert_eq!(
            webhooks(stage, KINDS[1]).await,
            before,
            "a killed operator cannot clean up"
        );
    });
}

#[test]
fn changes_of_the_server_address_are_written() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let operator = managing(stage, &server, [on::validate("check")])
            .open(&server)
            .await;
        stage.settled().await;
        assert_eq!(
            webhooks(stage, KINDS[0]).await,
            [Value::Null; 0],
            "the server has no address yet"
        );
        for place in ["https://one:1", "https://two:2/"] {
            server.moves(place);
            let expected = format!("{}/check", place.trim_end_matches('/'));
            until(stage, KINDS[0], &expected, |all| urls(all) == [&expected]).await;
        }
        operator.stop().await;
        assert_eq!(webhooks(stage, KINDS[0]).await, [Value::Null; 0]);
    });
}

#[test]
fn configurations_follow_created_and_deleted_crds() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost:1/");
        let group = stage.api.group();
        let late = on::validate("late").on(&[&group, "v1", "others"]);
        let _operator = managing(stage, &server, [late]).start().await;
        let rules =
            |webhooks: &[Value]| webhooks.first().map_or(json!(null), |w| w["rules"].clone());
        until(stage, KINDS[0], "the webhook", |all| all.len() == 1).await;
        let crd = stage
            .api
            .crd()
            .named("others", "other", "Other")
            .create()
            .await;
        let expected = json!([{
            "apiGroups": [group], "apiVersions": ["v1"], "resources": ["others"],
            "operations": ["*"], "scope": "*",
        }]);
        until(stage, KINDS[0], "the rule", |all| rules(all) == expected).await;
        stage.api.deleted(&crd.definition_path()).await;
        until(stage, KINDS[0], "no rule", |all| {
            all.len() == 1 && rules(all) != expected
        })
        .await;
    });
}

#[test]
fn rules_of_any_subresource_include_the_main_resource() {
    everywhere(async |stage| {
        let server = FakeServer::at("https://localhost:1/");
        let handlers = [
            on::validate("any").subresource("*").ignore_failures(),
            on::validate("status")
                .subresource("status")
                .ignore_failures(),
        ];
        let _operator = managing(stage, &server, handlers).start().await;
        let all = until(stage, KINDS[0], "the webhooks", |all| {
            all.len() == 2 && all.iter().all(|webhook| webhook["rules"].is_array())
        })
        .await;
        let resources = |index: usize| all[index]["rules"][0]["resources"].clone();
        assert_eq!(resources(0), json!(["things", "things/*"]));
        assert_eq!(resources(1), json!(["things/status"]));
    });
}

#[test]
fn ids_are_converted_to_valid_webhook_names() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost:1/");
        let long = "x".repeat(300);
        let handlers = ["A", "a", "_private", "some/id:with odd", "ünï", &long]
            .map(|id| on::validate(id).persistent());
        let _operator = managing(stage, &server, handlers).start().await;
        let all = until(stage, KINDS[0], "all webhooks", |all| all.len() == 6).await;
        assert!(urls(&all)[3].ends_with("/some/id%3Awith%20odd"));
    });
}

#[test]
fn deleted_configuration_is_restored() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost:1/");
        let _operator = managing(stage, &server, [on::validate("check")])
            .start()
            .await;
        until(stage, KINDS[0], "the webhook", |all| all.len() == 1).await;
        let path = path(KINDS[0], &managed(stage));
        stage.api.deleted(&path).await;
        server.moves("https://localhost:2/");
        let all = until(stage, KINDS[0], "the webhook", |all| all.len() == 1).await;
        assert_eq!(urls(&all), ["https://localhost:2/check"]);
    });
}

#[test]
fn replaced_operator_keeps_the_webhooks_of_its_successor() {
    sandboxed(async |stage| {
        let servers = [
            FakeServer::at("https://old:1/"),
            FakeServer::at("https://new:1/"),
        ];
        let handlers = || [on::validate("kept").persistent(), on::validate("dropped")];
        let old = managing(stage, &servers[0], handlers()).start().await;
        stage.pass(1.0).await;
        let first = ["https://old:1/kept", "https://old:1/dropped"];
        until(stage, KINDS[0], "the old ones", |all| urls(all) == first).await;
        let new = managing(stage, &servers[1], handlers()).start().await;
        let second = ["https://new:1/kept", "https://new:1/dropped"];
        until(stage, KINDS[0], "the new ones", |all| urls(all) == second).await;
        old.stop().await;
        assert_eq!(urls(&webhooks(stage, KINDS[0]).await), second);
        new.stop().await;
        assert_eq!(
            urls(&webhooks(stage, KINDS[0]).await),
            ["https://new:1/kept"]
        );
    });
}

/// Two operators behind one service with one certificate.
#[test]
fn equal_webhooks_of_two_operators_have_one_owner() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://service:1/");
        let old = managing(stage, &server, [on::validate("check")])
            .start()
            .await;
        let there = |all: &[Value]| urls(all) == ["https://service:1/check"];
        until(stage, KINDS[0], "the webhook", there).await;
        let owner = |configuration: &Value| configuration["metadata"]["annotations"].clone();
        let before = owner(&configuration(stage, KINDS[0]).await);
        stage.pass(1.0).await;
        let new = managing(stage, &server, [on::validate("check")])
            .start()
            .await;
        while owner(&configuration(stage, KINDS[0]).await) == before {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        old.stop().await;
        assert!(there(&webhooks(stage, KINDS[0]).await));
        new.stop().await;
        let left = configuration(stage, KINDS[0]).await;
        assert_eq!(left["webhooks"].as_array().map(Vec::len), None);
        assert_eq!(owner(&left), Value::Null);
    });
}

#[test]
fn edited_webhooks_are_restored() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost:1/");
        let handlers = [on::validate("kept").persistent(), on::validate("dropped")];
        let operator = managing(stage, &server, handlers).start().await;
        until(stage, KINDS[0], "the webhooks", |all| all.len() == 2).await;
        let mut edited = configuration(stage, KINDS[0]).await;
        edited["webhooks"][0]["timeoutSeconds"] = json!(5);
        edited["metadata"]["labels"] = json!({"edited": "yes"});
        let path = path(KINDS[0], &managed(stage));
        stage.api.replaced(&path, &edited).await;
        operator.stop().await;
        let left = configuration(stage, KINDS[0]).await;
        assert_eq!(left["webhooks"].as_array().map(Vec::len), Some(1));
        assert_eq!(left["metadata"]["labels"]["edited"], "yes");
    });
}
