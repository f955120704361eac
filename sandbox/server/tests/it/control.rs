//! Tests of the control endpoint.

use http::Method;
use kopf_sandbox::{Listen, Sandbox};
use serde_json::json;

use crate::support::tls::Kubeconfig;
use crate::support::{Api, CONFIG_MAPS, config_map, request};

const FAULTS: &str = "/kopf-sandbox/faults";

#[tokio::test]
async fn rules_are_added_and_removed_by_requests() {
    let sandbox = Sandbox::builder().seed(7).build().unwrap();
    let api = Api::of(&sandbox);
    let yaml = "- {fault: error, code: 503, verbs: [create], kind: configmaps, times: 2}\n- {fault: latency, delay: 1ms}\n";
    let post = || request(Method::POST, FAULTS, Some("application/yaml"), yaml);
    let added = api.send(post()).await.expect(201).json();
    assert_eq!(added["ids"], json!([1, 2]));
    for code in [503, 503, 201] {
        let created = api.create(CONFIG_MAPS, &config_map("a", "1")).await;
        assert_eq!(created.code, code);
    }
    let state = api.get(FAULTS).await.expect(200).json();
    assert_eq!(state["seed"], 7);
    assert_eq!(state["injected"]["errors"], 2);
    assert_eq!(state["rules"][0]["count"], 2);
    assert_eq!(
        state["rules"][0]["rule"],
        json!({"fault": "error", "code": 503, "verbs": ["create"], "kind": "configmaps", "times": 2})
    );
    api.delete(&format!("{FAULTS}/2")).await.expect(200);
    api.delete(&format!("{FAULTS}/2")).await.expect(404);
    assert_eq!(
        api.get(FAULTS).await.json()["rules"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    api.delete(FAULTS).await.expect(200);
    assert_eq!(api.get(FAULTS).await.json()["rules"], json!([]));
    sandbox.shutdown().await;
}

#[tokio::test]
async fn invalid_rules_are_rejected_as_a_whole() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    for body in ["- {fault: reset}\n- {fault: rest}", "]", "", "7"] {
        let post = request(Method::POST, FAULTS, None, body.to_owned());
        api.send(post).await.expect(400);
    }
    assert_eq!(api.get(FAULTS).await.json()["rules"], json!([]));
    api.send(request(Method::PUT, FAULTS, None, ""))
        .await
        .expect(405);
    api.get("/kopf-sandbox/nothing").await.expect(404);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn actions_take_effect_at_once() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let version = api.version(CONFIG_MAPS).await;
    api.create(CONFIG_MAPS, &config_map("a", "1"))
        .await
        .expect(201);
    let mut watch = api.watch(CONFIG_MAPS).await;
    watch.event().await;
    let act = |name: &str| {
        let path = format!("/kopf-sandbox/actions/{name}");
        request(Method::POST, &path, None, "")
    };
    api.send(act("kill-watches")).await.expect(200);
    assert!(watch.breaks().await);
    api.send(act("compact")).await.expect(200);
    let path = format!("{CONFIG_MAPS}?resourceVersion={version}");
    let event = api.watch(&path).await.event().await;
    assert_eq!(event.object["code"], 410);
    api.send(act("explode")).await.expect(404);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn reset_of_all_connections_is_confirmed() {
    let sandbox = Sandbox::builder().build().unwrap();
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    let config = Kubeconfig::read(&listening.kubeconfig());
    let mut other = config.connect().await.unwrap();
    other.get(CONFIG_MAPS).await.unwrap().expect(200);
    let mut own = config.connect().await.unwrap();
    let path = "/kopf-sandbox/actions/reset-connections";
    let confirmed = own.send(request(Method::POST, path, None, "")).await;
    confirmed.unwrap().expect(200);
    assert!(other.get(CONFIG_MAPS).await.is_err());
    crate::support::in_time("the reset of the own connection", async {
        while own.get(CONFIG_MAPS).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    sandbox.shutdown().await;
}

#[tokio::test]
async fn shard_selectors_are_ignored_without_shards() {
    let selector = "shardRange(object.metadata.uid, '0x0000000000000000', '0x0000000000000001')";
    let encoded = selector.replace(' ', "%20").replace('\'', "%27");
    let path = format!("{CONFIG_MAPS}?shardSelector={encoded}");
    let with = Sandbox::builder().seed(7).build().unwrap();
    let without = Sandbox::builder().seed(7).without_shards().build().unwrap();
    for (sandbox, is_filtered) in [(with, true), (without, false)] {
        let api = Api::of(&sandbox);
        let created = api.create(CONFIG_MAPS, &config_map("a", "1")).await;
        created.expect(201);
        let list = api.get(&path).await.expect(200).json();
        assert_eq!(list["items"].as_array().unwrap().is_empty(), is_filtered);
        assert_eq!(list["metadata"].get("shardInfo").is_some(), is_filtered);
        sandbox.shutdown().await;
    }
}
