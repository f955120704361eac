//! Tests of many concurrent watchers and writers.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use kopf_sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Api, CONFIG_MAPS, Watch, config_map, in_time};

const ONE: &str = "/api/v1/namespaces/default/configmaps/one";

fn sandbox() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    (sandbox, api)
}

/// Returns the next `count` lines.
async fn lines(mut watch: Watch, count: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut seen = 0;
    while seen < count {
        let frame = watch.body.frame().await.expect("no end").expect("no break");
        let data = frame.into_data().unwrap();
        seen += data.split(|byte| *byte == b'\n').count() - 1;
        text.extend_from_slice(&data);
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_watchers_see_every_event_in_order() {
    const WATCHERS: usize = 1000;
    const EVENTS: usize = 200;
    let (_sandbox, api) = sandbox();
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let watch = api.watch(CONFIG_MAPS).await;
        watchers.spawn(lines(watch, EVENTS));
    }
    let mut expected = Vec::new();
    for round in 0..EVENTS / 4 {
        let name = format!("n{round}");
        let path = format!("{CONFIG_MAPS}/{name}");
        let made = api.create(CONFIG_MAPS, &config_map(&name, "")).await;
        let mut object = made.expect(201).json();
        expected.push(json!({ "type": "ADDED", "object": object }));
        for value in ["a", "b"] {
            let patch = json!({ "data": { "value": value } });
            object = api.merge(&path, &patch).await.expect(200).json();
            expected.push(json!({ "type": "MODIFIED", "object": object }));
        }
        api.delete(&path).await.expect(200);
        object["metadata"]["resourceVersion"] = json!(api.version(CONFIG_MAPS).await);
        expected.push(json!({ "type": "DELETED", "object": object }));
    }
    let mut all = in_time("all watchers", watchers.join_all()).await;
    let first = all.pop().unwrap();
    assert!(all.iter().all(|other| *other == first), "they differ");
    let lines = first.split_inclusive(|byte| *byte == b'\n');
    let seen: Vec<Value> = lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn unread_watcher_blocks_no_other() {
    let sandbox = Sandbox::builder().history(50).build().unwrap();
    let api = Api::of(&sandbox);
    let mut lazy = api.watch(CONFIG_MAPS).await;
    let mut late = api.watch(CONFIG_MAPS).await;
    let mut diligent = api.watch(CONFIG_MAPS).await;
    for round in 0..200 {
        let name = format!("n{round:03}");
        let made = api.create(CONFIG_MAPS, &config_map(&name, "")).await;
        made.expect(201);
        assert_eq!(diligent.event().await.brief(), ("ADDED", &*name));
        if round == 160 {
            let error = late.event().await;
            assert_eq!(
                (&*error.kind, &error.object["code"]),
                ("ERROR", &json!(410))
            );
            let from = api.version(CONFIG_MAPS).await;
            let path = format!("{CONFIG_MAPS}?resourceVersion={from}");
            late = api.watch(&path).await;
        }
    }
    // More changes than the history keeps.
    let error = lazy.event().await;
    assert_eq!(
        (&*error.kind, &error.object["code"]),
        ("ERROR", &json!(410))
    );
    assert!(lazy.rest().await.is_empty());
    // Fewer changes than the history keeps.
    for round in 161..200 {
        assert_eq!(late.event().await.name(), format!("n{round:03}"));
    }
}

#[tokio::test]
async fn late_reader_gets_the_whole_history() {
    let (_sandbox, api) = sandbox();
    let mut watch = api.watch(CONFIG_MAPS).await;
    for round in 0..600 {
        let name = format!("n{round:03}");
        api.create(CONFIG_MAPS, &config_map(&name, "")).await;
    }
    let mut last = 0;
    for round in 0..600 {
        let event = watch.event().await;
        assert_eq!(event.name(), format!("n{round:03}"));
        assert!(event.version() > last);
        last = event.version();
    }
}

#[tokio::test]
async fn watchers_with_selectors_get_matching_events() {
    let (_sandbox, api) = sandbox();
    let mut red = api
        .watch(&format!("{CONFIG_MAPS}?labelSelector=colour%3Dred"))
        .await;
    let mut not_red = api
        .watch(&format!(
            "{CONFIG_MAPS}?labelSelector=colour%20notin%20(red)"
        ))
        .await;
    let mut named = api
        .watch(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dtwo"))
        .await;
    let mut elsewhere = api.watch("/api/v1/namespaces/kube-system/configmaps").await;
    let mut everywhere = api.watch("/api/v1/configmaps").await;

    for (name, colour) in [("one", "red"), ("two", "blue")] {
        let mut object = config_map(name, "");
        object["metadata"]["labels"] = json!({ "colour": colour });
        api.create(CONFIG_MAPS, &object).await.expect(201);
    }
    for (name, colour) in [("one", "blue"), ("one", "red"), ("two", "green")] {
        let patch = json!({ "metadata": { "labels": { "colour": colour } } });
        let path = format!("{CONFIG_MAPS}/{name}");
        api.merge(&path, &patch).await.expect(200);
    }
    for name in ["one", "two"] {
        let path = format!("{CONFIG_MAPS}/{name}");
        api.delete(&path).await.expect(200);
    }
    let kube_system = "/api/v1/namespaces/kube-system/configmaps";
    let last = api.create(kube_system, &config_map("last", "")).await;
    last.expect(201);

    for (watch, expected) in [
        (
            &mut red,
            vec!["ADDED one", "DELETED one", "ADDED one", "DELETED one"],
        ),
        (
            &mut not_red,
            vec![
                "ADDED two",
                "ADDED one",
                "DELETED one",
                "MODIFIED two",
                "DELETED two",
            ],
        ),
        (&mut named, vec!["ADDED two", "MODIFIED two", "DELETED two"]),
        (&mut elsewhere, vec!["ADDED last"]),
        (
            &mut everywhere,
            vec![
                "ADDED one",
                "ADDED two",
                "MODIFIED one",
                "MODIFIED one",
                "MODIFIED two",
                "DELETED one",
                "DELETED two",
                "ADDED last",
            ],
        ),
    ] {
        let mut seen = Vec::new();
        let mut versions = Vec::new();
        for _ in 0..expected.len() {
            let event = watch.event().await;
            seen.push(format!("{} {}", event.kind, event.name()));
            versions.push(event.version());
        }
        assert_eq!(seen, expected);
        assert!(versions.is_sorted(), "{versions:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optimistic_locking_loses_no_increment() {
    const TASKS: usize = 50;
    const ROUNDS: usize = 10;
    let (_sandbox, api) = sandbox();
    api.create(CONFIG_MAPS, &config_map("one", "0")).await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let api = api.clone();
        tasks.spawn(async move {
            let mut conflicts = 0;
            for _ in 0..ROUNDS {
                loop {
                    let mut object = api.get(ONE).await.expect(200).json();
                    // Yields, so that other writers can interfere, as with a slow client.
                    tokio::task::yield_now().await;
                    let value: usize = object["data"]["value"].as_str().unwrap().parse().unwrap();
                    object["data"]["value"] = json!((value + 1).to_string());
                    let response = api.update(ONE, &object).await;
                    match response.code {
                        200 => break,
                        409 => assert_eq!(response.json()["reason"], "Conflict"),
                        _ => panic!("{}", response.text()),
                    }
                    conflicts += 1;
                }
            }
            conflicts
        });
    }
    let conflicts: usize = in_time("all tasks", tasks.join_all()).await.iter().sum();
    let last = api.get(ONE).await.json();
    assert_eq!(last["data"]["value"], (TASKS * ROUNDS).to_string());
    assert!(conflicts > 0, "no conflicts: nothing was tested");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_patches_without_a_version_are_all_applied() {
    const TASKS: usize = 40;
    const ROUNDS: usize = 10;
    let (_sandbox, api) = sandbox();
    api.create(CONFIG_MAPS, &config_map("one", "0")).await;
    let mut watch = api.watch(CONFIG_MAPS).await;
    let start = Arc::new(tokio::sync::Barrier::new(TASKS));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (api, start) = (api.clone(), Arc::clone(&start));
        tasks.spawn(async move {
            start.wait().await;
            for round in 0..ROUNDS {
                let patch = json!({ "data": { format!("t{task}-{round}"): "x" } });
                // The server retries conflicts itself, but not forever.
                while api.merge(ONE, &patch).await.code == 409 {}
            }
        });
    }
    in_time("all tasks", tasks.join_all()).await;
    let last = api.get(ONE).await.expect(200).json();
    assert_eq!(last["data"].as_object().unwrap().len(), TASKS * ROUNDS + 1);
    // Each change was an event, and the data only grew.
    watch.event().await;
    for count in 0..TASKS * ROUNDS {
        let event = watch.event().await;
        assert_eq!(event.kind, "MODIFIED");
        assert_eq!(event.object["data"].as_object().unwrap().len(), count + 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_concurrent_creations_succeeds() {
    let (_sandbox, api) = sandbox();
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let api = api.clone();
        tasks.spawn(async move {
            let object = config_map("one", &task.to_string());
            api.create(CONFIG_MAPS, &object).await.code
        });
    }
    let mut codes = in_time("all tasks", tasks.join_all()).await;
    codes.sort_unstable();
    assert_eq!(codes[0], 201);
    assert!(codes[1..].iter().all(|code| *code == 409), "{codes:?}");
}

#[tokio::test]
async fn history_of_a_new_server_is_complete() {
    let (_sandbox, api) = sandbox();
    let path = "/api/v1/namespaces?resourceVersion=1";
    let mut watch = api.watch(path).await;
    assert_eq!(watch.event().await.brief(), ("ADDED", "default"));
    let exact = format!("{path}&resourceVersionMatch=Exact");
    let listed = api.get(&exact).await.expect(200).json();
    assert_eq!(listed["metadata"]["resourceVersion"], "1");
    assert_eq!(listed["items"], json!([]));
}
