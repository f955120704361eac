//! Property tests of sets, merging and comparing, on random values of a schema with all list and
//! map types.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({"type": "object", "properties": {
        "number": {"type": "integer"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {
                "name": {"type": "string"},
                "value": {"type": "integer"},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
            }},
        },
        "atomic": {"type": "array", "items": {"type": "string"}},
        "whole": {
            "type": "object", "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    custom("", Some(&schema))
});

fn typed(value: &Value) -> Typed<'_> {
    Typed {
        schema: &SCHEMA,
        of: SCHEMA.root(""),
        value,
    }
}

fn merged(live: &Value, config: &Value) -> Value {
    merge(&SCHEMA, SCHEMA.root(""), live, config)
}

fn compared(old: &Value, new: &Value) -> Comparison {
    compare(&SCHEMA, SCHEMA.root(""), old, new)
}

fn text() -> impl Strategy<Value = String> {
    "[a-c]"
}

fn map() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(text(), text(), 0..3).prop_map(|map| json!(map))
}

fn list() -> impl Strategy<Value = Value> {
    prop::collection::btree_set(text(), 0..4)
        .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|list| json!(list))
}

fn item() -> impl Strategy<Value = (Option<u8>, Option<Value>)> {
    (prop::option::of(0..2_u8), prop::option::of(map()))
}

fn keyed() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(text(), item(), 0..4)
        .prop_map(|items| {
            let items = items.into_iter().map(|(name, (value, map))| {
                let mut item = json!({"name": name});
                if let Some(value) = value {
                    item["value"] = json!(value);
                }
                if let Some(map) = map {
                    item["map"] = map;
                }
                item
            });
            items.collect::<Vec<_>>()
        })
        .prop_shuffle()
        .prop_map(|items| json!(items))
}

fn open() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), list()];
    prop::collection::btree_map(text(), prop_oneof![leaf, map()], 0..3).prop_map(|map| json!(map))
}

prop_compose! {
    fn object()(
        number in prop::option::of(0..3_u8),
        set in prop::option::of(list()),
        keyed in prop::option::of(keyed()),
        atomic in prop::option::of(list()),
        whole in prop::option::of(map()),
        map in prop::option::of(map()),
        open in prop::option::of(open()),
    ) -> Value {
        let mut object = json!({});
        let fields = [
            ("number", number.map(|it| json!(it))), ("set", set), ("keyed", keyed),
            ("atomic", atomic), ("whole", whole), ("map", map), ("open", open),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                object[name] = value;
            }
        }
        object
    }
}

proptest! {
    #[test]
    fn sets_survive_a_round_trip(value in object()) {
        let set = collect(typed(&value));
        prop_assert_eq!(FieldSet::from_json(&set.to_json()), Some(set));
    }

    #[test]
    fn sets_obey_their_algebra(a in object(), b in object()) {
        let (a, b) = (collect(typed(&a)), collect(typed(&b)));
        let both = a.intersection(&b);
        prop_assert_eq!(&both, &b.intersection(&a));
        prop_assert_eq!(a.clone().union(&b), b.clone().union(&a));
        prop_assert_eq!(a.difference(&b).union(&both), a.clone());
        prop_assert!(a.difference(&a).is_empty());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.recursive_difference(&b).difference(&a.difference(&b)).is_empty());
    }

    #[test]
    fn merging_is_idempotent(live in object(), config in object()) {
        let once = merged(&live, &config);
        prop_assert_eq!(merged(&once, &config), once);
    }

    #[test]
    fn merged_objects_contain_the_configuration(live in object(), config in object()) {
        let result = merged(&live, &config);
        let set = collect(typed(&config));
        // Empty maps and lists do not override existing ones.
        let changes = compared(&config, &result);
        prop_assert!(changes.removed.is_empty() || !changes.removed.has_children()
            || changes.removed.intersection(&set).paths().iter().all(|path| !path.contains('=')));
        prop_assert!(changes.modified.intersection(&set).paths().iter().all(|path| {
            path.contains("open") || path.contains("map")
        }), "{:?}", changes.modified.paths());
    }

    #[test]
    fn equal_objects_do_not_differ(value in object()) {
        prop_assert_eq!(compared(&value, &value), Comparison::default());
    }

    #[test]
    fn differences_are_symmetric(a in object(), b in object()) {
        let (there, back) = (compared(&a, &b), compared(&b, &a));
        prop_assert_eq!(there.added, back.removed);
        prop_assert_eq!(there.removed, back.added);
        prop_assert_eq!(there.modified, back.modified);
    }

    #[test]
    fn removed_fields_are_absent(value in object(), other in object()) {
        let set = collect(typed(&other));
        let left = remove(typed(&value), &set);
        let again = remove(typed(&left), &set);
        prop_assert_eq!(&again, &left);
        let rest = collect(typed(&left)).intersection(&set);
        // Maps and lists that became empty are null, which is a field again.
        prop_assert!(rest.paths().iter().all(|path| !path.contains("number")), "{:?}", rest.paths());
    }

    #[test]
    fn collected_sets_are_stable_under_reconciliation(value in object()) {
        let set = collect(typed(&value));
        prop_assert_eq!(reconcile(typed(&value), &set), set);
        prop_assert!(check(typed(&value)).is_empty());
    }
}

/// The expected results were recorded from a real server.
#[test]
fn items_keep_the_order_of_the_configuration() {
    for (live, config, expected) in [
        ("abc", "ca", "bca"),
        ("ab", "xb", "axb"),
        ("123", "321", "321"),
        ("abcd", "xdyb", "acxdyb"),
        ("abc", "xyz", "abcxyz"),
        ("", "ba", "ba"),
    ] {
        let set = |items: &str| {
            let items: Vec<String> = items.chars().map(String::from).collect();
            json!({"set": items})
        };
        assert_eq!(
            merged(&set(live), &set(config)),
            set(expected),
            "{live} {config}"
        );
    }
}

#[test]
fn malformed_sets_are_rejected() {
    for bad in [
        json!(1),
        json!({"x": {}}),
        json!({"f:a": 1}),
        json!({"k:x": {}}),
    ] {
        assert_eq!(FieldSet::from_json(&bad), None, "{bad}");
    }
    let mut deep = json!({});
    for _ in 0..300 {
        deep = json!({"f:a": deep});
    }
    assert_eq!(FieldSet::from_json(&deep), None);
}
