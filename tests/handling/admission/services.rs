//! Webhooks behind a Service, with real servers and sockets.
//!
//! API servers resolve Services of the type `ExternalName` themselves, so the Service leads to this
//! machine.

use std::sync::Arc;

use kopf_core::admission::{ClientConfig, Operation, ServiceReference};
use kopf_core::field::FieldPath;
use kopf_engine::invocation::Call;
use kopf_tests::eventually;
use kopf_tests::objects::local_service;
use kopf_webhooks::Server;
use serde_json::{Value, json};

use super::configuration::{KINDS, managing, until};
use super::conversion::{conversion, definition, marking};
use super::{FakeServer, admitting, place};
use crate::front::{on, permanent};
use crate::stage::{Setup, Stage, everywhere};

/// Creates the Service and returns a server behind it. Sockets need real time.
async fn behind_service(stage: &Stage) -> Server {
    if stage.is_virtual() {
        tokio::time::resume();
    }
    let services = stage.api.ns_path("services");
    stage.api.created(&services, &local_service("hooks")).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let name = format!("{}/hooks", stage.api.namespace());
    Server::service(name, port).addr("127.0.0.1").port(port)
}

trait Served {
    fn by(self, server: Server) -> Self;
}

impl Served for Setup<'_> {
    fn by(self, server: Server) -> Self {
        self.settings(|settings| settings.admission.server = Some(Arc::new(server)))
    }
}

#[test]
fn api_servers_call_webhooks_through_the_service() {
    everywhere(async |stage| {
        let server = behind_service(stage).await;
        let check = on::validate("check_it").operations([Operation::Create]);
        let check = check.does(|call: Call| async move {
            match call.body().spec()["bad"].as_bool() {
                Some(true) => permanent("bad things are denied"),
                _ => Ok(None),
            }
        });
        let fill_in = on::mutate("fill_in").operations([Operation::Create]);
        let fill_in = fill_in.does(|call: Call| async move {
            let path = FieldPath::parse("spec.mutated");
            call.patch.with(|patch| patch.set(&path, json!(true)));
            Ok(None)
        });
        let setup = managing(stage, &FakeServer::default(), [check, fill_in]);
        let operator = setup.by(server.path("/root")).start().await;
        for kind in KINDS {
            let webhooks = until(stage, kind, "the webhook", |all| all.len() == 1).await;
            let client = &webhooks[0]["clientConfig"];
            assert_eq!(client.get("url"), None, "{client}");
            assert_eq!(client["service"]["name"], "hooks");
            assert_eq!(client["service"]["namespace"], stage.api.namespace());
        }
        let probe = async |name: &str, spec: Value| {
            let thing = stage.thing(name, spec);
            let path = format!("{}?dryRun=All", stage.path(""));
            stage.api.create(&path, &thing).await
        };
        let denied = eventually("a denial", async || {
            let response = probe("bad", json!({"bad": true})).await;
            let is_denied = response.message().contains("bad things are denied");
            is_denied.then_some(response)
        });
        assert_eq!(denied.await.json["status"], "Failure");
        eventually("a mutation", async || {
            let response = probe("good", json!({"bad": false})).await;
            (response.json["spec"]["mutated"] == true).then_some(())
        })
        .await;
        operator.stop().await;
    });
}

#[test]
fn api_servers_convert_objects_through_the_service() {
    everywhere(async |stage| {
        let server = behind_service(stage).await;
        let second = add_version(stage).await;
        stage.create("obj", json!({"v1": true})).await;
        let handlers = [marking("v1", "v2"), marking("v2", "v1")];
        let setup = managing(stage, &FakeServer::default(), handlers);
        let operator = setup.by(server).start().await;
        let converted = eventually("a conversion", async || {
            let response = stage.api.get(&second).await;
            (response.json["spec"]["v1-v2"] == true).then_some(response.json)
        });
        assert_eq!(converted.await["spec"]["v1"], true);
        operator.stop().await;
    });
}

/// Adds a version to the CRD. Returns the path of the object in that version.
async fn add_version(stage: &Stage) -> String {
    let path = definition(stage);
    let crd = stage.api.found(&path).await.json;
    let mut versions = crd["spec"]["versions"].clone();
    let mut second = versions[0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    versions.as_array_mut().expect("a list").push(second);
    let patch = json!({"spec": {"versions": versions}});
    stage.api.merged(&path, &patch).await;
    let version = format!("{}/v2", stage.api.group());
    let path = stage.api.group_path(&version, "things/obj");
    eventually("the version to be served", async || {
        let things = stage.api.group_path(&version, "things");
        (stage.api.get(&things).await.code == 200).then_some(())
    })
    .await;
    path
}

#[test]
fn services_replace_urls_in_crds_and_back() {
    everywhere(async |stage| {
        let server = FakeServer::at("https://localhost/");
        let operator = admitting(stage, &server, [marking("v1", "v2")])
            .settings(|settings| settings.admission.managed = Some("test.kopf.dev".to_owned()))
            .start()
            .await;
        let until_client = async |what: &str, is_so: fn(&Value) -> bool| {
            eventually(what, async || {
                let client = conversion(stage).await["webhook"]["clientConfig"].clone();
                is_so(&client).then_some(())
            })
            .await;
        };
        until_client("a URL", |client| client["url"].is_string()).await;
        server.announces(ClientConfig {
            url: None,
            service: ServiceReference::new("ns/op", 443, "").ok(),
            ..place("")
        });
        until_client("a Service", |client| {
            client["service"]["path"] == "/convert" && client.get("url").is_none()
        })
        .await;
        server.moves("https://localhost/");
        until_client("a URL again", |client| {
            client["url"].is_string() && client.get("service").is_none()
        })
        .await;
        operator.stop().await;
    });
}
