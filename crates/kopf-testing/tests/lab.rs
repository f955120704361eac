//! Labs with operators of the Rust API, in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf::prelude::*;
use kopf_sandbox::fault::{Fault, Verb};
use kopf_testing::recording::Moment;
use kopf_testing::{Lab, Manifest, manifest};

#[kopf::resource(
    group = "example.com",
    version = "v1",
    kind = "Claim",
    namespaced,
    shortname = "cl"
)]
#[kube(status = "ClaimStatus")]
struct ClaimSpec {
    size: Option<String>,
}

#[kopf::schema]
struct ClaimStatus {
    phase: Option<String>,
    make: Option<Made>,
}

#[kopf::schema]
struct Made {
    made: bool,
}

/// The number of calls of the handler.
type Calls = Arc<AtomicUsize>;

async fn make(Retry(retry): Retry, State(calls): State<Calls>) -> kopf::Result<Value> {
    calls.fetch_add(1, Ordering::SeqCst);
    if retry < 2 {
        return Err(kopf::temporary("not yet").delay(3600));
    }
    Ok(json!({"made": true}))
}

async fn unmake() {}

fn operator(calls: &Calls) -> Operator {
    Operator::builder()
        .handler(on::create("claims", make).id("make"))
        .handler(on::delete("claims", unmake).id("unmake"))
        .state(Arc::clone(calls))
        .build()
        .unwrap()
}

fn claim() -> Manifest {
    manifest!("claim.yaml")
}

#[tokio::test(start_paused = true)]
async fn objects_are_handled_in_virtual_time() {
    let calls = Calls::default();
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&calls))
        .start()
        .await;
    let object = lab.apply(claim()).await;
    lab.settled().await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);

    lab.advance(3601).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    lab.restart_operator().await;
    lab.advance(3601.0).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let object = lab.get(&object).await;
    assert_eq!(object["status"]["make"], json!({"made": true}));
    for name in [
        "claims/obj",
        "claim/obj",
        "cl/default/obj",
        "claims.example.com/obj",
    ] {
        assert_eq!(lab.get(name).await, object, "{name}");
    }

    lab.delete(&object).await;
    lab.settled().await;
    assert!(!lab.exists(&object).await);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn requests_of_users_are_not_recorded() {
    let calls = Calls::default();
    let lab = Lab::new()
        .crd::<Claim>()
        .with("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: early, namespace: shop}\n")
        .operator(operator(&calls))
        .seed(7)
        .start()
        .await;
    assert!(lab.exists("configmaps/shop/early").await);
    let object = lab.apply(claim()).await;
    let changed = json!({"spec": {"size": "2G"}});
    assert_eq!(lab.patch(&object, changed).await["spec"]["size"], "2G");
    assert_eq!(lab.apply(claim()).await["spec"]["size"], "1G");
    let status = json!({"status": {"phase": "x"}});
    assert_eq!(
        lab.patch_status(&object, status).await["status"]["phase"],
        "x"
    );
    lab.settled().await;
    assert_eq!(lab.list("claims").await.len(), 1);
    let calls = lab.calls();
    assert!(calls.iter().all(|call| call.body.get("spec").is_none()));
    assert!(calls.iter().any(|call| call.verb == "patch"));
    let events = lab.events(&object).await;
    assert_eq!(
        events[0]["message"],
        "Handler 'make' failed temporarily: not yet"
    );
}

#[tokio::test(start_paused = true)]
async fn killed_operators_do_not_receive_the_response_to_the_last_write() {
    let calls = Calls::default();
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&calls))
        .start()
        .await;
    // The first write is the finalizer, the second one is the outcome of the handler.
    let written = lab.breakpoint(2, Moment::After);
    let object = lab.apply(claim()).await;
    written.reached().await;
    lab.kill_operator().await;
    drop(written);
    lab.settled().await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    lab.start_operator().await;
    lab.settled().await;
    assert_eq!(
        calls.load(Ordering::SeqCst),
        1,
        "the attempt is recorded, and the next one is not due yet"
    );
    lab.advance(2 * 3601).await;
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    assert_eq!(lab.get(&object).await["status"]["make"]["made"], true);
}

#[tokio::test(start_paused = true)]
async fn operators_recover_from_faults() {
    let calls = Calls::default();
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&calls))
        .start()
        .await;
    let refused = lab
        .faults()
        .inject(Fault::error(503).verb(Verb::Patch).times(3));
    lab.faults().kill_watches();
    let object = lab.apply(claim()).await;
    lab.advance(3 * 3601).await;
    assert_eq!(lab.faults().count(refused), 3);
    assert_eq!(lab.get(&object).await["status"]["make"]["made"], true);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn labs_work_in_real_time() {
    let calls = Calls::default();
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&calls))
        .start()
        .await;
    let object = lab.apply(claim()).await;
    lab.settled().await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let finalizers = &lab.get(&object).await["metadata"]["finalizers"];
    assert_eq!(finalizers.as_array().map(Vec::len), Some(1));
    lab.finish().await;
}

#[tokio::test]
#[should_panic(expected = "start_paused = true")]
async fn real_time_cannot_be_advanced() {
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&Calls::default()))
        .start()
        .await;
    lab.advance(1).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_requests_are_returned() {
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&Calls::default()))
        .start()
        .await;
    let wrong = json!({
        "apiVersion": "example.com/v1", "kind": "Claim",
        "metadata": {"name": "wrong"}, "spec": {"size": 5},
    });
    let refusal = lab.try_apply(wrong).await.unwrap_err();
    assert_eq!(refusal.code, 422);
    assert_eq!(refusal.reason, "Invalid");
    assert!(refusal.message.contains("spec.size"), "{refusal}");
    assert!(!lab.exists("claims/wrong").await);

    let object = lab.try_apply(claim()).await.unwrap();
    let wrong = json!({"spec": {"size": []}});
    let refusal = lab.try_patch(&object, wrong).await.unwrap_err();
    assert_eq!(refusal.code, 422);
    let wrong = json!({"status": {"phase": 1}});
    let refusal = lab.try_patch_status(&object, wrong).await.unwrap_err();
    assert_eq!(refusal.code, 422);
    let refusal = lab.try_delete("claims/absent").await.unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (404, "NotFound"));
    assert!(lab.try_delete(&object).await.is_ok());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "422 Invalid")]
async fn rejected_objects_fail_the_test() {
    let lab = Lab::new()
        .crd::<Claim>()
        .operator(operator(&Calls::default()))
        .start()
        .await;
    let object = lab.apply(claim()).await;
    lab.patch(&object, json!({"spec": {"size": 5}})).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the API has no such kind")]
async fn unknown_kinds_fail_the_test() {
    let lab = Lab::new()
        .operator(operator(&Calls::default()))
        .start()
        .await;
    lab.get("claims/obj").await;
}

async fn note(patch: kopf::Patch) {
    patch.meta().annotation("noted", "yes");
}

fn noting() -> Operator {
    let handler = on::create("configmaps", note).id("note");
    Operator::builder().handler(handler).build().unwrap()
}

/// Waits for the handler, restarts the operator, and checks that the handler's write is recorded.
async fn assert_noted(lab: &Lab) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    let object = lab.apply(map).await;
    let is_noted = |object: &Value| object["metadata"]["annotations"]["noted"] == "yes";
    let object = lab.until(&object, "noted", is_noted).await;
    lab.restart_operator().await;
    lab.settled().await;
    assert!(
        lab.calls()
            .iter()
            .any(|call| call.name.as_deref() == Some("obj"))
    );
    lab.delete(&object).await;
    lab.until(&object, "gone", Value::is_null).await;
}

#[tokio::test]
async fn operators_are_connected_over_tls() {
    let lab = Lab::new().over_tls().operator(noting()).start().await;
    assert_noted(&lab).await;
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn operators_run_on_a_given_cluster() {
    let cluster = kopf_sandbox::Sandbox::builder().build().unwrap();
    let client = kube::Client::new(cluster.service(), "default");
    let lab = Lab::new().cluster(client).operator(noting()).start().await;
    assert_noted(&lab).await;
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "which is not a sandbox")]
async fn given_clusters_have_no_faults() {
    let cluster = kopf_sandbox::Sandbox::builder().build().unwrap();
    let client = kube::Client::new(cluster.service(), "default");
    let lab = Lab::new().cluster(client).operator(noting()).start().await;
    lab.faults().kill_watches();
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "sockets need real time")]
async fn virtual_time_is_rejected_over_tls() {
    Lab::new().over_tls().operator(noting()).start().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "timed out waiting for the object to be noted")]
async fn unmet_conditions_fail_the_test() {
    let lab = Lab::new().operator(noting()).start().await;
    lab.until("configmaps/absent", "noted", Value::is_object)
        .await;
}
