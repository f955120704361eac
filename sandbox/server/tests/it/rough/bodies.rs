//! Bodies of requests: valid documents, mutated ones, and arbitrary bytes.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Values that are invalid for most fields.
pub(super) fn odd_values() -> impl Strategy<Value = Value> + Clone {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({ "a": [inner] }));
    prop::sample::select(vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(3.5),
        json!(1e308),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("x"),
        json!("\u{0}"),
        json!("Großbuchstaben 🦀"),
        json!("a".repeat(300)),
        json!("a".repeat(70_000)),
        json!("2026-99-99T00:00:00Z"),
        json!("1e999999999999"),
        json!("-12345678901234567890.5Ki"),
        json!([]),
        json!({}),
        json!([[]]),
        json!([null]),
        json!({ "": "" }),
        json!({ "a/b/c": 1 }),
        json!({ "$patch": "delete" }),
        json!({ "$patch": "bogus" }),
        json!({ "$setElementOrder/containers": [{ "name": "x" }, 1] }),
        json!({ "$retainKeys": [1] }),
        nested(20),
        nested(60),
    ])
}

/// Valid bodies, to be mutated.
pub(super) fn templates() -> impl Strategy<Value = Value> + Clone {
    let container = json!({
        "name": "c", "image": "i", "ports": [{ "containerPort": 80 }],
        "resources": { "limits": { "cpu": "100m", "memory": "1Gi" } },
    });
    let pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 5 });
    let metadata = json!({
        "name": "new", "labels": { "a": "b" }, "annotations": { "c": "d" },
        "finalizers": ["test.dev/x"], "ownerReferences": [
            { "apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": "x" },
        ],
    });
    let replaced = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "value": "2" },
        "metadata": { "name": "one", "labels": { "x": "y" } },
    });
    prop::sample::select(vec![
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {} }),
        replaced,
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "a": "b" } },
                "template": { "metadata": { "labels": { "a": "b" } }, "spec": pod },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata,
            "data": { "k": "eA==" }, "type": "Opaque",
        }),
        json!({ "apiVersion": "test.dev/v1", "kind": "Thing", "metadata": metadata, "spec": {} }),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }),
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "one" },
            "spec": { "replicas": 3 },
        }),
        crate::support::definition("others", "Other"),
        json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground", "preconditions": { "uid": "x" }, "dryRun": ["All"],
        }),
        json!([
            { "op": "test", "path": "/metadata/name", "value": "one" },
            { "op": "add", "path": "/data/new", "value": "x" },
            { "op": "replace", "path": "/data/value", "value": "x" },
            { "op": "copy", "from": "/data", "path": "/metadata/labels" },
            { "op": "move", "from": "/metadata/labels", "path": "/metadata/annotations" },
            { "op": "remove", "path": "/metadata/annotations/new" },
        ]),
        json!([
            { "op": "add", "path": "/data/a~1b", "value": "x" },
            { "op": "move", "from": "/data", "path": "/data/x" },
            { "op": "remove", "path": "/spec/containers/0" },
        ]),
        json!({ "metadata": { "labels": { "x": null } }, "data": { "value": "3" } }),
        json!({ "spec": { "template": { "spec": {
            "$setElementOrder/containers": [{ "name": "d" }, { "name": "c" }],
            "containers": [
                { "name": "d", "image": "i" },
                { "name": "c", "ports": [{ "containerPort": 1, "$patch": "delete" }] },
            ],
        } } } }),
    ])
}

/// Collects the pointers of all values in a document.
fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(inner, &format!("{here}/{key}"), all);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{here}/{index}"), all);
            }
        }
        _ => {}
    }
}

pub(super) fn spoiled(mut document: Value, changes: Vec<(prop::sample::Index, Value)>) -> String {
    for (place, new) in changes {
        let mut all = Vec::new();
        pointers(&document, "", &mut all);
        let place: &String = place.get(&all);
        if let Some(value) = document.pointer_mut(place) {
            *value = new;
        }
    }
    document.to_string()
}

/// Malformed documents, and expensive ones.
fn strange_texts() -> impl Strategy<Value = Vec<u8>> {
    let bomb = (0..12).fold("a0: &a0 [x, x]\n".to_owned(), |text, level| {
        let aliases = format!("*a{level}, ").repeat(9);
        format!("{text}a{}: &a{} [{aliases}]\n", level + 1, level + 1)
    });
    let mut all: Vec<Vec<u8>> = vec![
        "[".repeat(5000).into(),
        "{\"a\":".repeat(20_000).into(),
        format!("{}1{}", "[".repeat(200), "]".repeat(200)).into(),
        format!("{}: 1", "a: ".repeat(3000)).into(),
        "- ".repeat(20_000).into(),
        bomb.into(),
        format!("{{\"data\":{}}}", "9".repeat(400)).into(),
        b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        vec![0; 100],
    ];
    for text in [
        "",
        " ",
        "null",
        "1e400",
        "-",
        "nul",
        "{",
        "}",
        "[]",
        "\"",
        "{}{}",
        "{,}",
        "{\"a\":1,}",
        "{\"kind\":\"ConfigMap\",\"kind\":\"Pod\",\"metadata\":{},\"metadata\":[]}",
        "{\"apiVersion\":1,\"kind\":[]}",
        "\"\\ud800\"",
        "%YAML 9.9\n---\n",
        "&a [*a]",
        "*a",
        "!!binary x",
        "? [a, b]\n: c",
        "a: b\n a: b",
        "\ta: b",
        "---\n---\n...",
        "<<: *x",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\n---\nkind: Pod",
        "kind: !Tag ConfigMap",
        "a: 0o777\nb: .inf\nc: .nan\nd: 2026-01-01",
        "a: |\n  x\n b",
        "@",
        "`",
    ] {
        all.push(text.into());
    }
    prop::sample::select(all)
}

pub(super) fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), odd_values());
    let changes = prop::collection::vec(change, 0..4);
    let document = (templates(), changes).prop_map(|(good, changes)| spoiled(good, changes));
    let broken = (document.clone(), any::<prop::sample::Index>(), any::<u8>());
    let broken = broken.prop_map(|(text, place, byte)| {
        let mut bytes = text.into_bytes();
        let place = place.index(bytes.len().max(1));
        if byte < 100 {
            bytes.truncate(place);
        } else if let Some(there) = bytes.get_mut(place) {
            *there = byte;
        }
        bytes
    });
    prop_oneof![
        5 => document.prop_map(String::into_bytes),
        2 => broken,
        2 => strange_texts(),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}
