//! Conversions between versions, and their configuration in CRDs.

use kopf_core::field::FieldPath;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use super::certificates::elected;
use super::{FakeServer, admitting};
use crate::front::{Declaration, gives, on, permanent};
use crate::stage::{Stage, everywhere, sandboxed};

fn review(stage: &Stage, target: &str, object: Value) -> Value {
    let desired = format!("{}/{target}", stage.api.group());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": desired, "objects": [object]},
    })
}

fn thing(stage: &Stage, version: &str) -> Value {
    json!({
        "apiVersion": format!("{}/{version}", stage.api.group()), "kind": "Thing",
        "metadata": {"name": "obj", "namespace": "ns", "uid": "u", "labels": {"l": "1"}},
        "spec": {"v1": true},
    })
}

/// Returns a conversion handler that adds a mark to the spec.
pub(super) fn marking(source: &str, target: &str) -> Declaration {
    let mark = format!("{source}-{target}");
    on::convert(source, target).does(move |call: Call| {
        let mark = mark.clone();
        async move {
            let mut object = call.body().value().clone();
            object["spec"][&mark] = json!(true);
            gives(object)
        }
    })
}

#[test]
fn objects_are_converted_in_steps() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost/");
        let handlers = [
            marking("v1", "v2"),
            marking("v2", "v3"),
            marking("v2", "v1"),
        ];
        let _operator = admitting(stage, &server, handlers).start().await;
        stage.wait_for("open", || server.is_open()).await;
        let response = server.ask(review(stage, "v3", thing(stage, "v1"))).await;
        assert_eq!(response["result"]["status"], "Success", "{response}");
        assert_eq!(response["uid"], "u-1");
        let converted = &response["convertedObjects"][0];
        assert_eq!(converted["apiVersion"], format!("{}/v3", stage.api.group()));
        let spec = json!({"v1": true, "v1-v2": true, "v2-v3": true});
        assert_eq!(converted["spec"], spec);
        assert_eq!(converted["metadata"], thing(stage, "v1")["metadata"]);
    });
}

#[test]
fn patches_convert_the_given_object() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost/");
        let convert = on::convert("v1", "v2").does(|call: Call| async move {
            let path = FieldPath::parse("spec.v1");
            call.patch.with(|patch| patch.set(&path, json!("patched")));
            Ok(None)
        });
        let _operator = admitting(stage, &server, [convert]).start().await;
        stage.wait_for("open", || server.is_open()).await;
        let response = server.ask(review(stage, "v2", thing(stage, "v1"))).await;
        let converted = &response["convertedObjects"][0];
        assert_eq!(converted["spec"], json!({"v1": "patched"}), "{response}");
    });
}

#[test]
fn errors_name_the_object_and_the_handler() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost/");
        let renaming = on::convert("v1", "v2").does(|call: Call| async move {
            let mut object = call.body().value().clone();
            object["metadata"]["name"] = json!("other");
            gives(object)
        });
        let failing = on::convert("v1", "v3").does(|_| async { permanent("no way") });
        let _operator = admitting(stage, &server, [renaming, failing]).start().await;
        stage.wait_for("open", || server.is_open()).await;
        for (target, reason) in [
            (
                "v2",
                "handler 'v1-v2': the conversion changes metadata.name",
            ),
            ("v3", "handler 'v1-v3': no way"),
            ("v4", "no handlers of on.convert lead from v1 to v4"),
        ] {
            let response = server.ask(review(stage, target, thing(stage, "v1"))).await;
            assert_eq!(response["result"]["status"], "Failure");
            assert_eq!(response["convertedObjects"], json!([]));
            let message = response["result"]["message"].as_str().unwrap();
            assert!(
                message.contains("obj") && message.contains(reason),
                "{message}"
            );
        }
    });
}

pub(super) async fn conversion(stage: &Stage) -> Value {
    let path = definition(stage);
    let crd = stage.api.found(&path).await.json;
    crd["spec"]["conversion"].clone()
}

pub(super) fn definition(stage: &Stage) -> String {
    let name = format!("things.{}", stage.api.group());
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
}

async fn until_converted_by(stage: &Stage, strategy: &str) -> Value {
    for _ in 0..1000 {
        let conversion = conversion(stage).await;
        if conversion["strategy"] == strategy {
            return conversion;
        }
        stage.sleep(0.1).await;
    }
    panic!("the strategy is not {strategy}");
}

#[test]
fn crds_are_configured_and_released() {
    everywhere(async |stage| {
        let server = FakeServer::at("https://localhost/root");
        let operator = admitting(stage, &server, [marking("v1", "v2")])
            .settings(|settings| settings.admission.managed = Some("test.kopf.dev".to_owned()))
            .start()
            .await;
        let conversion = until_converted_by(stage, "Webhook").await;
        let webhook = &conversion["webhook"];
        assert_eq!(webhook["conversionReviewVersions"], json!(["v1"]));
        assert_eq!(
            webhook["clientConfig"]["url"],
            "https://localhost/root/convert"
        );
        operator.stop().await;
        until_converted_by(stage, "None").await;
    });
}

#[test]
fn changed_crds_are_restored() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://localhost/");
        let _operator = admitting(stage, &server, [marking("v1", "v2")])
            .settings(|settings| settings.admission.managed = Some("test.kopf.dev".to_owned()))
            .start()
            .await;
        until_converted_by(stage, "Webhook").await;
        let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        stage.api.merged(&definition(stage), &none).await;
        until_converted_by(stage, "Webhook").await;
        server.moves("https://other.example/");
        stage.pass(10.0).await;
        let url = &conversion(stage).await["webhook"]["clientConfig"]["url"];
        assert_eq!(url, "https://other.example/convert");
    });
}

#[test]
fn persistent_conversions_are_kept_at_exit() {
    everywhere(async |stage| {
        let server = FakeServer::at("https://localhost/");
        let operator = admitting(stage, &server, [marking("v1", "v2").persistent()])
            .settings(|settings| settings.admission.managed = Some("test.kopf.dev".to_owned()))
            .start()
            .await;
        until_converted_by(stage, "Webhook").await;
        operator.stop().await;
        assert_eq!(conversion(stage).await["strategy"], "Webhook");
        let crd = stage.api.get(&definition(stage)).await.json;
        assert!(
            crd["metadata"]["annotations"]
                .get("kopf.dev/admission-owner")
                .is_none()
        );
    });
}

#[test]
fn exiting_replica_hands_conversions_over_to_another_one() {
    sandboxed(async |stage| {
        let start = async |server: &FakeServer| {
            let operator = admitting(stage, server, [marking("v1", "v2")])
                .settings(elected(stage))
                .settings(|settings| settings.admission.managed = Some("test.kopf.dev".to_owned()))
                .start()
                .await;
            stage.pass(3.0).await;
            operator
        };
        let first = start(&FakeServer::at("https://first/")).await;
        let second = start(&FakeServer::at("https://second/")).await;
        let url = async || conversion(stage).await["webhook"]["clientConfig"]["url"].clone();
        assert_eq!(url().await, "https://second/convert");
        second.stop().await;
        assert_eq!(url().await, "https://first/convert");
        let writes = stage.writes_to(&format!("things.{}", stage.api.group()));
        let mut written = writes.iter().map(|call| &call.body["spec"]["conversion"]);
        assert!(written.all(|conversion| conversion["strategy"] != "None"));
        first.stop().await;
        until_converted_by(stage, "None").await;
    });
}
