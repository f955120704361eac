//! What goes into indices, and what comes out of them.

use kopf_core::filter::{MetaCriterion, ValueCriterion};
use serde_json::json;

use super::by_key;
use crate::front::{done, gives, indexed, look, on};
use crate::stage::{everywhere, sandboxed};

#[test]
fn entries_follow_their_objects() {
    everywhere(async |stage| {
        let _operator = stage.run([by_key("keys")]).await;
        stage.create("a", json!({"key": "one"})).await;
        stage.create("b", json!({"key": "one"})).await;
        let both = json!({"one": ["a", "b"]});
        stage
            .until_so("both to be there", || stage.index("keys") == both)
            .await;
        stage.merge("a", json!({"spec": {"key": "two"}})).await;
        let moved = json!({"one": ["b"], "two": ["a"]});
        stage
            .until_so("it to be moved", || stage.index("keys") == moved)
            .await;
        stage.delete("b").await;
        let left = json!({"two": ["a"]});
        stage
            .until_so("it to be removed", || stage.index("keys") == left)
            .await;
        stage.delete("a").await;
        stage
            .until_so("nothing to be left", || stage.index("keys") == json!({}))
            .await;
        assert_eq!(stage.writes(), [], "indexing writes nothing");
    });
}

#[test]
fn keys_that_are_not_returned_any_more_are_removed() {
    sandboxed(async |stage| {
        let labels = on::index("labels").does(|call| async move {
            let entries = call.body().spec()["entries"].clone();
            indexed(&call, entries)
        });
        let _operator = stage.run([labels]).await;
        for entries in [
            json!({"x": 1, "y": 2}),
            json!({"y": 3, "z": null}),
            json!({}),
            json!({"x": 4}),
        ] {
            if stage.get("obj").await.is_null() {
                stage.create("obj", json!({"entries": entries})).await;
            } else {
                // A merge would keep the former keys.
                stage.merge("obj", json!({"spec": {"entries": null}})).await;
                stage.settled().await;
                stage
                    .merge("obj", json!({"spec": {"entries": entries}}))
                    .await;
            }
            stage.settled().await;
            let mut expected = json!({});
            let sent = stage.get("obj").await["spec"]["entries"].clone();
            for (key, value) in sent.as_object().cloned().unwrap_or_default() {
                expected[&key] = json!([value]);
            }
            assert_eq!(stage.index("labels"), expected);
        }
    });
}

#[test]
fn nothing_left_means_that_entries_are_kept() {
    sandboxed(async |stage| {
        let keys = on::index("keys").does(|call| async move {
            match call.body().spec()["key"].as_str() {
                Some(key) => indexed(&call, json!({ key: 1 })),
                None => done(),
            }
        });
        let _operator = stage.run([keys]).await;
        stage.create_settled("obj", json!({"key": "one"})).await;
        stage.merge("obj", json!({"spec": {"key": null}})).await;
        stage.settled().await;
        assert_eq!(stage.journal.count("keys"), 2);
        assert_eq!(stage.index("keys"), json!({"one": [1]}));
    });
}

#[test]
fn objects_that_do_not_match_any_more_are_removed() {
    sandboxed(async |stage| {
        let one = ValueCriterion::Literal(json!("one"));
        let handlers = [
            by_key("labelled").label("app", MetaCriterion::Present),
            by_key("valued").field("spec.key").value(one),
            by_key("named").when(|cause| cause.body.name() == Some("obj")),
        ];
        let _operator = stage.run(handlers).await;
        let labels = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"key": "one"}});
        stage.create_with("obj", labels.clone()).await;
        stage
            .create_with("other", json!({"spec": {"key": "two"}}))
            .await;
        stage.settled().await;
        let all = json!({"one": ["obj"]});
        for id in ["labelled", "valued", "named"] {
            assert_eq!(stage.index(id), all, "{id}");
        }
        stage
            .merge(
                "obj",
                json!({"metadata": {"labels": {"app": null}}, "spec": {"key": "two"}}),
            )
            .await;
        stage.settled().await;
        assert_eq!(stage.index("labelled"), json!({}));
        assert_eq!(stage.index("valued"), json!({}));
        assert_eq!(stage.index("named"), json!({"two": ["obj"]}));
        stage.merge("obj", labels).await;
        stage.settled().await;
        assert_eq!(stage.index("labelled"), all);
    });
}

#[test]
fn several_handlers_can_share_an_index_and_the_last_one_decides() {
    sandboxed(async |stage| {
        let first = by_key("shared");
        let second = on::index("shared")
            .when(|cause| cause.body.spec()["second"] == true)
            .does(|call| async move { indexed(&call, json!({"second": 2})) });
        let _operator = stage.run([first, second]).await;
        stage.create("a", json!({"key": "one"})).await;
        stage
            .create_settled("b", json!({"key": "one", "second": true}))
            .await;
        assert_eq!(stage.index("shared"), json!({"one": ["a"], "second": [2]}));
        assert_eq!(stage.journal.count("shared"), 3);
    });
}

#[test]
fn every_version_is_indexed_in_order() {
    sandboxed(async |stage| {
        let slow = on::create("slow").does(|_| async {
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            done()
        });
        let _operator = stage.run([by_key("keys"), slow]).await;
        stage.create("obj", json!({"key": "0"})).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        for value in 1..=5 {
            let key = value.to_string();
            stage.merge("obj", json!({"spec": {"key": key}})).await;
        }
        stage.pass(60.0).await;
        let seen = stage.journal.of("keys").into_iter();
        let mut seen: Vec<_> = seen.map(|e| e.body["spec"]["key"].clone()).collect();
        seen.dedup();
        assert_eq!(seen, ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(stage.index("keys"), json!({"5": ["obj"]}));
    });
}

#[test]
fn all_handlers_can_look_and_indices_can_be_of_indices() {
    sandboxed(async |stage| {
        let counts = on::index("counts").does(|call| async move {
            let keys = look(&call.operator.indices, "keys").keys();
            let name = call.body().name().unwrap_or_default().to_owned();
            indexed(&call, json!({ name: keys.len() }))
        });
        let made = on::create("made").does(|call| async move {
            let keys = look(&call.operator.indices, "keys");
            gives(json!(keys.get("one").len()))
        });
        stage.create("a", json!({"key": "one"})).await;
        let _operator = stage.run([by_key("keys"), counts, made]).await;
        stage.settled().await;
        assert_eq!(stage.index("counts"), json!({"a": [1]}));
        let b = stage.create_handled("b", json!({"key": "one"})).await;
        assert_eq!(b["status"]["made"], 2);
    });
}

#[test]
fn results_and_patches_of_index_handlers_are_dropped() {
    everywhere(async |stage| {
        let noisy = on::index("noisy").does(|call| async move {
            call.patch.with(|patch| {
                patch.status_mut().insert("noise".to_owned(), json!("loud"));
            });
            call.logger.warning("loudly");
            gives(json!("a result"))
        });
        let _operator = stage
            .operator([noisy])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("the call", || stage.journal.count("noisy") > 0)
            .await;
        stage.settled().await;
        assert_eq!(stage.writes(), []);
        assert!(stage.log.has("obj", "loudly"));
    });
}
