//! Changed and recreated CRDs: the effect on watches, names, and the status.

use kopf_tests::{Api, Crd, eventually};
use serde_json::{Value, json};

/// Returns the status of a condition, if it is present.
fn condition<'a>(crd: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|condition| condition["type"] == name)?;
    found["status"].as_str()
}

async fn definition(api: &Api, crd: &Crd<'_>) -> Value {
    api.found(&crd.definition_path()).await.json
}

async fn await_condition(api: &Api, path: &str, name: &str, status: &str) -> Value {
    eventually("the condition to be set", async || {
        let crd = api.found(path).await.json;
        (condition(&crd, name) == Some(status)).then_some(crd)
    })
    .await
}

async fn await_code(api: &Api, path: &str, code: u16) {
    eventually("another code", async || {
        (api.get(path).await.code == code).then_some(())
    })
    .await;
}

/// Replaces the status of a CRD by the result of `change`.
async fn write_status(api: &Api, crd: &Crd<'_>, change: impl Fn(&mut Value)) -> Value {
    let path = format!("{}/status", crd.definition_path());
    eventually("a write without conflict", async || {
        let mut definition = definition(api, crd).await;
        change(&mut definition);
        let written = api.put(&path, &definition).await;
        (written.code != 409).then(|| written.expect_code(200).json)
    })
    .await
}

#[tokio::test]
async fn new_schema_ends_watches() {
    let api = Api::start().await;
    let text = json!({"type": "string"});
    let crd = api
        .crd()
        .spec_schema(json!({"type": "object", "properties": {"a": text}}))
        .create()
        .await;
    let create = async |name: &str, spec: Value| {
        let object = crd.object(name, json!({ "spec": spec }));
        api.created(&crd.path(), &object).await.json
    };
    create("first", json!({})).await;
    let mut watch = api.watch(&crd.path()).await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", "first"));

    let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
    api.merged(&crd.definition_path(), &annotated).await;
    create("second", json!({})).await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", "second"));

    let mut changed = definition(&api, &crd).await;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["b"] = text;
    api.replaced(&crd.definition_path(), &changed).await;
    assert!(watch.closed().await.is_empty(), "it ends without a word");

    eventually("the new field to be kept", async || {
        let patch = json!({"spec": {"b": "c"}});
        let kept = api.merge(&crd.path_of("second"), &patch).await.ok().json;
        (kept["spec"]["b"] == "c").then_some(())
    })
    .await;
    assert!(api.get(&crd.path_of("first")).await.code == 200);
}

#[tokio::test]
async fn changed_names_end_watches() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("first", json!({})).await;
    let mut watch = api.watch(&crd.path()).await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", "first"));
    let patch = json!({"spec": {"names": {"categories": ["all"]}}});
    api.merged(&crd.definition_path(), &patch).await;
    assert!(watch.closed().await.is_empty());
}

#[tokio::test]
async fn late_reader_gets_the_last_events_of_a_recreated_crd() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("a", json!({})).await;
    let mut watch = api.watch(&crd.path()).await;
    api.deleted(&crd.definition_path()).await;
    await_code(&api, &crd.definition_path(), 404).await;
    let again = api.crd().create().await;
    again.created("b", json!({})).await;

    assert_eq!(watch.next_change().await.brief(), ("ADDED", "a"));
    assert_eq!(watch.next_change().await.brief(), ("DELETED", "a"));
    assert!(
        watch.closed().await.is_empty(),
        "events of the recreated CRD are not sent"
    );
    assert_eq!(api.get(&again.path()).await.ok().item_names(), ["b"]);
}

#[tokio::test]
async fn status_is_written_unchanged() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let before = definition(&api, &crd).await;
    let own = json!({
        "type": "Migrated", "status": "True", "reason": "Done", "message": "by hand",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let written = write_status(&api, &crd, |definition| {
        definition["status"]["storedVersions"] = json!(["v0", "v1"]);
        definition["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(own.clone());
        definition["spec"]["names"]["shortNames"] = json!(["ignored"]);
        definition["metadata"]["labels"] = json!({"kept": "yes"});
    })
    .await;
    assert_eq!(written["status"]["storedVersions"], json!(["v0", "v1"]));
    assert_eq!(written["metadata"]["labels"], json!({"kept": "yes"}));
    assert_eq!(written["spec"], before["spec"]);
    assert_eq!(written["metadata"]["generation"], 1);
    let after = definition(&api, &crd).await;
    assert_eq!(after["status"], written["status"]);
    assert_eq!(condition(&after, "Migrated"), Some("True"));

    // The storage version is restored.
    let emptied = write_status(&api, &crd, |definition| {
        definition["status"]["storedVersions"] = json!([]);
    })
    .await;
    assert_eq!(emptied["status"]["storedVersions"], json!(["v1"]));

    let mut bad = definition(&api, &crd).await;
    bad["status"]["acceptedNames"]["plural"] = json!("B@d");
    let path = format!("{}/status", crd.definition_path());
    let refused = api.put(&path, &bad).await.expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [("FieldValueInvalid", "status.acceptedNames.plural")]
    );
}

#[tokio::test]
async fn unestablished_crd_is_not_served_and_keeps_its_objects() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("a", json!({})).await;
    write_status(&api, &crd, |definition| {
        definition["status"]["conditions"] = json!([]);
    })
    .await;
    await_code(&api, &crd.path(), 404).await;
    // Settled names are not evaluated again.
    assert_eq!(
        definition(&api, &crd).await["status"]["conditions"],
        json!([])
    );

    write_status(&api, &crd, |definition| {
        definition["status"]["acceptedNames"] = json!({"plural": "", "kind": ""});
    })
    .await;
    let path = crd.definition_path();
    let back = await_condition(&api, &path, "Established", "True").await;
    assert_eq!(back["status"]["acceptedNames"], back["spec"]["names"]);
    await_code(&api, &crd.path(), 200).await;
    assert_eq!(api.get(&crd.path()).await.ok().item_names(), ["a"]);
}

#[tokio::test]
async fn established_requires_accepted_names() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    write_status(&api, &crd, |definition| {
        let conditions = definition["status"]["conditions"].as_array_mut();
        for condition in conditions.unwrap() {
            if condition["type"] == "Established" {
                condition["status"] = json!("False");
                condition["reason"] = json!("Mine");
            }
        }
    })
    .await;
    let path = crd.definition_path();
    let back = await_condition(&api, &path, "Established", "True").await;
    assert_eq!(condition(&back, "NamesAccepted"), Some("True"));
    await_code(&api, &crd.path(), 200).await;
}

#[tokio::test]
async fn released_names_are_served() {
    let api = Api::start().await;
    let owner = api
        .crd()
        .edit(|crd| crd["spec"]["names"]["shortNames"] = json!(["zz"]))
        .create()
        .await;
    let second = api.crd().named("others", "other", "Other").create().await;
    let path = second.definition_path();
    let wants = json!({"spec": {"names": {"shortNames": ["zz"]}}});
    api.merged(&path, &wants).await;
    let refused = await_condition(&api, &path, "NamesAccepted", "False").await;
    assert_eq!(condition(&refused, "Established"), Some("True"));

    // The name is not requested any more, but the condition stays until the next evaluation.
    let nothing = json!({"spec": {"names": {"shortNames": null}}});
    let settled = api.merged(&path, &nothing).await;
    assert_eq!(
        settled.at("/spec/names"),
        settled.at("/status/acceptedNames")
    );
    let settled = definition(&api, &second).await;
    assert_eq!(condition(&settled, "NamesAccepted"), Some("False"));

    api.merged(&path, &wants).await;
    api.deleted(&owner.definition_path()).await;
    let accepted = await_condition(&api, &path, "NamesAccepted", "True").await;
    assert_eq!(
        accepted["status"]["acceptedNames"]["shortNames"],
        json!(["zz"])
    );
    eventually("the short name to be served", async || {
        let list = api
            .get(&format!("/apis/{}", second.api_version()))
            .await
            .ok();
        let resources = list.json["resources"].as_array().unwrap().clone();
        resources
            .iter()
            .any(|found| found["name"] == "others" && found["shortNames"] == json!(["zz"]))
            .then_some(())
    })
    .await;
}
