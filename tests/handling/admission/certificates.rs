//! The Secret through which replicas share the certificate of their webhook servers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_core::admission::{Certificate, CertificateStore, Operation};
use kopf_core::settings::{CertificateSharing, Settings};
use kopf_sandbox::fault::Fault;
use kopf_webhooks::Server;
use serde_json::{Value, json};

use super::configuration::{KINDS, managing, until};
use super::{FakeServer, admitting};
use crate::front::{Declaration, on};
use crate::stage::{Record, Setup, Stage, everywhere, sandboxed};

const SECRET: &str = "op-webhook-certificate";

/// Settings of a replica in the namespace of the case.
pub(super) fn elected(stage: &Stage) -> impl FnOnce(&mut Settings) + use<> {
    let namespace = stage.api.namespace().to_owned();
    move |settings| {
        settings.leading.enabled = true;
        "op".clone_into(&mut settings.leading.name);
        settings.leading.namespace = Some(namespace);
    }
}

fn check() -> Declaration {
    on::validate("check").operations([Operation::Create])
}

/// Returns the certificate store of an operator with this server.
async fn store(stage: &Stage, server: &FakeServer) -> Option<Arc<dyn CertificateStore>> {
    stage.wait_for("the server", || server.is_open()).await;
    server.operator().unwrap().certificate_store()
}

fn certificate(text: &str) -> Certificate {
    Certificate {
        chain: format!("{text} chain"),
        key: format!("{text} key"),
        authorities: format!("{text} ca"),
    }
}

fn path(stage: &Stage) -> String {
    stage.api.ns_path(&format!("secrets/{SECRET}"))
}

#[test]
fn first_replica_creates_the_secret_and_updates_are_conditional() {
    everywhere(async |stage| {
        let servers = [FakeServer::default(), FakeServer::default()];
        let [one, two] = &servers;
        let replica = |server| admitting(stage, server, [check()]).settings(elected(stage));
        let _first = replica(one).start().await;
        let _second = replica(two).start().await;
        let first = store(stage, one).await.unwrap();
        let second = store(stage, two).await.unwrap();
        assert_eq!(first.load().await.unwrap(), None);
        let created = first.save(certificate("first"), None).await.unwrap();
        let created = created.unwrap();
        assert_eq!(
            second.save(certificate("second"), None).await.unwrap(),
            None
        );
        assert_eq!(second.load().await.unwrap().as_ref(), Some(&created));

        let version = || Some(created.version.clone());
        let replaced = second.save(certificate("third"), version()).await.unwrap();
        let replaced = replaced.unwrap();
        assert_eq!(replaced.certificate, certificate("third"));
        let late = first.save(certificate("fourth"), version()).await.unwrap();
        assert_eq!(late, None);
        assert_eq!(first.load().await.unwrap(), Some(replaced));

        let secret = stage.api.found(&path(stage)).await.json;
        assert_eq!(secret["type"], "kubernetes.io/tls");
        assert_eq!(secret["metadata"]["labels"]["kopf.dev/replicas"], "op");
        assert_eq!(secret["data"]["tls.key"], STANDARD.encode("third key"));
        stage.api.deleted(&path(stage)).await;
        let deleted = first.save(certificate("fifth"), version()).await.unwrap();
        assert_eq!(deleted, None, "the secret is deleted");
    });
}

#[test]
fn foreign_secrets_are_rejected_and_kept() {
    everywhere(async |stage| {
        let data = json!({"tls.crt": "eA==", "tls.key": "eA==", "ca.crt": "eA=="});
        let foreign = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data,
        });
        let secrets = stage.api.ns_path("secrets");
        let created = stage.api.created(&secrets, &foreign).await;
        let server = Server::new().addr("127.0.0.1");
        let setup = stage.operator([check()]).settings(elected(stage));
        let setup = setup.settings(|settings| settings.admission.server = Some(Arc::new(server)));
        let error = setup.fails().await;
        assert!(error.contains("Unusable"), "{error}");
        let records = stage.log.records();
        let is_clear = |record: &Record| {
            let parts = [SECRET, "delete it", "kopf.dev/replicas=op"];
            parts.iter().all(|part| record.message.contains(part))
        };
        assert!(records.iter().any(is_clear), "{records:?}");
        let kept = stage.api.found(&path(stage)).await.json;
        assert_eq!(kept, created.json);
    });
}

#[test]
fn missing_permissions_are_reported() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let setup = admitting(stage, &server, [check()]).settings(elected(stage));
        let _operator = setup.start().await;
        let store = store(stage, &server).await.unwrap();
        stage.faults().inject(Fault::error(403).kind("secrets"));
        let error = store.load().await.unwrap_err().to_string();
        assert!(error.contains("not permitted to get"), "{error}");
        let error = store.save(certificate("x"), None).await.unwrap_err();
        assert!(error.to_string().contains("to create"), "{error}");
        assert!(error.to_string().contains("certificate_secret"), "{error}");
    });
}

#[test]
fn secrets_can_be_named_or_disabled() {
    sandboxed(async |stage| {
        let case = async |sharing: Option<CertificateSharing>| {
            let server = FakeServer::default();
            let mut setup = admitting(stage, &server, [check()]);
            if let Some(sharing) = sharing {
                setup = setup.settings(elected(stage));
                setup = setup.settings(|settings| settings.leading.certificate_secret = sharing);
            }
            let operator = setup.start().await;
            let store = store(stage, &server).await;
            let mut origin = None;
            if let Some(store) = store {
                let stored = store.save(certificate("x"), None).await.unwrap();
                origin = Some(stored.unwrap().origin);
            }
            operator.stop().await;
            origin
        };
        assert_eq!(case(None).await, None, "a single replica needs no secret");
        assert_eq!(case(Some(CertificateSharing::Unshared)).await, None);
        let named = CertificateSharing::Named("mine".to_owned());
        let origin = case(Some(named)).await.unwrap();
        assert!(origin.ends_with("/mine"), "{origin}");
    });
}

fn with_server(setup: Setup<'_>) -> Setup<'_> {
    let server = Server::new().addr("127.0.0.1");
    setup.settings(|settings| settings.admission.server = Some(Arc::new(server)))
}

fn bundles(webhooks: &[Value]) -> Vec<Value> {
    let bundles = webhooks.iter();
    let bundles = bundles.map(|webhook| webhook["clientConfig"]["caBundle"].clone());
    bundles.collect()
}

#[test]
fn every_replica_writes_the_shared_ca_to_the_configuration() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let replica = || {
            let setup = managing(stage, &server, [check()]).settings(elected(stage));
            with_server(setup)
        };
        let first = replica().start().await;
        let is_there = |all: &[Value]| all.len() == 1;
        let by_first = until(stage, KINDS[0], "the webhook", is_there).await;
        let secret = stage.api.found(&path(stage)).await.json;
        let shared = secret["data"]["ca.crt"].clone();
        assert_eq!(bundles(&by_first), std::slice::from_ref(&shared));
        let second = replica().start().await;
        first.stop().await;
        let is_other = |all: &[Value]| all.len() == 1 && all != by_first;
        let by_second = until(stage, KINDS[0], "the other webhook", is_other).await;
        assert_eq!(bundles(&by_second), [shared]);
        second.stop().await;
    });
}
