//! Admission handlers of the Rust API: arguments and responses.
//!
//! Requests are passed to the operator directly, without a webhook server.

#![expect(clippy::unwrap_used, reason = "failures fail the test")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments of filters and `json!(…)` are passed by value"
)]

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf::admission::{
    ClientConfig, Incoming, Refusal, ServerError, Serving, Shutdown, WebhookServer,
};
use kopf::prelude::*;
use kopf::{
    Body, DryRun, Headers, Namespace, New, Old, Operation, Param, Patch, Reason, SslPeer,
    Subresource, Uid, UserInfo, Warnings,
};
use kopf_sandbox::Sandbox;

#[derive(Clone, Default)]
struct DirectServer(Arc<Mutex<Option<Arc<dyn Serving>>>>);

impl std::fmt::Debug for DirectServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DirectServer")
    }
}

impl WebhookServer for DirectServer {
    fn serve(
        self: Arc<Self>,
        operator: Arc<dyn Serving>,
        shutdown: Shutdown,
    ) -> Pin<Box<dyn Future<Output = Result<(), ServerError>> + Send>> {
        Box::pin(async move {
            operator.announce(ClientConfig::default());
            *self.0.lock().unwrap() = Some(operator);
            shutdown.await;
            Ok(())
        })
    }
}

impl DirectServer {
    async fn send(&self, id: &str, request: Value) -> Result<Value, Refusal> {
        let operator = loop {
            if let Some(operator) = self.0.lock().unwrap().clone() {
                break operator;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let mut whole = json!({
            "uid": "u-1",
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "userInfo": {"username": "someone", "groups": ["people", "admins"]},
        });
        for (key, value) in request.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let mut incoming = Incoming::new(json!({"request": whole}));
        incoming.webhook = Some(id.to_owned());
        incoming.headers = [("X-Test".to_owned(), "yes".to_owned())].into();
        incoming.sslpeer = Some(json!({"subject": [[["commonName", "apiserver"]]]}));
        let mut answer = operator.review(incoming).await?;
        Ok(answer["response"].take())
    }
}

/// Runs the declared handlers of a group and sends requests to one of them.
async fn responses(group: &str, id: &str, requests: &[Value]) -> Vec<Result<Value, Refusal>> {
    let sandbox = Sandbox::builder().build().unwrap();
    let client = kopf_client::Client::from_service(sandbox.service(), "default");
    let direct = DirectServer::default();
    let server = Arc::new(direct.clone());
    let operator = Operator::builder()
        .registry(group)
        .state("a state".to_owned())
        .settings(|settings| settings.admission.server = Some(server))
        .build()
        .unwrap();
    let running = operator.start(client).await.unwrap();
    let mut answers = Vec::new();
    for request in requests {
        answers.push(direct.send(id, request.clone()).await);
    }
    running.stop().await.unwrap();
    answers
}

fn map(data: Value) -> Value {
    json!({"metadata": {"name": "cm", "namespace": "ns", "uid": "u-2"}, "data": data})
}

#[kopf::on::validate("configmaps", registry = "arguments", param = 5, subresource = "*")]
async fn all_arguments(
    operation: Operation,
    Subresource(subresource): Subresource,
    DryRun(dry): DryRun,
    user: UserInfo,
    headers: Headers,
    peer: SslPeer,
    warnings: Warnings,
    Old(old): Old,
    New(new): New,
    diff: Diff,
    body: Body,
    Param(param): Param<i32>,
    State(state): State<String>,
    no_reason: Option<Reason>,
) {
    let text = json!([
        operation.as_str(),
        subresource,
        dry,
        user.username(),
        user.groups().count(),
        headers.get("x-test"),
        peer.common_name(),
        old["data"],
        new["data"],
        diff.len(),
        body.name(),
        param,
        state,
        no_reason.is_none(),
    ]);
    warnings.push(text);
}

#[tokio::test(start_paused = true)]
async fn arguments_come_from_the_request() {
    let request = json!({
        "operation": "UPDATE", "subResource": "scale", "dryRun": true,
        "object": map(json!({"a": 2})), "oldObject": map(json!({"a": 1})),
    });
    let answers = responses("arguments", "all_arguments", &[request]).await;
    let answer = answers[0].as_ref().unwrap();
    let seen: Value = kopf::serde_json::from_str(answer["warnings"][0].as_str().unwrap()).unwrap();
    assert_eq!(
        seen,
        json!([
            "UPDATE", "scale", true, "someone", 2, "yes", "apiserver", {"a": 1}, {"a": 2}, 1, "cm",
            5, "a state", true,
        ])
    );
}

fn is_in_namespace(Namespace(namespace): Namespace) -> bool {
    namespace == "ns"
}

#[kopf::on::validate("pods", registry = "connecting", subresource = "exec", when = is_in_namespace)]
fn exec(Name(name): Name, Namespace(namespace): Namespace, uid: Option<Uid>) -> kopf::Result<()> {
    assert!(uid.is_none());
    Err(kopf::denied(format!("not into {namespace}/{name}")).code(403))
}

#[tokio::test(start_paused = true)]
async fn connect_requests_contain_the_name() {
    let request = |namespace: &str| {
        json!({
            "operation": "CONNECT", "subResource": "exec", "name": "pod-1", "namespace": namespace,
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["ls"]},
        })
    };
    let answers = responses("connecting", "exec", &[request("ns"), request("other")]).await;
    let status = &answers[0].as_ref().unwrap()["status"];
    assert_eq!(
        *status,
        json!({"message": "not into ns/pod-1", "code": 403})
    );
    assert_eq!(answers[1].as_ref().unwrap()["allowed"], true);
}

fn is_admin(user: UserInfo, operation: Option<Operation>) -> bool {
    user.groups().any(|group| group == "admins") && operation == Some(Operation::Delete)
}

#[kopf::on::validate("configmaps", registry = "deciding", when = is_admin)]
#[kopf::on::validate(
    "configmaps",
    registry = "deciding",
    id = "others",
    operation = "DELETE"
)]
fn decide(old: Option<Old>, new: Option<New>) -> kopf::Result<()> {
    match (old, new) {
        (Some(Old(old)), None) if !old["data"]["keep"].is_null() => {
            Err(kopf::denied("It is kept.").code(409))
        }
        _ => Ok(()),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_filtered_and_denied() {
    let requests = [
        json!({"operation": "DELETE", "oldObject": map(json!({"keep": "yes"}))}),
        json!({"operation": "DELETE", "oldObject": map(json!({}))}),
        json!({"operation": "UPDATE", "object": map(json!({})),
               "oldObject": map(json!({"keep": "yes"}))}),
    ];
    let denied = json!({"message": "It is kept.", "code": 409});
    for id in ["decide", "others"] {
        let answers = responses("deciding", id, &requests).await;
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            (&answers[0]["allowed"], &answers[0]["status"]),
            (&json!(false), &denied)
        );
        assert_eq!(answers[1], json!({"uid": "u-1", "allowed": true}));
        assert_eq!(answers[2]["allowed"], true);
    }
}

#[kopf::on::mutate("configmaps", registry = "changing", labels = {"sized": ABSENT})]
fn change(patch: Patch, memo: Memo<u32>, warnings: Warnings) {
    *memo.write() += 1;
    warnings.push(*memo.read());
    patch.set("data.size", "10");
    patch.meta().label("sized", "yes");
}

#[tokio::test(start_paused = true)]
async fn requests_are_patched_and_memos_are_kept() {
    let update =
        json!({"operation": "UPDATE", "object": map(json!({})), "oldObject": map(json!({}))});
    let mut sized = update.clone();
    sized["object"]["metadata"]["labels"] = json!({"sized": "yes"});
    let answers = responses("changing", "change", &[update.clone(), update, sized]).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers[0]["patchType"], "JSONPatch");
    let warnings = answers.iter().map(|answer| &answer["warnings"][0]);
    let warnings: Vec<_> = warnings.collect();
    assert_eq!(warnings, [&json!("1"), &json!("2"), &json!(null)]);
    assert_eq!(
        answers[2],
        json!({"uid": "u-1", "allowed": true}),
        "the filter does not match"
    );
}

#[kopf::on::validate("configmaps", registry = "impossible")]
fn impossible(Namespace(_): Namespace) {}

#[tokio::test(start_paused = true)]
async fn unavailable_arguments_deny_with_a_message() {
    let request = json!({"operation": "CREATE", "object": {"metadata": {"name": "x"}}});
    let answers = responses("impossible", "impossible", &[request]).await;
    let answer = answers[0].as_ref().unwrap();
    assert_eq!(answer["allowed"], false);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("'impossible'") && message.contains("namespace"),
        "{message}"
    );
}

#[kopf::on::validate("configmaps", registry = "serverless")]
fn unserved() {}

#[tokio::test(start_paused = true)]
async fn operators_without_a_server_do_not_start() {
    let sandbox = Sandbox::builder().build().unwrap();
    let client = kopf_client::Client::from_service(sandbox.service(), "default");
    let operator = Operator::builder().registry("serverless").build().unwrap();
    let error = operator.run(client, kopf::CancellationToken::new()).await;
    let error: &dyn std::error::Error = &error.unwrap_err();
    let chain = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = chain.map(ToString::to_string).collect();
    let text = texts.join(": ");
    let explained = ["unserved", "settings.admission.server", "Server::auto()"];
    assert!(explained.iter().all(|part| text.contains(part)), "{text}");
}
