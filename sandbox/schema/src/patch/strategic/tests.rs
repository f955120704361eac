//! Comparison with responses of a real server, and property tests.

use super::super::merge::tests::any_json;
use super::*;
use crate::typing::recorded;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::OnceLock;

#[derive(Deserialize)]
struct Recorded {
    documents: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    document: String,
    patch: Value,
    code: u16,
    message: Option<String>,
    result: Option<Value>,
    #[serde(default)]
    warnings: Vec<String>,
}

fn answers() -> &'static Recorded {
    static ANSWERS: OnceLock<Recorded> = OnceLock::new();
    ANSWERS.get_or_init(|| serde_json::from_str(include_str!("recorded.json")).unwrap())
}

fn type_of(document: &Value) -> TypeRef {
    let text = |field: &str| document[field].as_str().unwrap();
    recorded().root(text("apiVersion"), text("kind")).unwrap()
}

#[test]
fn results_match_a_real_server() {
    let Recorded { documents, cases } = answers();
    let mut compared = 0;
    for case in cases.iter().filter(|case| case.code == 200) {
        let document = &documents[&case.document];
        let root = type_of(document);
        let patched = apply(document, &case.patch, recorded(), root).unwrap();
        let mut checked = recorded().check(root, patched).unwrap();
        recorded().apply_defaults(root, &mut checked.object);
        let expected = match case.result.as_ref().unwrap() {
            Value::String(_) => document,
            result => result,
        };
        assert_eq!(&checked.object, expected, "{}", case.patch);
        let warnings = checked
            .unknown
            .iter()
            .map(|path| format!("unknown field {path:?}"));
        let warnings: Vec<_> = warnings.map(|text| format!("{text:?}")).collect();
        assert_eq!(warnings, case.warnings, "{}", case.patch);
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn errors_match_a_real_server() {
    let Recorded { documents, cases } = answers();
    for case in cases.iter().filter(|case| case.code != 200) {
        let document = &documents[&case.document];
        let message = case.message.as_deref().unwrap();
        let root = type_of(document);
        let result = apply(document, &case.patch, recorded(), root);
        match (case.code, result) {
            (400, Err(PatchError::BadRequest(text))) | (500, Err(PatchError::Internal(text))) => {
                assert_eq!(text, message, "{}", case.patch);
            }
            // The patch applies, but the result is invalid.
            (400 | 422, Ok(patched)) => match recorded().check(root, patched) {
                Err(mismatch) => {
                    let value = Value::from(shown(&case.patch));
                    let expected = format!(
                        " \"\" is invalid: patch: Invalid value: {value}: {}",
                        mismatch.converted
                    );
                    assert_eq!(expected, message, "{}", case.patch);
                }
                Ok(_) => assert!(!message.contains(": patch: "), "{} {message}", case.patch),
            },
            (code, other) => panic!("{}: {code} {message} != {other:?}", case.patch),
        }
    }
}

/// Patches that resemble those of clients, valid and invalid.
fn any_patch() -> impl Strategy<Value = Value> {
    let name = "one|two|new|v|w";
    let directive = prop_oneof![
        3 => Just(None),
        1 => "replace|delete|merge|other".prop_map(Some),
    ];
    let element = (name, directive, any_json()).prop_map(|(name, directive, extra)| {
        let mut element = json!({ "name": name, "image": extra });
        if let Some(directive) = directive {
            element["$patch"] = directive.into();
        }
        element
    });
    let elements = prop::collection::vec(prop_oneof![8 => element, 1 => any_json()], 0..4);
    let order = prop::collection::vec(name.prop_map(|name| json!({ "name": name })), 0..4);
    let keys = "containers|volumes|nodeSelector|tolerations|x";
    (
        keys,
        elements,
        prop::option::of(order),
        prop::option::of(any_json()),
        any_json(),
    )
        .prop_map(|(key, elements, order, retain, other)| {
            let mut spec = Map::new();
            spec.insert(key.clone(), elements.into());
            if let Some(order) = order {
                spec.insert(format!("$setElementOrder/{key}"), order.into());
            }
            if let Some(retain) = retain {
                spec.insert("$retainKeys".to_owned(), retain);
            }
            json!({ "spec": { "template": { "spec": spec }, "strategy": other } })
        })
}

proptest! {
    #[test]
    fn random_patches_never_panic(patch in any_patch(), garbage in any_json()) {
        let document = &answers().documents["Deployment"];
        let root = type_of(document);
        for patch in [patch, garbage] {
            if let Ok(patched) = apply(document, &patch, recorded(), root)
                && let Ok(mut checked) = recorded().check(root, patched)
            {
                recorded().apply_defaults(root, &mut checked.object);
            }
        }
    }
}

#[test]
fn document_as_its_own_patch_changes_nothing() {
    for document in answers().documents.values() {
        // The server does not merge the schemas of custom resources.
        if document["kind"] != "CustomResourceDefinition" {
            let patched = apply(document, document, recorded(), type_of(document)).unwrap();
            assert_eq!(&patched, document);
        }
    }
}
