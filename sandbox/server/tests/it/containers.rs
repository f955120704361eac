//! Logs of simulated containers, and commands in them.

use std::time::Duration;

use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kopf_sandbox::simulation::{Answer, Simulation};
use kopf_sandbox::{Listen, Listening, Sandbox};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::tls::Kubeconfig;
use crate::support::{Api, get, in_time};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn started(answers: &str) -> (Sandbox, Api) {
    let answers = Answer::parse(answers).unwrap();
    let simulation = Simulation::all()
        .ready_after(Duration::ZERO)
        .answers(answers);
    let sandbox = Sandbox::builder().simulate(simulation).build().unwrap();
    let api = Api::of(&sandbox);
    (sandbox, api)
}

fn pod(name: &str, containers: &[&str]) -> Value {
    let containers = containers.iter();
    let containers: Vec<Value> = containers
        .map(|name| json!({ "name": name, "image": "i" }))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": containers },
    })
}

async fn run(api: &Api, pod: &Value) {
    api.create(PODS, pod).await.expect(201);
    let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
    in_time("the pod runs", async {
        while api.get(&path).await.json()["status"]["phase"] != "Running" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

async fn log(api: &Api, rest: &str) -> String {
    api.get(&format!("{PODS}/{rest}")).await.expect(200).text()
}

#[tokio::test]
async fn logs_are_answered_from_the_script() {
    let (_sandbox, api) = started("- {pod: db-*, container: main, logs: \"one\\ntwo\\nthree\\n\"}");
    run(&api, &pod("db-0", &["main"])).await;
    run(&api, &pod("other", &["main", "side"])).await;
    assert_eq!(log(&api, "db-0/log").await, "one\ntwo\nthree\n");
    assert_eq!(
        log(&api, "db-0/log?container=main&tailLines=1").await,
        "three\n"
    );
    assert_eq!(
        log(&api, "db-0/log?tailLines=2&limitBytes=5").await,
        "two\nt"
    );
    let stamped = log(&api, "db-0/log?timestamps=true&tailLines=1").await;
    let (stamp, line) = stamped.split_once(' ').unwrap();
    assert!(stamp.ends_with('Z') && line == "three\n", "{stamped}");
    assert_eq!(log(&api, "other/log?container=side").await, "");
    for (rest, message) in [
        ("other/log", "choose one of: [main side]"),
        (
            "db-0/log?container=no",
            "container no is not valid for pod db-0",
        ),
        ("db-0/log?tailLines=x", "invalid tailLines"),
        ("db-0/log?previous=true", "previous terminated container"),
    ] {
        let error = api.get(&format!("{PODS}/{rest}")).await.expect(400).text();
        assert!(error.contains(message), "{rest}: {error}");
    }
    api.get(&format!("{PODS}/absent/log")).await.expect(404);
}

#[tokio::test]
async fn logs_of_waiting_containers_are_rejected() {
    let (_sandbox, api) = started("[]");
    let mut pending = pod("web", &["main"]);
    pending["metadata"]["annotations"] = json!({ "sandbox.kopf.dev/simulate": "pending" });
    api.create(PODS, &pending).await.expect(201);
    let error = api.get(&format!("{PODS}/web/log")).await.expect(400).text();
    assert!(error.contains("is waiting to start"), "{error}");
}

#[tokio::test]
async fn followed_logs_end_with_the_container() {
    let (_sandbox, api) = started("- {logs: ready}");
    run(&api, &pod("web", &["main"])).await;
    let response = api
        .open(get(&format!("{PODS}/web/log?follow=true")))
        .await
        .unwrap();
    let mut body = response.into_body();
    let first = in_time("the text", body.frame()).await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "ready");
    let early = tokio::time::timeout(Duration::from_millis(50), body.frame()).await;
    assert!(early.is_err(), "{early:?}");
    api.delete(&format!("{PODS}/web")).await.expect(200);
    assert!(in_time("the end", body.frame()).await.is_none());
}

#[tokio::test]
async fn without_simulated_pods_there_are_no_containers() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    api.create(PODS, &pod("web", &["main"])).await.expect(201);
    api.get(&format!("{PODS}/web/log")).await.expect(501);
    assert!(sandbox.answers().is_none());
}

/// Runs a command. Returns the output of the channels 1, 2 and 3.
async fn exec(listening: &Listening, rest: &str, protocols: &str) -> Result<[String; 3], Error> {
    let config = Kubeconfig::read(&listening.kubeconfig());
    let url = format!("wss://{}{PODS}/{rest}", listening.local_addr());
    let mut request = url.into_client_request()?;
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocols.parse().unwrap());
    let stream = config.stream().await?;
    let (mut socket, response) = tokio_tungstenite::client_async(request, stream).await?;
    let chosen = response.headers()["sec-websocket-protocol"]
        .to_str()
        .unwrap();
    assert_eq!(chosen, protocols.split(',').next().unwrap());
    let mut output = [const { String::new() }; 3];
    while let Some(message) = in_time("a message", socket.next()).await {
        match message? {
            Message::Binary(bytes) => {
                let text = std::str::from_utf8(&bytes[1..]).unwrap();
                output[usize::from(bytes[0]) - 1].push_str(text);
            }
            Message::Close(frame) => {
                assert_eq!(u16::from(frame.unwrap().code), 1000);
                return Ok(output);
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("no close frame: {output:?}");
}

#[tokio::test]
async fn commands_are_answered_from_the_script() {
    let long = "x".repeat(100_000);
    let (sandbox, api) = started(&format!(
        "- {{command: [pg_isready], stdout: \"ok\\n\", stderr: note}}\n\
         - {{pod: db-0, command: [sh, -c, '*fail*'], exitCode: 3}}\n\
         - {{command: long, stdout: {long}}}\n"
    ));
    run(&api, &pod("db-0", &["main"])).await;
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    let v5 = "v5.channel.k8s.io,v4.channel.k8s.io";
    let all = "stdout=true&stderr=true";
    let [out, err, status] = exec(
        &listening,
        &format!("db-0/exec?command=pg_isready&command=-q&{all}"),
        v5,
    )
    .await
    .unwrap();
    assert_eq!((&*out, &*err), ("ok\n", "note"));
    assert_eq!(
        serde_json::from_str::<Value>(&status).unwrap()["status"],
        "Success"
    );
    let [out, err, _] = exec(
        &listening,
        "db-0/exec?command=pg_isready&stdout=1",
        "v4.channel.k8s.io",
    )
    .await
    .unwrap();
    assert_eq!((&*out, &*err), ("ok\n", ""));
    let [out, ..] = exec(&listening, &format!("db-0/exec?command=long&{all}"), v5)
        .await
        .unwrap();
    assert_eq!(out, long);
    let failing = format!("db-0/exec?command=sh&command=-c&command=please+fail&{all}");
    let [.., status] = exec(&listening, &failing, v5).await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["reason"], "NonZeroExitCode");
    assert_eq!(
        status["details"]["causes"][0],
        json!({ "reason": "ExitCode", "message": "3" })
    );
    let [_, err, status] = exec(&listening, &format!("db-0/exec?command=psql&{all}"), v5)
        .await
        .unwrap();
    assert!(
        err.contains("no answer for the command [\"psql\"]"),
        "{err}"
    );
    assert!(
        err.contains("default/db-0") && err.contains("--answers"),
        "{err}"
    );
    assert!(status.contains("127"), "{status}");
    sandbox
        .answers()
        .unwrap()
        .add(Answer::command(["psql"]).stdout("now"));
    let [out, ..] = exec(&listening, &format!("db-0/exec?command=psql&{all}"), v5)
        .await
        .unwrap();
    assert_eq!(out, "now");
    for (rest, protocols, code) in [
        ("db-0/exec?command=x", "base64.binary.k8s.io", 400),
        ("db-0/exec", v5, 400),
        ("no/exec?command=x", v5, 404),
        ("db-0/exec?command=x&container=no", v5, 400),
    ] {
        match exec(&listening, rest, protocols).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), code, "{rest}"),
            other => panic!("{rest}: {other:?}"),
        }
    }
    let plain = api
        .get(&format!("{PODS}/db-0/exec?command=x"))
        .await
        .expect(400);
    assert!(
        plain.text().contains("Upgrade request required"),
        "{}",
        plain.text()
    );
}

#[tokio::test]
async fn namespaces_get_their_account_and_the_certificate_authority() {
    let (sandbox, api) = started("[]");
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    let kubeconfig = listening.kubeconfig();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" },
    });
    api.create("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    for namespace in ["default", "kube-system", "shop"] {
        let of = format!("/api/v1/namespaces/{namespace}");
        let (account, authority) = (
            format!("{of}/serviceaccounts/default"),
            format!("{of}/configmaps/kube-root-ca.crt"),
        );
        for round in 0..2 {
            let found = async |path: &str| {
                in_time(path, async {
                    loop {
                        let answer = api.get(path).await;
                        let has_content = answer.text().contains("BEGIN CERTIFICATE");
                        if answer.code == 200 && (has_content || path.contains("accounts")) {
                            return answer.json();
                        }
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                })
                .await
            };
            found(&account).await;
            found(&authority).await;
            if round == 0 {
                // Deleted ones are created again.
                api.delete(&account).await.expect(200);
                api.delete(&authority).await.expect(200);
            }
        }
    }
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let authentication = api.get(path).await.expect(200).json();
    let authority = authentication["data"]["client-ca-file"].as_str().unwrap();
    assert!(
        authority.starts_with("-----BEGIN CERTIFICATE"),
        "{authority}"
    );
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority);
    assert!(
        kubeconfig.contains(&encoded),
        "it is the one of the kubeconfig"
    );
}

#[tokio::test(start_paused = true)]
async fn services_have_endpoints() {
    let (_sandbox, api) = started("[]");
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "labels": { "own": "label" } },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    });
    api.create("/api/v1/namespaces/default/services", &service)
        .await
        .expect(201);
    let mut pod = pod("web-0", &["main"]);
    pod["metadata"]["labels"] = json!({ "app": "web" });
    run(&api, &pod).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let path = "/api/v1/namespaces/default/endpoints/web";
    let endpoints = api.get(path).await.expect(200).json();
    assert_eq!(endpoints["metadata"]["labels"]["own"], "label");
    assert_eq!(endpoints["subsets"].as_array().unwrap().len(), 1);
    assert_eq!(
        endpoints["subsets"][0]["ports"],
        json!([{ "port": 8080, "protocol": "TCP" }])
    );
    assert_eq!(
        endpoints["subsets"][0]["addresses"][0]["targetRef"]["name"],
        "web-0"
    );
    api.delete(&format!("{PODS}/web-0")).await.expect(200);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(api.get(path).await.json()["subsets"], Value::Null);
    api.delete("/api/v1/namespaces/default/services/web")
        .await
        .expect(200);
    tokio::time::sleep(Duration::from_secs(60)).await;
    api.get(path).await.expect(404);
}
