//! An equivalent of the recorded operator: its handlers have the same webhooks and send the same
//! responses.

use std::path::Path;

use kopf_core::admission::{Incoming, Operation};
use kopf_core::filter::MetaCriterion;
use serde_json::{Value, json};

use super::configuration::{KINDS, configuration, managed, managing, until};
use super::{FakeServer, admitting, patch};
use crate::front::{Declaration, arbitrary, denied, done, on, permanent};
use crate::stage::{Stage, sandboxed};

/// Returns the handlers of the recorded `operator.py`.
fn handlers() -> [Declaration; 5] {
    let check = on::validate("check").persistent().does(|call| async move {
        let admission = call.admission().unwrap();
        let review = &admission.review;
        let operation = review.operation.map_or("None", Operation::as_str);
        let subresource = review.subresource.as_deref().unwrap_or("None");
        let dryrun = if review.dryrun { "True" } else { "False" };
        let user = review.userinfo["username"].as_str().unwrap_or_default();
        let warning = format!("checked {operation} {subresource} {dryrun} {user}");
        admission.warnings.push(warning);
        match call.body().spec()["field"].as_str() {
            Some("wrong") => denied("Not this.", 418),
            Some("perm") => permanent("Permanently."),
            Some("boom") => arbitrary("Arbitrary."),
            _ => done(),
        }
    });
    let check2 = on::validate("some/id_with:odd chars")
        .field("spec.field")
        .operations([Operation::Create, Operation::Update])
        .ignore_failures()
        .side_effects();
    let change = on::mutate("change")
        .label("mutate", MetaCriterion::from("yes"))
        .label("other", MetaCriterion::Present)
        .label("third", MetaCriterion::Absent)
        .operations([Operation::Create])
        .does(|call| async move {
            let mut items = call.body().spec()["items"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            items.push(json!("c"));
            call.patch.with(|patch| {
                patch.set(&"spec.added".into(), json!({"deep": {"er": 1}}));
                patch.set(&"spec.field".into(), json!(null));
                patch.set(&"metadata.labels.by".into(), json!("webhook"));
                patch.set(&"spec.items".into(), json!(items));
            });
            done()
        });
    let status = on::validate("status_check")
        .subresource("status")
        .does(|call| async move {
            if call.body().status()["bad"].is_null() {
                done()
            } else {
                denied("bad status", 500)
            }
        });
    let deletion = on::validate("on_delete")
        .subresource("*")
        .operations([Operation::Delete])
        .does(|call| async move {
            let review = &call.admission().unwrap().review;
            match review.old.as_deref().map(|old| &old["spec"]["keep"]) {
                Some(keep) if !keep.is_null() => denied("keep it", 409),
                _ => done(),
            }
        });
    [check, check2, change, status, deletion]
}

/// Reads a file of the recording with the names of this case.
fn recorded(stage: &Stage, file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/a01-admission");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let text = text
        .replace("auto.golden.example", &managed(stage))
        .replace("golden.example", &stage.api.group());
    serde_json::from_str(&text).unwrap()
}

/// Returns all rules of these webhooks.
fn rules(webhooks: &mut Value) -> impl Iterator<Item = &mut Value> {
    let webhooks = webhooks.as_array_mut().into_iter().flatten();
    let rules = webhooks.filter_map(|webhook| webhook["rules"].as_array_mut());
    rules.flatten()
}

#[test]
fn webhooks_are_equal_to_the_recorded_ones() {
    sandboxed(async |stage| {
        let server = FakeServer::at("https://127.0.0.1:54399");
        let operator = managing(stage, &server, handlers()).start().await;
        until(stage, KINDS[0], "all webhooks", |all| all.len() == 4).await;
        until(stage, KINDS[1], "the webhook", |all| all.len() == 1).await;
        let recorded = recorded(stage, "objects.json");
        for (kind, recorded) in KINDS.iter().zip(&recorded) {
            let mut ours = configuration(stage, kind).await["webhooks"].take();
            for webhook in ours.as_array_mut().unwrap() {
                webhook["clientConfig"]["caBundle"] = json!("<CA>");
            }
            let mut theirs = recorded["object"]["webhooks"].clone();
            for rule in rules(&mut theirs) {
                // In this implementation, `subresource="*"` includes the main resource.
                if rule["resources"] == json!(["things/*"]) {
                    rule["resources"] = json!(["things", "things/*"]);
                }
            }
            assert_eq!(ours, theirs, "{kind}");
        }
        operator.stop().await;
        let left = recorded.iter().filter(|moment| moment["after"] == "exited");
        for (kind, left) in KINDS.iter().zip(left) {
            let webhooks = configuration(stage, kind).await["webhooks"].take();
            let names = webhooks.as_array().cloned().unwrap_or_default().into_iter();
            let names: Vec<Value> = names.map(|mut webhook| webhook["name"].take()).collect();
            assert_eq!(json!(names), left["names"], "{kind}");
        }
    });
}

#[test]
fn responses_are_equal_to_the_recorded_ones() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let _operator = admitting(stage, &server, handlers()).open(&server).await;
        let requests = recorded(stage, "requests.json");
        let answers = recorded(stage, "objects.json");
        let mut compared = 0;
        // The original admits everything at paths with no id or an unknown id. This implementation
        // rejects unknown ids.
        let differs = |path: &Value| path == "/" || path == "/nope";
        for request in requests
            .iter()
            .filter(|request| request["body"].is_object() && !differs(&request["path"]))
        {
            let after = &request["after"];
            let answer = answers
                .iter()
                .find(|answer| answer["after"] == *after)
                .unwrap();
            let text = answer["curl"]
                .as_str()
                .unwrap()
                .strip_suffix("\n200")
                .unwrap();
            let mut theirs: Value = serde_json::from_str(text).unwrap();
            let webhook = request["path"].as_str().unwrap().strip_prefix('/');
            let mut incoming = Incoming::new(request["body"].clone());
            incoming.webhook = webhook.map(str::to_owned);
            let mut ours = server.put(incoming).await.unwrap();
            let operations = [&mut ours, &mut theirs].map(|answer| {
                let mut operations = patch(&answer["response"]);
                operations.sort_by_key(|operation| operation["path"].to_string());
                let response = answer["response"].as_object_mut().unwrap();
                response.remove("patch");
                operations
            });
            assert_eq!(operations[0], operations[1], "{after}");
            assert_eq!(ours, theirs, "{after}");
            compared += 1;
        }
        assert_eq!(compared, 2);
    });
}

/// Formats a response as `kubectl` printed it in the recording.
fn printed(webhook: &str, response: &Value) -> Vec<String> {
    let warnings = response["warnings"].as_array().cloned().unwrap_or_default();
    let mut lines: Vec<String> = warnings
        .iter()
        .map(|warning| format!("Warning: {}", warning.as_str().unwrap()))
        .collect();
    if response["allowed"] == false {
        let message = response["status"]["message"].as_str().unwrap();
        lines.push(format!(
            "admission webhook \"{webhook}\" denied the request: {message}"
        ));
    }
    lines
}

#[test]
fn kubectl_output_is_equal_to_the_recorded_one() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let _operator = admitting(stage, &server, handlers()).open(&server).await;
        let seen = recorded(stage, "objects.json");
        let managed = managed(stage);
        let thing = |spec: Value| stage.thing("obj", spec);
        let asked = |operation: &str, new: Option<Value>, old: Option<Value>| {
            let mut review = super::review(stage, operation, new, old);
            review["request"]["userInfo"]["username"] = json!("admin");
            review
        };
        let create = |spec: Value| asked("CREATE", Some(thing(spec)), None);
        let mut dry = create(json!({"field": "value"}));
        dry["request"]["dryRun"] = json!(true);
        let mut bad = thing(json!({}));
        bad["status"] = json!({"bad": true});
        let mut status = asked("UPDATE", Some(bad), Some(thing(json!({}))));
        status["request"]["subResource"] = json!("status");
        let deletion = asked("DELETE", None, Some(thing(json!({"keep": true}))));
        for (after, id, review) in [
            ("create ok", "check", create(json!({"field": "value"}))),
            ("wrong", "check", create(json!({"field": "wrong"}))),
            ("permanent", "check", create(json!({"field": "perm"}))),
            ("arbitrary", "check", create(json!({"field": "boom"}))),
            ("dry run", "check", dry),
            ("bad status", "status_check", status),
            ("delete kept", "check", deletion.clone()),
            ("delete kept", "on_delete", deletion),
        ] {
            let mut incoming = Incoming::new(review);
            incoming.webhook = Some(id.to_owned());
            let answer = server.put(incoming).await.unwrap();
            let webhook = format!("{}.{managed}", id.replace('_', "-"));
            let recorded = seen.iter().find(|moment| moment["after"] == after).unwrap();
            let recorded = recorded["kubectl"].as_str().unwrap();
            let lines = printed(&webhook, &answer["response"]);
            assert!(!lines.is_empty(), "{after}");
            for line in lines {
                assert!(
                    recorded.contains(&line),
                    "{after}: {line:?} not in {recorded:?}"
                );
            }
        }
    });
}
