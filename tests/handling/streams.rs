//! Streams that the server restricts, and existing objects that come with the watch.

use kopf_core::selector::Selector;
use kopf_core::settings::StreamSelector;
use serde_json::json;

use crate::front::on;
use crate::stage::everywhere;

#[test]
fn objects_that_the_server_leaves_out_are_not_handled() {
    everywhere(async |stage| {
        let labelled = |value: &str| json!({"metadata": {"labels": {"team": value}}, "spec": {}});
        stage.create_with("before", labelled("ours")).await;
        stage.create_with("foreign", labelled("theirs")).await;
        let mut selector =
            StreamSelector::new(Selector::parse(&[&stage.api.group(), "v1", "things"]).unwrap());
        selector.labels = Some("team=ours".to_owned());
        let setup = stage.operator([on::create("made"), on::event("seen")]);
        let _operator = setup
            .settings(|settings| settings.watching.selectors.push(selector))
            .start()
            .await;
        stage.until_handled("before").await;
        stage.create_with("foreign-too", labelled("theirs")).await;
        stage.create_with("after", labelled("ours")).await;
        stage.until_handled("after").await;
        let mut names: Vec<_> = stage
            .journal
            .of("seen")
            .iter()
            .map(|entry| entry.body["metadata"]["name"].clone())
            .collect();
        names.dedup();
        assert!(
            names
                .iter()
                .all(|name| *name == "before" || *name == "after"),
            "{names:?}"
        );
        assert_eq!(stage.journal.count("made"), 2);
    });
}

#[test]
fn existing_objects_can_come_with_the_watch() {
    everywhere(async |stage| {
        let handlers = || {
            [
                on::create("made"),
                on::resume("resumed"),
                on::delete("ended"),
            ]
        };
        stage.create("early", json!({})).await;
        let operator = stage
            .operator(handlers())
            .settings(|settings| settings.watching.initial_streaming = true)
            .start()
            .await;
        stage.until_handled("early").await;
        stage.create_handled("late", json!({})).await;
        assert_eq!(stage.journal.count("made"), 2);
        operator.restart().await;
        stage
            .until_so("the resuming", || stage.journal.count("resumed") == 2)
            .await;
        stage.delete_wholly("early").await;
        assert_eq!(stage.journal.count("ended"), 1);
    });
}
