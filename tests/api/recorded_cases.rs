//! Objects and changes that a real server rejects, with its errors, and changes that it accepts. The
//! cases are recorded from a real server; both servers must return the same.

use kopf_tests::{Api, ApiResponse, PatchType, with_query};
use serde_json::{Value, json};

/// Replaces `{name}` and `{ip}` by names of this test, so that it can run beside others.
fn filled(value: &Value, api: &Api, number: usize) -> Value {
    let name = api.unique(&format!("case-{number}"));
    let address = format!("192.0.2.{}", 1 + number % 250);
    let text = value.to_string().replace("{name}", &name);
    serde_json::from_str(&text.replace("{ip}", &address)).unwrap()
}

fn path(case: &Value, api: &Api) -> String {
    let namespace = format!("namespaces/{}", api.namespace());
    case["at"].as_str().unwrap().replace("{ns}", &namespace)
}

/// Returns the distinct causes of a response: reason, field, and the first line of the message.
fn causes(response: &ApiResponse) -> Vec<[String; 3]> {
    let causes = response.details()["causes"].as_array();
    let mut causes: Vec<_> = causes
        .into_iter()
        .flatten()
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            let reason = text("reason").replace("FieldValue", "");
            let message = text("message")
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned();
            [reason, text("field"), message]
        })
        .collect();
    causes.sort();
    causes.dedup();
    causes
}

/// Returns the difference of a response from the expected one. Without a message in the
/// expectation, only the reason and the field are compared: it would contain internal names.
fn difference(
    expected: &Value,
    response: &ApiResponse,
    success: u16,
    name: &str,
) -> Option<String> {
    let code = expected["code"].as_u64().unwrap_or(success.into());
    let found = causes(response);
    let wanted: Vec<Value> = expected["causes"].as_array().cloned().unwrap_or_default();
    let same_causes = wanted.len() == found.len()
        && wanted.iter().zip(&found).all(|(wanted, found)| {
            let wanted = wanted.as_array().unwrap();
            wanted
                .iter()
                .zip(found)
                .all(|(wanted, found)| wanted == found)
        });
    let message = expected["message"].as_str();
    let same_message =
        message.is_none_or(|message| message.replace("{name}", name) == response.message());
    if u64::from(response.code) == code && same_causes && same_message {
        return None;
    }
    let code = response.code;
    let message = response.message();
    Some(format!(
        "expected {expected}, got {code} {found:?} {message}"
    ))
}

#[tokio::test]
async fn invalid_objects_are_rejected_with_the_same_errors() {
    let api = Api::start().await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("recorded/rejected.json")).unwrap();
    assert!(cases.len() > 140);
    let mut wrong = Vec::new();
    for case in &cases {
        let all = with_query(&path(case, &api), &[("dryRun", "All")]);
        let response = api.create(&all, &case["object"]).await;
        let difference = difference(case, &response, 201, "");
        wrong.extend(difference.map(|difference| format!("{}: {difference}", case["what"])));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Performs the steps of a case. Returns those with another result.
async fn wrong_steps(api: &Api, number: usize, case: &Value) -> Vec<String> {
    let case = filled(case, api, number);
    if let Some(other) = case.get("with") {
        let all = path(other, api);
        let made = api.created(&all, &other["object"]).await;
        api.delete_at_end(format!("{all}/{}", made.name()));
    }
    let all = path(&case, api);
    let made = api.created(&all, &case["object"]).await;
    let own = format!("{all}/{}", made.name());
    api.delete_at_end(own.clone());
    let mut wrong = Vec::new();
    for step in case["steps"].as_array().unwrap() {
        let target = match step["to"].as_str() {
            Some(subresource) => format!("{own}/{subresource}"),
            None => own.clone(),
        };
        let response = api.patch(&target, PatchType::Merge, &step["patch"]).await;
        let difference = difference(step, &response, 200, made.name());
        wrong.extend(difference.map(|difference| format!("{}: {difference}", case["what"])));
    }
    // Some servers add finalizers, which would block the deletion.
    let released = json!({"metadata": {"finalizers": null}});
    api.merged(&own, &released).await;
    wrong
}

#[tokio::test]
async fn changes_are_accepted_or_rejected_with_the_same_errors() {
    let api = Api::start().await;
    let cases: Vec<Value> = serde_json::from_str(include_str!("recorded/changes.json")).unwrap();
    assert!(cases.len() > 55);
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        wrong.extend(wrong_steps(&api, number, case).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
