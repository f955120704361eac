//! Shards: lists and watches of objects whose uid or namespace hashes into a range (Kubernetes
//! 1.36).

use kopf_tests::{Api, Watch, objects::config_map};
use serde_json::{Value, json};

const END: &str = "0x10000000000000000";
const MIDDLE: &str = "0x8000000000000000";
const START: &str = "0x0000000000000000";

fn range(field: &str, start: &str, end: &str) -> String {
    format!("shardRange(object.metadata.{field}, '{start}', '{end}')")
}

fn query(path: &str, selector: &str) -> String {
    let selector = selector
        .replace(' ', "%20")
        .replace('\'', "%27")
        .replace('|', "%7C");
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}shardSelector={selector}")
}

/// Returns the 64-bit FNV-1a hash, which defines shards.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn is_low(object: &Value) -> bool {
    hash(object["metadata"]["uid"].as_str().unwrap()) < 1 << 63
}

/// Creates objects until there are some in both halves.
async fn fill(api: &Api, path: &str, object: impl Fn(&str) -> Value) -> Vec<Value> {
    let mut created = Vec::new();
    for number in 0..16 {
        let response = api.create(path, &object(&format!("o{number:02}"))).await;
        created.push(response.expect_code(201).json);
    }
    assert!(created.iter().any(is_low) && !created.iter().all(is_low));
    created
}

fn names(objects: &[Value], wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    let names = objects.iter().filter(|object| wanted(object));
    names
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .filter(|name| name.starts_with('o'))
        .collect()
}

#[tokio::test]
async fn lists_have_the_objects_of_the_shard() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let created = fill(&api, &maps, |name| config_map(name, json!({}))).await;
    let (low, high) = (range("uid", START, MIDDLE), range("uid", MIDDLE, END));
    let first = api.get(&query(&maps, &low)).await.ok();
    assert_eq!(names(first.items(), |_| true), names(&created, is_low));
    assert_eq!(first.at("/metadata/shardInfo"), &json!({"selector": low}));
    let second = api.get(&query(&maps, &high)).await.ok();
    let not_low = |object: &Value| !is_low(object);
    assert_eq!(names(second.items(), |_| true), names(&created, not_low));
    let both = api
        .get(&query(&maps, &format!("{low}||({high})")))
        .await
        .ok();
    assert_eq!(names(both.items(), |_| true).len(), created.len());
    assert_eq!(
        both.at("/metadata/shardInfo/selector"),
        &json!(format!("{low} || {high}"))
    );
    let whole = api.get(&maps).await.ok();
    assert_eq!(whole.at("/metadata/shardInfo"), &Value::Null);
}

#[tokio::test]
async fn shards_can_be_combined_with_labels_and_pages() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let created = fill(&api, &maps, |name| {
        let mut object = config_map(name, json!({}));
        let parity = if name.ends_with(['0', '2', '4', '6', '8']) {
            "even"
        } else {
            "odd"
        };
        object["metadata"]["labels"] = json!({"parity": parity});
        object
    })
    .await;
    let low = range("uid", START, MIDDLE);
    let even = |object: &Value| object["metadata"]["labels"]["parity"] == "even";
    let path = query(&format!("{maps}?labelSelector=parity=even"), &low);
    let list = api.get(&path).await.ok();
    let expected = names(&created, |object| even(object) && is_low(object));
    assert_eq!(names(list.items(), |_| true), expected);

    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let path = query(&format!("{maps}?limit=3&continue={token}"), &low);
        let page = api.get(&path).await.ok();
        seen.extend(names(page.items(), |_| true));
        match page.at("/metadata/continue").as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => break,
        }
    }
    assert_eq!(seen, names(&created, is_low));
}

async fn next_names(watch: &mut Watch, count: usize) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let event = watch.next_change().await;
        let (kind, name) = event.brief();
        if name.starts_with('o') {
            seen.push((kind.to_owned(), name.to_owned()));
        }
    }
    seen
}

#[tokio::test]
async fn watches_have_the_changes_of_the_shard() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let version = api.get(&maps).await.ok().resource_version();
    let low = range("uid", START, MIDDLE);
    let path = query(&format!("{maps}?resourceVersion={version}"), &low);
    let mut watch = api.watch(&path).await;
    let created = fill(&api, &maps, |name| config_map(name, json!({}))).await;
    for object in &created {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{maps}/{name}");
        let patch = json!({"data": {"a": "b"}});
        api.merged(&path, &patch).await;
        api.deleted(&path).await;
    }
    let expected = names(&created, is_low);
    let seen = next_names(&mut watch, 3 * expected.len()).await;
    for name in expected {
        let of_name = seen.iter().filter(|(_, seen)| *seen == name);
        let kinds: Vec<&str> = of_name.map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    }
}

#[tokio::test]
async fn custom_resources_and_namespaces_have_shards() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let created = fill(&api, &crd.path(), |name| crd.object(name, json!({}))).await;
    let low = range("uid", START, MIDDLE);
    let list = api.get(&query(&crd.path(), &low)).await.ok();
    assert_eq!(names(list.items(), |_| true), names(&created, is_low));
    // Lists of custom resources do not contain their shard.
    assert_eq!(list.at("/metadata/shardInfo"), &Value::Null);

    let of_namespace = hash(api.namespace());
    let (start, end) = if of_namespace < 1 << 63 {
        (START, MIDDLE)
    } else {
        (MIDDLE, END)
    };
    let list = api
        .get(&query(&crd.path(), &range("namespace", start, end)))
        .await
        .ok();
    assert_eq!(list.items().len(), created.len());
}

#[tokio::test]
async fn invalid_shard_selectors_are_rejected() {
    let api = Api::start().await;
    let maps = api.ns_path("configmaps");
    let cases = [
        ("%20".to_owned(), "empty shard selector is not allowed"),
        (
            "hash(object.metadata.uid)".to_owned(),
            "unsupported function \"hash\"; only shardRange() and || are allowed",
        ),
        (
            range("name", START, END),
            "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (
            range("uid", START, "0x80"),
            "hexEnd must be a 0x-prefixed 16-digit hex value, got \"0x80\" (did you mean \"0x0000000000000080\"?)",
        ),
        (
            range("uid", MIDDLE, START),
            "shard range start 0x8000000000000000 must be less than end 0x0000000000000000",
        ),
        (
            format!(
                "{} || {}",
                range("uid", START, END),
                range("namespace", START, END)
            ),
            "all shard ranges must use the same field",
        ),
        ("shardRange(".to_owned(), "CEL parse error"),
    ];
    for (selector, message) in cases {
        let refused = api.get(&query(&maps, &selector)).await.expect_code(500);
        let prefixed = format!("invalid shard selector: {message}");
        let given = refused.message();
        assert!(given.starts_with(&prefixed), "{selector}: {given}");
        let watch = query(&format!("{maps}?watch=true"), &selector);
        api.get(&watch).await.expect_code(500);
    }
}
