//! Log records in the style of the Rust front. The other files have the style of the original.

use serde_json::json;
use tracing::Level;

use crate::front::{done, gives, on, temporary};
use crate::stage::{Stage, everywhere};

/// Returns the level of the record about the object that begins like this.
fn level(stage: &Stage, begin: &str) -> Option<Level> {
    let records = stage.log.of("obj");
    let found = records
        .iter()
        .find(|record| record.message.starts_with(begin));
    found.map(|record| record.level)
}

#[test]
fn the_operator_logs_when_it_is_ready() {
    everywhere(async |stage| {
        let ready = || {
            let records = stage.log.records();
            records.iter().any(|record| {
                record.level == Level::INFO && record.message == "The operator is ready."
            })
        };
        let original = stage.operator([on::create("make")]).start().await;
        stage.settled().await;
        assert!(!ready(), "as the original");
        original.stop().await;
        let native = stage.operator([on::create("make")]).native_style();
        let _operator = native.start().await;
        stage.until_so("the record", ready).await;
    });
}

#[test]
fn temporary_errors_are_warnings_and_values_are_json() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            match call.retry {
                0 => temporary("not yet", 0.1),
                _ => done(),
            }
        });
        let setup = stage.operator([make, on::update("updated")]);
        let _operator = setup.native_style().start().await;
        stage.create("obj", json!({"field": "it's"})).await;
        stage.until_handled("obj").await;
        let failed = "Handler 'make' failed temporarily: not yet";
        assert_eq!(level(stage, failed), Some(Level::WARN));
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        let processed = || level(stage, "Updating is processed").is_some();
        stage.until_so("the update", processed).await;
        assert!(
            stage
                .log
                .has("obj", r#"Creation is in progress: {"apiVersion":"#)
        );
        let diff = r#"Updating diff: [["change",["spec","field"],"it's",2]]"#;
        assert_eq!(stage.log.count("obj", diff), 1);
    });
}

#[test]
fn pruned_results_come_with_advice() {
    everywhere(async |stage| {
        let make = on::create("make").on(&["", "v1", "configmaps"]);
        let make = make.does(|_| async { gives(json!({"a": 1})) });
        let _operator = stage.operator([make]).native_style().start().await;
        let path = stage.api.ns_path("configmaps");
        let config_map = kopf_tests::objects::config_map("obj", json!({"a": "1"}));
        stage.api.created(&path, &config_map).await;
        let advised = || {
            stage
                .log
                .has("obj", "x-kubernetes-preserve-unknown-fields: true")
        };
        stage.until_so("the advice", advised).await;
        let begin = r#"Merge-patching finished with inconsistencies: [["remove",["status"]"#;
        assert_eq!(level(stage, begin), Some(Level::WARN));
    });
}
