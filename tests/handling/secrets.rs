//! Secrets: digests of their values in the diff-base, and redaction of the log.

use kopf_core::filter::ValueCriterion;
use kopf_core::settings::{DigestKey, SecretValues, Settings};
use serde_json::{Value, json};

use crate::front::{Declaration, done, on};
use crate::stage::{LAST_HANDLED, Setup, Stage, annotation, everywhere, last_handled};

/// `hunter2` and `hunter3`, as Secrets have them.
const OLD: &str = "aHVudGVyMg==";
const NEW: &str = "aHVudGVyMw==";

fn on_secrets(handler: Declaration) -> Declaration {
    handler.on(&["", "v1", "secrets"])
}

fn handlers() -> [Declaration; 2] {
    [on::create("created"), on::update("updated")].map(on_secrets)
}

fn digesting(values: SecretValues) -> impl Fn(&mut Settings) {
    move |settings| settings.persistence.secret_values = values.clone()
}

fn operator(stage: &Stage, values: SecretValues) -> Setup<'_> {
    stage.operator(handlers()).settings(digesting(values))
}

async fn create(stage: &Stage, password: &str) {
    let secret =
        kopf_tests::objects::secret("s", json!({"password": password, "user": "cm9vdA=="}));
    let path = stage.api.ns_path("secrets");
    stage.api.created(&path, &secret).await;
}

async fn change(stage: &Stage, password: &str) {
    let path = stage.api.ns_path("secrets/s");
    let data = json!({"data": {"password": password}});
    stage.api.merged(&path, &data).await;
}

async fn get(stage: &Stage) -> Value {
    stage.api.get(&stage.api.ns_path("secrets/s")).await.json
}

/// Waits until a handler was called, and its outcome is written.
async fn until_called(stage: &Stage, handler: &str) {
    let is_called = || stage.journal.count(handler) > 0;
    stage.until_so(handler, is_called).await;
    stage.settled().await;
}

#[test]
fn digests_replace_values_in_the_diff_base_and_show_changes() {
    for values in [
        SecretValues::Digests,
        SecretValues::KeyedDigests(DigestKey::new("0123456789abcdef")),
    ] {
        everywhere(async |stage| {
            let operator = operator(stage, values.clone()).start().await;
            create(stage, OLD).await;
            until_called(stage, "created").await;
            let created = stage.journal.only("created");
            assert_eq!(created.body["data"]["password"], OLD);
            let secret = get(stage).await;
            let stored = annotation(&secret, LAST_HANDLED);
            assert!(!stored.contains(OLD), "{stored}");
            let old = last_handled(&secret)["data"]["password"].clone();
            assert!(old.as_str().unwrap().contains("digest:"), "{stored}");

            operator.restart().await;
            stage.settled().await;
            assert_eq!(stage.journal.count("updated"), 0, "restarts change nothing");

            change(stage, NEW).await;
            until_called(stage, "updated").await;
            let updated = stage.journal.only("updated");
            let new = last_handled(&get(stage).await)["data"]["password"].clone();
            assert_ne!(old, new);
            let expected = json!([["change", ["data", "password"], old, new]]);
            assert_eq!(updated.diff, expected);
            assert_eq!(updated.old["data"]["password"], old);
            assert_eq!(updated.body["data"]["password"], NEW);
        });
    }
}

#[test]
fn values_stored_by_the_original_cause_one_update() {
    everywhere(async |stage| {
        let original = operator(stage, SecretValues::Plain).start().await;
        create(stage, OLD).await;
        until_called(stage, "created").await;
        assert_eq!(last_handled(&get(stage).await)["data"]["password"], OLD);
        original.stop().await;

        let successor = operator(stage, SecretValues::Digests).start().await;
        until_called(stage, "updated").await;
        let stored = get(stage).await;
        assert!(!annotation(&stored, LAST_HANDLED).contains(OLD));
        successor.restart().await;
        stage.settled().await;
        assert_eq!(stage.journal.count("updated"), 1);
    });
}

#[test]
fn filters_see_the_values() {
    everywhere(async |stage| {
        let by_value = |id: &str| on_secrets(on::update(id).field("data.password"));
        let handlers = [
            by_value("by_value").value(ValueCriterion::from(NEW)),
            by_value("by_new").new_value(ValueCriterion::from(NEW)),
            by_value("by_other").new_value(ValueCriterion::from(OLD)),
        ];
        let setup = stage
            .operator(handlers)
            .lifecycle(kopf_core::lifecycle::AllAtOnce);
        let setup = setup.settings(digesting(SecretValues::Digests));
        let _operator = setup.start().await;
        create(stage, OLD).await;
        while annotation(&get(stage).await, LAST_HANDLED).is_empty() {
            stage.sleep(0.05).await;
        }
        change(stage, NEW).await;
        until_called(stage, "by_value/data.password").await;
        until_called(stage, "by_new/data.password").await;
        assert_eq!(stage.journal.ids().len(), 2, "{:?}", stage.journal.ids());
    });
}

#[test]
fn logs_never_contain_values() {
    for values in [SecretValues::Plain, SecretValues::Digests] {
        everywhere(async |stage| {
            let renew = on_secrets(on::create("created")).does(|call| async move {
                call.patch.with(|patch| {
                    patch.set(&"stringData.token".into(), json!("hunter4"));
                    patch.add_fn(kopf_core::patch::PatchFn::new(
                        "rotate",
                        |body: &mut Value| {
                            body["data"]["user"] = json!("aHVudGVyNQ==");
                            Ok(())
                        },
                    ));
                });
                done()
            });
            let handlers = [renew, on_secrets(on::update("updated"))];
            let setup = stage.operator(handlers).settings(digesting(values.clone()));
            let _operator = setup.start().await;
            create(stage, OLD).await;
            until_called(stage, "updated").await;
            stage.journal.clear();
            change(stage, NEW).await;
            until_called(stage, "updated").await;
            for text in [
                "is in progress",
                "Updating diff",
                "Merge-patching",
                "JSON-patching",
            ] {
                assert!(stage.log.has("s", text), "{text}");
            }
            for record in stage.log.of("s") {
                // "hunter", plain and encoded.
                let is_redacted = !["hunter", "aHVudGVy"]
                    .iter()
                    .any(|value| record.message.contains(value));
                assert!(is_redacted, "{record}");
            }
        });
    }
}
