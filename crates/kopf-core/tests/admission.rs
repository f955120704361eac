//! Comparison of webhook configurations and responses with the recording of the original.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_core::admission::{
    ClientConfig, Configured, Incoming, Operation, Review, ServiceReference, WebhookType,
    json_patch, respond, select, served, webhooks,
};
use kopf_core::field::FieldPath;
use kopf_core::filter::{MetaCriterion, value_fn};
use kopf_core::handler::{FunctionId, Handler, HandlerKind, HandlerSpec};
use kopf_core::patch::Patch;
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;
use proptest::prelude::*;
use serde_json::{Value, json};

fn recorded(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/a01-admission");
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}

fn spec(id: &str, number: u64, type_: WebhookType) -> HandlerSpec {
    let kind = HandlerKind::Admission(type_);
    let mut spec = HandlerSpec::new(id, FunctionId::Number(number), kind);
    spec.selector = Some(Selector::parse(&["things"]).unwrap());
    spec
}

/// Returns the handlers of the recorded operator.
fn handlers() -> Vec<Arc<Handler<()>>> {
    let mut check = spec("check", 1, WebhookType::Validating);
    check.webhook.persistent = true;
    let mut check2 = spec("some/id_with:odd chars", 2, WebhookType::Validating);
    check2.filters.field = Some(FieldPath::parse("spec.field"));
    check2
        .webhook
        .add_operations([Operation::Create, Operation::Update]);
    check2.webhook.ignore_failures = true;
    check2.webhook.side_effects = true;
    let mut change = spec("change", 3, WebhookType::Mutating);
    let labels = [
        ("mutate", MetaCriterion::from("yes")),
        ("other", MetaCriterion::Present),
        ("third", MetaCriterion::Absent),
    ];
    change.filters.labels = labels.map(|(key, one)| (key.to_owned(), one)).into();
    change.webhook.add_operations([Operation::Create]);
    let mut status = spec("status_check", 4, WebhookType::Validating);
    status.webhook.subresource = Some("status".to_owned());
    let mut deletion = spec("on_delete", 5, WebhookType::Validating);
    deletion.webhook.subresource = Some("*".to_owned());
    deletion.webhook.add_operations([Operation::Delete]);
    [check, check2, change, status, deletion]
        .into_iter()
        .map(|spec| Arc::new(spec.build(()).unwrap()))
        .collect()
}

fn kind(group: &str, plural: &str) -> Arc<Resource> {
    Arc::new(Resource {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        preferred: true,
        ..Resource::default()
    })
}

fn things() -> BTreeSet<Arc<Resource>> {
    [kind("golden.example", "things")].into()
}

fn configured<F>(
    handlers: &[Arc<Handler<F>>],
    type_: WebhookType,
    resources: &BTreeSet<Arc<Resource>>,
    client_config: &ClientConfig,
    persistent_only: bool,
) -> Vec<Value> {
    let configured = Configured {
        managed: "auto.golden.example",
        resources,
        client_config,
        persistent_only,
    };
    webhooks(handlers, type_, configured)
}

#[test]
fn configurations_match_the_recording() {
    let config = ClientConfig {
        url: Some("https://127.0.0.1:54399".to_owned()),
        ca_bundle: Some("<CA>".to_owned()),
        ..ClientConfig::default()
    };
    let calls = recorded("calls.json");
    let mut patches = calls.iter().filter(|call| call["verb"] == "patch");
    for persistent_only in [false, true] {
        for type_ in [WebhookType::Validating, WebhookType::Mutating] {
            let call = patches.next().unwrap();
            let resource = call["resource"].as_str().unwrap();
            assert!(resource.starts_with(type_.as_str()), "{resource}");
            let ours = configured(&handlers(), type_, &things(), &config, persistent_only);
            let mut theirs = call["body"].clone();
            for webhook in theirs["webhooks"].as_array_mut().unwrap() {
                // Here, `subresource="*"` includes the main resource.
                if webhook["rules"][0]["resources"] == json!(["things/*"]) {
                    webhook["rules"][0]["resources"] = json!(["things", "things/*"]);
                }
            }
            assert_eq!(json!({"webhooks": ours}), theirs, "{type_}");
        }
    }
    assert!(patches.next().is_none());
}

#[test]
fn services_and_addresses_have_the_id_at_the_end() {
    let config = ClientConfig {
        url: Some("https://host/path/".to_owned()),
        service: Some(ServiceReference {
            namespace: "ns".to_owned(),
            name: "svc".to_owned(),
            path: None,
            port: Some(8443),
        }),
        ca_bundle: None,
    };
    let ours = configured(
        &handlers(),
        WebhookType::Validating,
        &things(),
        &config,
        false,
    );
    // The server accepts fewer characters in the paths of services than in URLs.
    let path = ours[1]["clientConfig"]["service"]["path"].as_str().unwrap();
    let hash = path.strip_prefix("/some/id-with3aodd20chars/spec.field-");
    assert!(hash.is_some_and(|hash| hash.len() == 8), "{path}");
    let expected = json!({
        "url": "https://host/path/some/id_with%3Aodd%20chars/spec.field",
        "service": {"namespace": "ns", "name": "svc", "port": 8443, "path": path},
    });
    assert_eq!(ours[1]["clientConfig"], expected);
    let mut config = config;
    config.service.as_mut().unwrap().path = Some("/sub".to_owned());
    let ours = configured(
        &handlers(),
        WebhookType::Validating,
        &things(),
        &config,
        false,
    );
    assert_eq!(ours[0]["clientConfig"]["service"]["path"], "/sub/check");
}

#[test]
fn each_selected_kind_has_a_rule() {
    let mut all = spec("all", 1, WebhookType::Validating);
    all.selector = Some(Selector::everything());
    all.filters.labels.insert(
        "a".to_owned(),
        MetaCriterion::Callback(value_fn(|_, _, _| Ok(true))),
    );
    let mut event = spec("event", 2, WebhookType::Validating);
    event.kind = HandlerKind::Event;
    event.selector = Some(Selector::parse(&["unserved"]).unwrap());
    let handlers = [all, event].map(|spec| Arc::new(spec.build(()).unwrap()));
    let kinds: BTreeSet<_> = [kind("", "pods"), kind("g", "things"), kind("", "events")].into();
    let kinds = served(&handlers, &kinds);
    let names: Vec<_> = kinds.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        ["pods.v1", "things.v1.g"],
        "events are never everything"
    );

    let config = ClientConfig::default();
    let ours = configured(&handlers, WebhookType::Validating, &kinds, &config, false);
    assert_eq!(ours.len(), 1, "only handlers for admission");
    let groups: Vec<_> = ours[0]["rules"].as_array().unwrap().iter().collect();
    assert_eq!(groups.len(), 2);
    assert_eq!(groups[0]["apiGroups"], json!([""]));
    assert_eq!(groups[0]["operations"], json!(["*"]));
    assert_eq!(
        ours[0]["objectSelector"],
        json!(null),
        "functions are not for the server"
    );
    let none = configured(
        &handlers,
        WebhookType::Validating,
        &BTreeSet::new(),
        &config,
        false,
    );
    assert_eq!(none[0]["rules"], json!([]));
}

#[test]
fn responses_match_the_recording() {
    let answers = recorded("objects.json");
    for sent in recorded("requests.json") {
        let (after, path) = (&sent["after"], sent["path"].as_str().unwrap());
        // The original admits everything here; ours calls all handlers for a path without an id,
        // and rejects an unknown id.
        if sent["body"].is_object() && matches!(path, "/" | "/nope") {
            continue;
        }
        let Some(recorded) = answers.iter().find(|answer| answer["after"] == *after) else {
            panic!("no answer to {after}");
        };
        let (body, code) = recorded["curl"]
            .as_str()
            .unwrap()
            .rsplit_once('\n')
            .unwrap();
        let mut review = match &sent["body"] {
            Value::Object(_) => sent["body"].clone(),
            Value::String(_) => continue, // Not JSON; rejected before this point.
            _ => self::recorded("requests.json")[0]["body"].clone(),
        };
        match after.as_str().unwrap() {
            "unknown resource" => review["request"]["resource"]["resource"] = json!("nothings"),
            "missing data" => review["request"]["object"] = json!(null),
            _ => {}
        }
        let mut incoming = Incoming::new(review);
        incoming.webhook = path.strip_prefix('/').map(str::to_owned);
        match Review::read(incoming, &things()) {
            Err(refusal) => assert_eq!(refusal.code().to_string(), code, "{after}: {refusal}"),
            Ok(review) => {
                let mut expected: Value = serde_json::from_str(body).unwrap();
                let (answer, patch) = played(&review);
                let recorded = expected["response"]["patch"].as_str().map(decoded);
                assert_eq!(patch, recorded.unwrap_or_default(), "{after}");
                let response = expected["response"].as_object_mut().unwrap();
                response.remove("patch");
                assert_eq!(answer, expected, "{after}");
            }
        }
    }
}

fn decoded(patch: &str) -> Vec<Value> {
    let mut operations: Vec<Value> =
        serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap();
    operations.sort_by_key(|operation| operation["path"].to_string());
    operations
}

/// Returns the response of the handlers of the recorded operator, and the patch in the order of its
/// paths.
fn played(review: &Review) -> (Value, Vec<Value>) {
    let selected = select(&handlers(), review, None, &review.cause(), &()).unwrap();
    let (mut warnings, mut patch) = (Vec::new(), Patch::default());
    for handler in selected {
        match &*handler.id {
            "check" => warnings.push("checked CREATE None False someone".to_owned()),
            "change" => {
                patch.set(&"spec.added".into(), json!({"deep": {"er": 1}}));
                patch.set(&"spec.field".into(), json!(null));
                patch.set(&"metadata.labels.by".into(), json!("webhook"));
                patch.set(&"spec.items".into(), json!(["a", "c"]));
            }
            _ => {}
        }
    }
    let operations = json_patch(&patch, review.body.value()).unwrap();
    let mut answer = respond(review, [], &warnings, &operations);
    let response = answer["response"].as_object_mut().unwrap();
    let patch = response.remove("patch");
    let patch = patch.map(|patch| decoded(patch.as_str().unwrap()));
    (answer, patch.unwrap_or_default())
}

/// Any JSON of a moderate size.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..5_i64).prop_map(Value::from),
        "[a-c/~ ]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-c/~]{1,2}", inner, 0..5)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c/~]{1,2}", anything(), 0..5)
        .prop_map(|map| map.into_iter().collect())
}

proptest! {
    /// The server computes the same result for any change by a function.
    #[test]
    fn patches_apply_cleanly(before in object(), after in object()) {
        let mut patch = Patch::default();
        let wanted = after.clone();
        patch.add_fn(kopf_core::patch::PatchFn::new("all", move |body| {
            *body = wanted.clone();
            Ok(())
        }));
        let operations = json_patch(&patch, &before).unwrap();
        prop_assert_eq!(operations.is_empty(), before == after);
        let tests = operations.iter().filter(|operation| operation["op"] == "test");
        prop_assert_eq!(tests.count(), 0);
        let operations: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
        let mut patched = before;
        json_patch::patch(&mut patched, &operations).unwrap();
        prop_assert_eq!(patched, after);
    }

    /// Random input never panics.
    #[test]
    fn random_reviews_never_panic(review in anything(), object in anything(), request in object()) {
        let things = things();
        let read = |review: Value| {
            Review::read(Incoming::new(review), &things)
        };
        let _ = read(review);
        let mut request = request;
        request["resource"] = json!({"group": "golden.example", "version": "v1", "resource": "things"});
        request["userInfo"] = json!({});
        request["object"] = object;
        if let Ok(review) = read(json!({"request": request})) {
            select(&handlers(), &review, None, &review.cause(), &()).unwrap();
            review.diff();
            respond(&review, [], &[], &[]);
        }
    }
}
