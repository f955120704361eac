//! CRDs: validation, names, and deletion.

use kopf_tests::{Api, Crd, eventually};
use serde_json::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the status and the reason of a condition.
fn condition(crd: &Value, name: &str) -> (String, String) {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions
        .into_iter()
        .find(|condition| condition["type"] == name);
    let text = |field: &str| {
        found
            .map_or("", |c| c[field].as_str().unwrap_or_default())
            .to_owned()
    };
    (text("status"), text("reason"))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn crd_is_accepted_and_established() {
    let api = Api::start().await;
    let crd = api
        .crd()
        .edit(|crd| {
            crd["spec"]["names"] = json!({
                "plural": "widgets", "kind": "Widget", "shortNames": ["wdg"], "categories": ["all"],
            });
        })
        .create()
        .await;
    let definition = api.found(&crd.definition_path()).await;
    // Omitted names are defaulted.
    let names = json!({
        "plural": "widgets",
        "singular": "widget",
        "shortNames": ["wdg"],
        "kind": "Widget",
        "listKind": "WidgetList",
        "categories": ["all"],
    });
    assert_eq!(definition.at("/spec/names"), &names);
    assert_eq!(
        definition.at("/spec/conversion"),
        &json!({"strategy": "None"})
    );
    assert_eq!(definition.at("/status/acceptedNames"), &names);
    assert_eq!(definition.at("/status/storedVersions"), &json!(["v1"]));
    assert_eq!(
        condition(&definition.json, "NamesAccepted"),
        pair("True", "NoConflicts")
    );
    assert_eq!(
        condition(&definition.json, "Established"),
        pair("True", "InitialNamesAccepted")
    );
    assert_eq!(definition.generation(), 1, "the status is excluded");
}

type Change = fn(&mut Value);

fn schema(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[tokio::test]
async fn invalid_crds_are_rejected() {
    let api = Api::start().await;
    let cases: &[(&str, &str, Change)] = &[
        ("FieldValueInvalid", "metadata.name", |crd| {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default();
            crd["metadata"]["name"] = json!(format!("x{name}"));
        }),
        ("FieldValueNotSupported", "spec.scope", |crd| {
            crd["spec"]["scope"] = json!("Galaxy");
        }),
        ("FieldValueInvalid", "spec.versions", |crd| {
            crd["spec"]["versions"][0]["storage"] = json!(false);
        }),
        ("FieldValueInvalid", "spec.versions", |crd| {
            let mut second = crd["spec"]["versions"][0].clone();
            second["name"] = json!("v2");
            crd["spec"]["versions"].as_array_mut().unwrap().push(second);
        }),
        ("FieldValueInvalid", "spec.versions[0].name", |crd| {
            crd["spec"]["versions"][0]["name"] = json!("V1!");
        }),
        (
            "FieldValueRequired",
            "spec.versions[0].schema.openAPIV3Schema",
            |crd| {
                crd["spec"]["versions"][0]
                    .as_object_mut()
                    .unwrap()
                    .remove("schema");
            },
        ),
        ("FieldValueInvalid", "spec.preserveUnknownFields", |crd| {
            crd["spec"]["preserveUnknownFields"] = json!(true);
        }),
        (
            "FieldValueRequired",
            "spec.validation.openAPIV3Schema.type",
            |crd| {
                schema(crd).as_object_mut().unwrap().remove("type");
            },
        ),
        (
            "FieldValueRequired",
            "spec.validation.openAPIV3Schema.properties[spec].type",
            |crd| {
                schema(crd)["properties"]["spec"] =
                    json!({"properties": {"a": {"type": "string"}}});
            },
        ),
        (
            "FieldValueNotSupported",
            "spec.validation.openAPIV3Schema.properties[a].type",
            |crd| {
                schema(crd)["properties"]["a"] = json!({"type": "text"});
            },
        ),
        (
            "FieldValueRequired",
            "spec.validation.openAPIV3Schema.properties[a].items",
            |crd| {
                schema(crd)["properties"]["a"] = json!({"type": "array"});
            },
        ),
        (
            "FieldValueInvalid",
            "spec.validation.openAPIV3Schema.properties[a].pattern",
            |crd| {
                schema(crd)["properties"]["a"] = json!({"type": "string", "pattern": "["});
            },
        ),
        (
            "FieldValueTypeInvalid",
            "spec.validation.openAPIV3Schema.properties[a].default",
            |crd| {
                schema(crd)["properties"]["a"] = json!({"type": "string", "default": 5});
            },
        ),
    ];
    for (reason, field, change) in cases {
        let builder = api.crd().edit(change);
        let refused = api.create(CRDS, builder.definition()).await;
        let refused = refused.expect_failure(422, "Invalid");
        assert!(
            refused.causes().contains(&(reason, field)),
            "{}",
            refused.text()
        );
        assert_eq!(refused.details()["group"], "apiextensions.k8s.io");
        assert_eq!(refused.details()["kind"], "CustomResourceDefinition");
    }
    let list = api.get(CRDS).await.ok();
    assert!(!list.text().contains(&api.group()), "nothing is stored");
}

#[tokio::test]
async fn protected_groups_require_an_approval() {
    let api = Api::start().await;
    let group = format!("{}.k8s.io", api.unique("g"));
    let builder = api.crd().edit(|crd| {
        crd["metadata"]["name"] = json!(format!("widgets.{group}"));
        crd["spec"]["group"] = json!(group);
    });
    let refused = api
        .create(CRDS, builder.definition())
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [(
            "FieldValueRequired",
            "metadata.annotations[api-approved.kubernetes.io]"
        )]
    );
}

#[tokio::test]
async fn scope_and_group_are_immutable() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let scope = api
        .merge(
            &crd.definition_path(),
            &json!({"spec": {"scope": "Cluster"}}),
        )
        .await;
    let scope = scope.expect_failure(422, "Invalid");
    assert!(
        scope
            .causes()
            .contains(&("FieldValueInvalid", "spec.scope")),
        "{}",
        scope.text()
    );
    let group = json!({"spec": {"group": "other.example.com"}});
    let group = api
        .merge(&crd.definition_path(), &group)
        .await
        .expect_failure(422, "Invalid");
    assert!(
        group
            .causes()
            .contains(&("FieldValueInvalid", "spec.group")),
        "{}",
        group.text()
    );
}

async fn await_names(api: &Api, path: &str, status: &str) -> Value {
    eventually("the names to be judged", async || {
        let definition = api.found(path).await.json;
        (condition(&definition, "NamesAccepted").0 == status).then_some(definition)
    })
    .await
}

#[tokio::test]
async fn conflicting_names_are_accepted_after_they_are_released() {
    let api = Api::start().await;
    let first = api.crd().create().await;
    // Another plural, and therefore another CRD, but the same kind.
    let second = api.crd().named("others", "other", "Widget");
    let created = api.created(CRDS, second.definition()).await;
    let path = format!("{CRDS}/{}", created.name());
    api.delete_at_end(path.clone());

    let refused = await_names(&api, &path, "False").await;
    let reason = condition(&refused, "NamesAccepted").1;
    assert!(
        ["KindConflict", "ListKindConflict"].contains(&reason.as_str()),
        "{reason}"
    );
    assert_eq!(
        condition(&refused, "Established"),
        pair("False", "NotAccepted")
    );
    assert_eq!(refused["status"]["acceptedNames"]["plural"], "others");
    assert_ne!(refused["status"]["acceptedNames"]["kind"], "Widget");
    let others = format!("/apis/{}/others", first.api_version());
    api.get(&others).await.expect_code(404);
    api.found(&first.path()).await;

    api.delete(&first.definition_path()).await.ok();
    let accepted = await_names(&api, &path, "True").await;
    assert_eq!(accepted["status"]["acceptedNames"]["kind"], "Widget");
    eventually("the second definition to be served", async || {
        (api.get(&others).await.code == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn used_short_name_is_a_conflict() {
    let api = Api::start().await;
    api.crd().create().await;
    let second = api
        .crd()
        .named("others", "other", "Other")
        .edit(|crd| crd["spec"]["names"]["shortNames"] = json!(["widget"]));
    let created = api.created(CRDS, second.definition()).await;
    let path = format!("{CRDS}/{}", created.name());
    api.delete_at_end(path.clone());
    let refused = await_names(&api, &path, "False").await;
    assert_eq!(
        condition(&refused, "NamesAccepted"),
        pair("False", "ShortNamesConflict")
    );
    assert_eq!(
        refused["status"]["acceptedNames"]["kind"], "Other",
        "the others are its own"
    );
    assert_eq!(
        refused["status"]["acceptedNames"]["shortNames"],
        Value::Null
    );
}

async fn gone(api: &Api, crd: &Crd<'_>) {
    eventually("the CRD to be deleted", async || {
        (api.get(&crd.definition_path()).await.code == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn deletion_of_a_crd_deletes_its_objects() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    crd.created("a", json!({})).await;
    let mut watch = api.watch(&crd.path()).await;
    assert_eq!(watch.next_change().await.brief(), ("ADDED", "a"));

    let deleted = api.deleted(&crd.definition_path()).await;
    assert_eq!(deleted.json["kind"], "CustomResourceDefinition");
    assert!(deleted.at("/metadata/deletionTimestamp").is_string());
    assert_eq!(
        deleted.at("/metadata/finalizers"),
        &json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert_eq!(watch.next_change().await.brief(), ("DELETED", "a"));
    gone(&api, &crd).await;
    eventually("the objects to be served no more", async || {
        (api.get(&crd.path()).await.code == 404).then_some(())
    })
    .await;
    assert!(
        watch.closed().await.is_empty(),
        "the watch ends without a further word"
    );

    let again = api.crd().create().await;
    assert!(
        api.get(&again.path()).await.ok().items().is_empty(),
        "it starts again"
    );
    again.created("a", json!({})).await;
}

#[tokio::test]
async fn finalizers_of_objects_block_the_deletion_of_their_crd() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let mut held = crd.object("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.created(&crd.path(), &held).await;
    crd.created("free", json!({})).await;
    api.deleted(&crd.definition_path()).await;

    eventually("the objects to be deleted", async || {
        let list = api.found(&crd.path()).await;
        let marked = list
            .items()
            .iter()
            .all(|i| i["metadata"]["deletionTimestamp"].is_string());
        (list.item_names() == ["held"] && marked).then_some(())
    })
    .await;
    let definition = api.found(&crd.definition_path()).await;
    assert_eq!(condition(&definition.json, "Terminating").0, "True");
    let refused = api.create(&crd.path(), &crd.object("new", json!({}))).await;
    let refused = refused.expect_failure(403, "Forbidden");
    assert_eq!(
        refused.details(),
        &json!({"name": "new", "group": crd.group(), "kind": "widgets"})
    );
    let released = json!({"metadata": {"finalizers": null}});
    crd.merged("held", &released).await;
    gone(&api, &crd).await;
}
