//! Filters of handlers, and objects without matching handlers.

use kopf_core::filter::{MetaCriterion, ValueCriterion, value_fn};
use serde_json::{Value, json};

use crate::front::{Declaration, on};
use crate::stage::{FINALIZER, everywhere, finalizers, is_handled, last_handled};

fn literal(text: &str) -> MetaCriterion {
    MetaCriterion::Literal(text.to_owned())
}

fn callback(expected: Value) -> ValueCriterion {
    ValueCriterion::Callback(value_fn(move |value: &Value, _, _| Ok(*value == expected)))
}

fn meta_callback(expected: Value) -> MetaCriterion {
    MetaCriterion::Callback(value_fn(move |value: &Value, _, _| Ok(*value == expected)))
}

/// Returns criteria for a label or an annotation `k`, by the ids of handlers.
fn criteria() -> [(&'static str, MetaCriterion); 5] {
    [
        ("equal", literal("v")),
        ("present", MetaCriterion::Present),
        ("absent", MetaCriterion::Absent),
        ("called", meta_callback(json!("v"))),
        ("called_absent", meta_callback(Value::Null)),
    ]
}

#[test]
fn labels_and_annotations_are_filtered_by_literals_presence_absence_and_functions() {
    for part in ["labels", "annotations"] {
        everywhere(async |stage| {
            let handlers = criteria().map(|(id, criterion)| match part {
                "labels" => on::create(id).label("k", criterion),
                _ => on::create(id).annotation("k", criterion),
            });
            let _operator = stage.run(handlers).await;
            for (name, meta, expected) in [
                (
                    "same",
                    json!({"k": "v"}),
                    vec!["called", "equal", "present"],
                ),
                ("other", json!({"k": "w"}), vec!["present"]),
                ("empty", json!({"k": ""}), vec!["present"]),
                (
                    "without",
                    json!({"l": "v"}),
                    vec!["absent", "called_absent"],
                ),
                ("nothing", json!({}), vec!["absent", "called_absent"]),
            ] {
                let metadata = json!({part: meta});
                stage.create_with(name, json!({"metadata": metadata})).await;
                stage.until_handled(name).await;
                let entries = stage.journal.all().into_iter();
                let entries = entries.filter(|entry| entry.object == name);
                let mut ids: Vec<_> = entries.map(|entry| entry.id).collect();
                ids.sort();
                assert_eq!(ids, expected, "{part}: {name}");
            }
        });
    }
}

#[test]
fn all_filters_of_a_handler_must_match() {
    everywhere(async |stage| {
        let picky = on::create("picky")
            .label("a", literal("1"))
            .label("b", MetaCriterion::Present)
            .annotation("c", MetaCriterion::Absent)
            .field("spec.field")
            .value(ValueCriterion::Literal(json!(7)))
            .when(|cause| {
                cause
                    .body
                    .name()
                    .is_some_and(|name| name.starts_with("good"))
            });
        let _operator = stage.run([picky, on::create("any")]).await;
        let labels = json!({"a": "1", "b": "2"});
        let good = json!({"metadata": {"labels": labels}, "spec": {"field": 7}});
        for (name, change) in [
            ("good", json!({})),
            ("bad-name", json!({})),
            (
                "good-but-label",
                json!({"metadata": {"labels": {"a": "1"}}}),
            ),
            (
                "good-but-annotation",
                json!({"metadata": {"labels": labels, "annotations": {"c": "3"}}}),
            ),
            ("good-but-value", json!({"spec": {"field": 8}})),
        ] {
            let mut parts = good.clone();
            for (key, value) in change.as_object().unwrap() {
                parts[key] = value.clone();
            }
            stage.create_with(name, parts).await;
            stage.until_handled(name).await;
        }
        assert_eq!(stage.journal.only("picky/spec.field").object, "good");
        assert_eq!(stage.journal.count("any"), 5);
    });
}

/// Returns criteria for the value of a field.
fn values(handler: fn(&str) -> Declaration) -> [Declaration; 6] {
    [
        handler("unset").field("spec.f"),
        handler("equal")
            .field("spec.f")
            .value(ValueCriterion::Literal(json!({"a": [1]}))),
        handler("present")
            .field("spec.f")
            .value(ValueCriterion::Present),
        handler("absent")
            .field("spec.f")
            .value(ValueCriterion::Absent),
        handler("called")
            .field("spec.f")
            .value(callback(json!({"a": [1]}))),
        handler("called_absent")
            .field("spec.f")
            .value(callback(Value::Null)),
    ]
}

#[test]
fn value_filters_match_the_new_or_the_old_value() {
    everywhere(async |stage| {
        let mut handlers = values(on::create).to_vec();
        handlers.push(on::create("any"));
        handlers.extend(values(on::update));
        let _operator = stage.run(handlers).await;
        // On creation, the old value is absent.
        for (name, spec, expected) in [
            (
                "same",
                json!({"f": {"a": [1]}}),
                vec![
                    "absent",
                    "called",
                    "called_absent",
                    "equal",
                    "present",
                    "unset",
                ],
            ),
            (
                "other",
                json!({"f": 0}),
                vec!["absent", "called_absent", "present", "unset"],
            ),
            ("without", json!({}), vec!["absent", "called_absent"]),
        ] {
            stage.journal.clear();
            stage.create(name, spec).await;
            stage.until_handled(name).await;
            stage.settled().await;
            let mut ids = stage.journal.ids();
            ids.retain(|id| id != "any");
            ids.sort();
            let expected: Vec<_> = expected.iter().map(|id| format!("{id}/spec.f")).collect();
            assert_eq!(ids, expected, "creation of {name}");
        }
        // On updates, the filter matches either value, and the field must have changed.
        for (name, value, expected) in [
            (
                "same",
                json!({"a": [2]}),
                vec!["called", "equal", "present", "unset"],
            ),
            (
                "other",
                Value::Null,
                vec!["absent", "called_absent", "present", "unset"],
            ),
            (
                "without",
                json!({"a": [1]}),
                vec![
                    "absent",
                    "called",
                    "called_absent",
                    "equal",
                    "present",
                    "unset",
                ],
            ),
        ] {
            stage.journal.clear();
            // Replaces the whole object: a merge patch would merge nested objects.
            stage
                .merge(name, json!({"spec": {"f": value, "other": 1}}))
                .await;
            stage.until_handled(name).await;
            stage.settled().await;
            let mut ids = stage.journal.ids();
            ids.sort();
            let expected: Vec<_> = expected.iter().map(|id| format!("{id}/spec.f")).collect();
            assert_eq!(ids, expected, "update of {name}");
        }
        stage.journal.clear();
        stage.merge("same", json!({"spec": {"other": 2}})).await;
        stage.until_settled("same").await;
        assert_eq!(stage.journal.ids(), [""; 0], "the field has not changed");
    });
}

#[test]
fn old_and_new_values_are_filtered_separately() {
    everywhere(async |stage| {
        let handler = |id: &str, old: Option<ValueCriterion>, new: Option<ValueCriterion>| {
            let mut handler = on::update(id).field("spec.f");
            if let Some(old) = old {
                handler = handler.old(old);
            }
            if let Some(new) = new {
                handler = handler.new_value(new);
            }
            handler
        };
        let one = || Some(ValueCriterion::Literal(json!(1)));
        let two = || Some(ValueCriterion::Literal(json!(2)));
        let _operator = stage
            .run([
                // Without this handler, no handler matches an object without the field.
                on::create("created"),
                handler("any", None, None),
                handler("from_one", one(), None),
                handler("to_two", None, two()),
                handler("one_to_two", one(), two()),
                handler("two_to_one", two(), one()),
                handler(
                    "appears",
                    Some(ValueCriterion::Absent),
                    Some(ValueCriterion::Present),
                ),
                handler(
                    "vanishes",
                    Some(ValueCriterion::Present),
                    Some(ValueCriterion::Absent),
                ),
                handler("called", Some(callback(json!(1))), Some(callback(json!(2)))),
            ])
            .await;
        stage.create_handled("obj", json!({})).await;
        for (value, expected) in [
            (json!(1), vec!["any", "appears"]),
            (
                json!(2),
                vec!["any", "called", "from_one", "one_to_two", "to_two"],
            ),
            (json!(1), vec!["any", "two_to_one"]),
            (Value::Null, vec!["any", "from_one", "vanishes"]),
        ] {
            stage.journal.clear();
            stage.merge("obj", json!({"spec": {"f": value}})).await;
            stage.until_settled("obj").await;
            let mut ids = stage.journal.ids();
            ids.sort();
            let expected: Vec<_> = expected.iter().map(|id| format!("{id}/spec.f")).collect();
            assert_eq!(ids, expected, "to {value}");
        }
    });
}

#[test]
fn object_without_matching_handlers_is_ignored() {
    everywhere(async |stage| {
        let go = |handler: Declaration| handler.label("go", literal("yes"));
        let handlers = [
            go(on::create("created")),
            go(on::update("updated")),
            go(on::delete("deleted")),
            go(on::resume("resumed")),
        ];
        let operator = stage.run(handlers).await;
        let made = stage.create("obj", json!({"field": 1})).await;
        stage
            .create_with("other", json!({"metadata": {"labels": {"go": "yes"}}}))
            .await;
        stage.until_handled("other").await;
        operator.restart().await;
        stage.settled().await;
        assert_eq!(stage.get("obj").await, made);
        assert_eq!(stage.log.of("obj"), []);
        assert_eq!(stage.writes_to("obj"), []);

        // The first match is a creation.
        stage.journal.clear();
        stage
            .merge("obj", json!({"metadata": {"labels": {"go": "yes"}}}))
            .await;
        let object = stage.until_settled("obj").await;
        assert_eq!(finalizers(&object), [FINALIZER]);
        let ids: Vec<_> = stage.journal.reasons();
        assert_eq!(ids, [("created".to_owned(), "create")]);
    });
}

#[test]
fn object_that_no_longer_matches_keeps_its_diff_base_and_loses_its_finalizer() {
    everywhere(async |stage| {
        let go = |handler: Declaration| handler.label("go", literal("yes"));
        let handlers = [
            go(on::create("created")),
            go(on::update("updated")),
            go(on::delete("deleted")),
        ];
        let _operator = stage.run(handlers).await;
        let metadata = json!({"labels": {"go": "yes"}});
        stage
            .create_with("obj", json!({"metadata": metadata, "spec": {"field": 1}}))
            .await;
        stage.until_handled("obj").await;
        stage
            .merge("obj", json!({"metadata": {"labels": null}}))
            .await;
        let object = stage
            .until("obj", "released", |object| finalizers(object).is_empty())
            .await;
        assert_eq!(last_handled(&object)["metadata"]["labels"]["go"], "yes");
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);

        let again = json!({"metadata": {"labels": {"go": "yes"}}});
        stage.merge("obj", again).await;
        stage
            .until("obj", "handled", |object| {
                is_handled(object) && finalizers(object) == [FINALIZER]
            })
            .await;
        stage.settled().await;
        assert_eq!(
            stage.journal.only("updated").diff,
            json!([["change", ["spec", "field"], 1, 2]])
        );
    });
}

#[test]
fn filters_receive_the_param_of_their_handler_and_a_logger() {
    everywhere(async |stage| {
        let filter: fn(&str, &kopf_core::cause::Cause) -> bool =
            |param, cause| cause.body.spec()["size"] == param;
        let handlers =
            ["small", "large"].map(|size| on::create(size).param(size).when_param(filter));
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({"size": "large"})).await;
        assert_eq!(stage.journal.ids(), ["large"]);
        assert!(stage.log.has("obj", "The filter has the param small."));
        assert!(stage.posts().is_empty());
    });
}
