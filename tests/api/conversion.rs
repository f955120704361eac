//! Conversion webhooks of CRDs: the same objects in versions of different shapes.

use http::StatusCode;
use kopf_tests::{
    Api, ApiResponse, Crd, PatchType, eventually,
    objects::local_service,
    webhook::{Call, Verdict, Webhook, rule},
};
use serde_json::{Value, json};

/// Converts `spec.size` of v1 ("3x4") to `spec.width` and `spec.height` of v2, or back.
fn converted(object: &Value, wanted: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(wanted);
    let spec = object["spec"].clone();
    if wanted.ends_with("/v2") {
        let size = spec["size"].as_str().unwrap_or("0x0");
        let (width, height) = size.split_once('x').unwrap();
        let number = |text: &str| text.parse::<u64>().unwrap();
        object["spec"] = json!({"width": number(width), "height": number(height)});
    } else {
        object["spec"] = json!({"size": format!("{}x{}", spec["width"], spec["height"])});
    }
    object
}

fn success(call: &Call, change: impl Fn(&mut Value)) -> Verdict {
    let request = call.request();
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap();
    let objects: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut object = converted(object, wanted);
            change(&mut object);
            object
        })
        .collect();
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {
            "uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"},
        },
    });
    Verdict::Raw(StatusCode::OK, review.to_string())
}

fn size_schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "string"}}},
    }})
}

fn sides_schema() -> Value {
    let side = json!({"type": "integer"});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"width": side, "height": side}},
    }})
}

/// Creates a CRD with v1 (stored) and v2 whose objects the webhook converts.
async fn install<'a>(api: &'a Api, webhook: &Webhook) -> Crd<'a> {
    install_at(api, webhook.client_config("/convert")).await
}

async fn install_at(api: &Api, client: Value) -> Crd<'_> {
    api.crd()
        .schema(size_schema())
        .edit(|crd| {
            let versions = crd["spec"]["versions"].as_array_mut().unwrap();
            versions.push(json!({
                "name": "v2", "served": true, "storage": false,
                "schema": {"openAPIV3Schema": sides_schema()},
                "selectableFields": [{"jsonPath": ".spec.width"}],
                "additionalPrinterColumns": [
                    {"name": "Width", "type": "integer", "jsonPath": ".spec.width"},
                ],
            }));
            crd["spec"]["conversion"] = json!({
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
            });
        })
        .create()
        .await
}

fn path(api: &Api, crd: &Crd<'_>, version: &str, rest: &str) -> String {
    api.group_path(&format!("{}/{version}", crd.group()), rest)
}

async fn apply(api: &Api, path: &str, config: &Value) -> ApiResponse {
    api.patch(path, PatchType::Apply, config).await
}

fn widget(crd: &Crd<'_>, version: &str, name: &str, spec: Value) -> Value {
    let mut object = crd.object(name, spec);
    object["apiVersion"] = json!(format!("{}/{version}", crd.group()));
    object
}

#[tokio::test]
async fn objects_are_converted_behind_a_service() {
    let api = Api::start().await;
    let name = format!("converter.{}.svc", api.namespace());
    let webhook = Webhook::start_as(&name, |call| success(call, |_| {})).await;
    let service = local_service("converter");
    api.created(&api.ns_path("services"), &service).await;
    let client = webhook.client_config_by_service(&api, "converter", "/convert");
    let crd = install_at(&api, client).await;
    let object = widget(&crd, "v1", "a", json!({"size": "3x4"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let v2 = eventually("the service to be known", async || {
        let v2 = api.get(&path(&api, &crd, "v2", "widgets/a")).await;
        (v2.code == 200).then_some(v2)
    });
    assert_eq!(v2.await.json["spec"], json!({"width": 3, "height": 4}));
    assert_eq!(webhook.calls()[0].path, "/convert");
}

#[tokio::test]
async fn unknown_service_fails_the_conversion() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let client = webhook.client_config_by_service(&api, "nowhere", "/convert");
    let crd = install_at(&api, client).await;
    let object = widget(&crd, "v1", "a", json!({"size": "3x4"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let failed = api.get(&path(&api, &crd, "v2", "widgets/a")).await;
    let message = failed.expect_code(500).message().to_owned();
    let reason = "/convert?timeout=30s\": service \"nowhere\" not found";
    assert!(message.ends_with(reason), "{message}");
}

#[tokio::test]
async fn objects_are_converted_to_the_version_of_the_request() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v2", "a", json!({"width": 3, "height": 4}));
    let created = api
        .created(&path(&api, &crd, "v2", "widgets"), &object)
        .await;
    assert_eq!(created.json["spec"], json!({"width": 3, "height": 4}));
    assert_eq!(created.json["apiVersion"], format!("{}/v2", crd.group()));
    let v1 = api.get(&path(&api, &crd, "v1", "widgets/a")).await.ok();
    assert_eq!(v1.json["spec"], json!({"size": "3x4"}));
    assert_eq!(v1.uid(), created.uid());
    let v2 = api.get(&path(&api, &crd, "v2", "widgets/a")).await.ok();
    assert_eq!(v2.json["spec"], json!({"width": 3, "height": 4}));
    assert_eq!(v2.resource_version(), v1.resource_version());
    let list = api.get(&path(&api, &crd, "v2", "widgets")).await.ok();
    assert_eq!(list.items()[0]["spec"], json!({"width": 3, "height": 4}));
    let limited = api
        .get(&path(&api, &crd, "v2", "widgets?limit=1"))
        .await
        .ok();
    assert_eq!(limited.items()[0]["spec"], json!({"width": 3, "height": 4}));
}

#[tokio::test]
async fn conversion_review_has_the_object_and_the_version() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v1", "a", json!({"size": "1x2"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    api.get(&path(&api, &crd, "v2", "widgets/a")).await.ok();
    let calls = webhook.calls_to("/convert");
    let call = calls
        .iter()
        .find(|call| call.request()["desiredAPIVersion"] == format!("{}/v2", crd.group()))
        .unwrap();
    assert_eq!(call.query, "timeout=30s");
    assert_eq!(call.review["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(call.review["kind"], "ConversionReview");
    assert!(!call.request()["uid"].as_str().unwrap().is_empty());
    let sent = &call.request()["objects"][0];
    assert_eq!(sent["spec"], json!({"size": "1x2"}));
    assert_eq!(sent["metadata"]["name"], "a");
}

#[tokio::test]
async fn watches_are_converted() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let widgets = path(&api, &crd, "v1", "widgets");
    let object = widget(&crd, "v1", "a", json!({"size": "1x2"}));
    let first = api.created(&widgets, &object).await;
    let v2 = path(&api, &crd, "v2", "widgets");
    let mut watch = api.watch(&v2).await;
    let event = watch.next_change().await;
    assert_eq!(event.brief(), ("ADDED", "a"));
    assert_eq!(event.object["spec"], json!({"width": 1, "height": 2}));
    let patch = json!({"spec": {"size": "5x6"}});
    api.merged(&format!("{widgets}/a"), &patch).await;
    let event = watch.next_change().await;
    assert_eq!(event.brief(), ("MODIFIED", "a"));
    assert_eq!(event.object["spec"], json!({"width": 5, "height": 6}));
    api.deleted(&format!("{widgets}/a")).await;
    let event = watch.next_change().await;
    assert_eq!(event.brief(), ("DELETED", "a"));
    assert_eq!(event.object["spec"], json!({"width": 5, "height": 6}));
    let since = first.resource_version();
    let mut again = api.watch(&format!("{v2}?resourceVersion={since}")).await;
    let event = again.next_change().await;
    assert_eq!(event.brief(), ("MODIFIED", "a"));
    assert_eq!(event.object["spec"], json!({"width": 5, "height": 6}));
}

#[tokio::test]
async fn writes_in_another_version_are_stored_in_the_storage_version() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v1", "a", json!({"size": "1x2"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let (v1, v2) = (
        path(&api, &crd, "v1", "widgets/a"),
        path(&api, &crd, "v2", "widgets/a"),
    );
    let merged = api.merge(&v2, &json!({"spec": {"width": 7}})).await.ok();
    assert_eq!(merged.json["spec"], json!({"width": 7, "height": 2}));
    assert_eq!(api.get(&v1).await.ok().json["spec"]["size"], "7x2");
    assert_eq!(merged.at("/metadata/generation"), &json!(2));

    let patch = json!([
        {"op": "test", "path": "/spec/width", "value": 7},
        {"op": "replace", "path": "/spec/height", "value": 8},
    ]);
    api.patched(&v2, PatchType::Json, &patch).await;
    assert_eq!(api.get(&v1).await.ok().json["spec"]["size"], "7x8");

    let mut object = api.get(&v2).await.ok().json;
    object["spec"]["width"] = json!(9);
    let updated = api.put(&v2, &object).await.ok();
    assert_eq!(updated.json["spec"], json!({"width": 9, "height": 8}));
    assert_eq!(api.get(&v1).await.ok().json["spec"]["size"], "9x8");

    let dry = api
        .merge(&format!("{v2}?dryRun=All"), &json!({"spec": {"width": 1}}))
        .await
        .ok();
    assert_eq!(dry.json["spec"], json!({"width": 1, "height": 8}));
    assert_eq!(api.get(&v1).await.ok().json["spec"]["size"], "9x8");

    let invalid = json!({"spec": {"width": "wide"}});
    api.merge(&v2, &invalid).await.expect_code(422);
}

#[tokio::test]
async fn applies_in_different_versions_conflict() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let v1 = path(&api, &crd, "v1", "widgets/a");
    let v2 = path(&api, &crd, "v2", "widgets/a");
    let sized = widget(&crd, "v1", "a", json!({"size": "1x2"}));
    apply(&api, &format!("{v1}?fieldManager=sizer"), &sized)
        .await
        .expect_code(201);
    let same = widget(&crd, "v2", "a", json!({"width": 1, "height": 2}));
    let applied = apply(&api, &format!("{v2}?fieldManager=builder"), &same)
        .await
        .expect_code(200);
    assert_eq!(applied.json["spec"], json!({"width": 1, "height": 2}));
    let other = widget(&crd, "v2", "a", json!({"width": 5, "height": 2}));
    let refused = apply(&api, &format!("{v2}?fieldManager=builder"), &other)
        .await
        .expect_code(409);
    assert!(refused.text().contains("sizer"), "{}", refused.text());
    let forced = apply(
        &api,
        &format!("{v2}?fieldManager=builder&force=true"),
        &other,
    )
    .await
    .expect_code(200);
    assert_eq!(forced.json["spec"], json!({"width": 5, "height": 2}));
    let managers: Vec<&str> = forced
        .at("/metadata/managedFields")
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers, ["builder"]);
    assert_eq!(api.get(&v1).await.ok().json["spec"]["size"], "5x2");
}

#[tokio::test]
async fn selectors_match_the_converted_object() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let widgets = path(&api, &crd, "v1", "widgets");
    for (name, size) in [("a", "1x2"), ("b", "3x4")] {
        let object = widget(&crd, "v1", name, json!({"size": size}));
        api.created(&widgets, &object).await;
    }
    let v2 = path(&api, &crd, "v2", "widgets?fieldSelector=spec.width=3");
    let list = eventually("both objects to be selectable", async || {
        let list = api.get(&v2).await.ok();
        (list.items().len() == 1).then_some(list)
    })
    .await;
    assert_eq!(list.items()[0]["metadata"]["name"], "b");
    api.get(&path(
        &api,
        &crd,
        "v1",
        "widgets?fieldSelector=spec.width=3",
    ))
    .await
    .expect_code(400);
}

#[tokio::test]
async fn tables_show_the_columns_of_the_version() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v1", "a", json!({"size": "6x2"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let table = api
        .request(http::Method::GET, &path(&api, &crd, "v2", "widgets/a"))
        .header(
            "accept",
            "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
        )
        .send()
        .await
        .ok();
    assert_eq!(table.at("/rows/0/cells"), &json!(["a", 6]));
}

#[tokio::test]
async fn old_objects_stay_readable_after_a_change_of_the_storage_version() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| success(call, |_| {})).await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v1", "a", json!({"size": "1x2"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let switch = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    api.patched(&crd.definition_path(), PatchType::Json, &switch)
        .await;
    let stored = eventually("both versions to be stored", async || {
        let definition = api.get(&crd.definition_path()).await.ok();
        let stored = definition.at("/status/storedVersions").clone();
        (stored.as_array()?.len() == 2).then_some(stored)
    })
    .await;
    assert_eq!(stored, json!(["v1", "v2"]));
    let (v1, v2) = (
        path(&api, &crd, "v1", "widgets/a"),
        path(&api, &crd, "v2", "widgets/a"),
    );
    assert_eq!(api.get(&v1).await.ok().json["spec"], json!({"size": "1x2"}));
    let read = api.get(&v2).await.ok();
    assert_eq!(read.json["spec"], json!({"width": 1, "height": 2}));
    let merged = api.merge(&v1, &json!({"spec": {"size": "3x3"}})).await.ok();
    assert_eq!(merged.json["spec"], json!({"size": "3x3"}));
    let read = api.get(&v2).await.ok();
    assert_eq!(read.json["spec"], json!({"width": 3, "height": 3}));
}

#[tokio::test]
async fn conversion_changes_only_labels_and_annotations_of_metadata() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| {
        success(call, |object| {
            object["metadata"]["labels"] = json!({"converted": "yes"});
            object["metadata"]["finalizers"] = json!(["example.com/own"]);
            object["metadata"]["generation"] = json!(77);
        })
    })
    .await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v1", "a", json!({"size": "1x2"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let read = api.get(&path(&api, &crd, "v2", "widgets/a")).await.ok();
    assert_eq!(read.at("/metadata/labels"), &json!({"converted": "yes"}));
    assert_eq!(read.at("/metadata/finalizers"), &Value::Null);
    assert_eq!(read.at("/metadata/generation"), &json!(1));
}

#[tokio::test]
async fn admission_webhooks_get_the_version_of_their_rule() {
    let api = Api::start().await;
    let webhook = Webhook::start(|call| match call.path.as_str() {
        "/admit" => Verdict::allow(),
        _ => success(call, |_| {}),
    })
    .await;
    let crd = install(&api, &webhook).await;
    let rules = [rule(crd.group(), "v1", &["widgets"], &["CREATE"])];
    let hook = webhook.hook(&api, "admit.example.com", "/admit", &rules);
    webhook.validate_with(&api, "admit", &[hook]).await;
    let object = widget(&crd, "v2", "a", json!({"width": 3, "height": 4}));
    api.created(&path(&api, &crd, "v2", "widgets"), &object)
        .await;
    let calls = webhook.calls_to("/admit");
    assert_eq!(calls[0].request()["object"]["spec"], json!({"size": "3x4"}));
    assert_eq!(calls[0].request()["requestKind"]["version"], "v2");
}

/// Returns an invalid response, by the name of the object.
fn garble(call: &Call) -> Verdict {
    let request = call.request();
    let review = |response: Value| {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": response,
        });
        Verdict::Raw(StatusCode::OK, review.to_string())
    };
    let done = json!({"status": "Success"});
    let uid = &request["uid"];
    match request["objects"][0]["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
    {
        "refused" => review(json!({
            "uid": uid, "convertedObjects": [],
            "result": {"status": "Failed", "message": "no such size"},
        })),
        "silent" => review(json!({"uid": uid, "result": {"status": "Failed"}})),
        "absent" => review(Value::Null),
        "uid" => review(json!({"uid": "another", "result": done})),
        "none" => review(json!({"uid": uid, "convertedObjects": [], "result": done})),
        "version" => {
            let object = request["objects"][0].clone();
            review(json!({"uid": uid, "convertedObjects": [object], "result": done}))
        }
        "kind" => success(call, |object| object["kind"] = json!("Gadget")),
        "name" => success(call, |object| object["metadata"]["name"] = json!("x")),
        "namespace" => success(call, |object| object["metadata"]["namespace"] = json!("x")),
        "labels" => success(call, |object| {
            object["metadata"]["labels"] = json!({"a": 1});
        }),
        "label" => success(call, |object| {
            object["metadata"]["labels"] = json!({"a": "in valid"});
        }),
        "metadata" => success(call, |object| {
            object.as_object_mut().unwrap().remove("metadata");
        }),
        "error" => Verdict::Raw(StatusCode::INTERNAL_SERVER_ERROR, "boom".to_owned()),
        "empty" => Verdict::Raw(StatusCode::OK, String::new()),
        "gone" => Verdict::Raw(StatusCode::NOT_FOUND, "{}".to_owned()),
        _ => success(call, |_| {}),
    }
}

#[tokio::test]
async fn invalid_conversion_responses_are_rejected() {
    let api = Api::start().await;
    let webhook = Webhook::start(garble).await;
    let crd = install(&api, &webhook).await;
    let what = format!("conversion webhook for {}/v2, Kind=Widget", crd.group());
    let v1 = format!("{}/v1", crd.group());
    let v2 = format!("{}/v2", crd.group());
    let namespace = api.namespace();
    let cases = [
        ("refused", format!("{what} failed: no such size")),
        (
            "silent",
            format!("{what} failed: response.result.status was 'Failed', not 'Success'"),
        ),
        ("absent", format!("{what} failed: no response provided")),
        ("uid", "got \"another\"".to_owned()),
        ("none", format!("{what} returned 0 objects, expected 1")),
        (
            "version",
            format!(
                "{what} returned invalid object at index 0: invalid groupVersion (expected {v1}, received {v2})"
            ),
        ),
        (
            "kind",
            format!(
                "{what} returned invalid object at index 0: invalid kind (expected Widget, received Gadget)"
            ),
        ),
        (
            "name",
            format!("{what} returned invalid object: must have the same name: name != x"),
        ),
        (
            "namespace",
            format!(
                "{what} returned invalid object: must have the same namespace: {namespace} != x"
            ),
        ),
        (
            "labels",
            format!(
                "{what} returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object"
            ),
        ),
        (
            "label",
            format!(
                "{what} returned invalid metadata: metadata.labels: Invalid value: \"in valid\""
            ),
        ),
        (
            "metadata",
            format!("{what} returned invalid object: must have the same name: metadata != "),
        ),
        (
            "error",
            format!(
                "{what} failed: an error on the server (\"unknown\") has prevented the request from succeeding"
            ),
        ),
        (
            "empty",
            format!(
                "{what} failed: 0-length response with status code: 200 and content type: application/json"
            ),
        ),
        (
            "gone",
            format!("{what} failed: the server could not find the requested resource"),
        ),
    ];
    for (name, message) in cases {
        let object = widget(&crd, "v2", name, json!({"width": 3, "height": 4}));
        let refused = api
            .create(&path(&api, &crd, "v2", "widgets"), &object)
            .await
            .expect_code(500);
        let given = refused.json["message"].as_str().unwrap_or_default();
        assert!(given.contains(&message), "{name}: {given}");
        assert_eq!(refused.json["reason"], Value::Null, "{name}");
        api.get(&path(&api, &crd, "v1", &format!("widgets/{name}")))
            .await
            .expect_code(404);
    }
}

#[tokio::test]
async fn failing_conversion_webhook_does_not_affect_the_storage_version() {
    let api = Api::start().await;
    let webhook = Webhook::start(garble).await;
    let crd = install(&api, &webhook).await;
    let object = widget(&crd, "v1", "refused", json!({"size": "1x2"}));
    api.created(&path(&api, &crd, "v1", "widgets"), &object)
        .await;
    let v2 = path(&api, &crd, "v2", "widgets/refused");
    let message = format!(
        "conversion webhook for {}/v1, Kind=Widget failed: no such size",
        crd.group()
    );
    for refused in [
        api.get(&v2).await,
        api.merge(&v2, &json!({"spec": {"width": 1}})).await,
        api.delete(&v2).await,
    ] {
        assert_eq!(refused.code, 500, "{}", refused.text());
        assert_eq!(refused.json["message"], message);
    }
    let v1 = path(&api, &crd, "v1", "widgets/refused");
    api.merged(&v1, &json!({"spec": {"size": "5x5"}})).await;
    api.deleted(&v1).await;
    api.get(&v1).await.expect_code(404);
}
