//! Comparison with Go's decoder, and robustness tests.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Expected, decode, encode};
use crate::typing;

const CONFIG_MAP: Expected<'_> = Expected {
    api_version: "v1",
    kind: "ConfigMap",
};

#[derive(Deserialize)]
struct Recorded {
    name: String,
    protobuf: String,
    json: Value,
}

struct Sample {
    name: String,
    body: Vec<u8>,
    json: Value,
}

/// Bodies of Go's encoder, with the results of Go's decoder.
fn samples() -> &'static [Sample] {
    static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
        let recorded = include_bytes!("../../data/samples/protobuf.json");
        let recorded: Vec<Recorded> = serde_json::from_slice(recorded).unwrap();
        let samples = recorded.into_iter().map(|sample| Sample {
            name: sample.name,
            body: STANDARD.decode(sample.protobuf).unwrap(),
            json: sample.json,
        });
        samples.collect()
    });
    &SAMPLES
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// Encodes a field of a message: a string, or another message.
fn field(number: usize, content: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2), &varint(content.len()), content].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [&b"k8s\0"[..], &field(1, &meta), &field(2, raw)].concat()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn go_bodies_are_decoded_as_by_go() {
    assert!(samples().len() > 150);
    for sample in samples() {
        let decoded = decode(&sample.body, CONFIG_MAP);
        let decoded = decoded.unwrap_or_else(|error| panic!("{}: {error}", sample.name));
        assert_eq!(
            without_nulls(&decoded),
            without_nulls(&sample.json),
            "{}",
            sample.name
        );
    }
}

#[test]
fn go_bodies_equal_their_json() {
    let types = typing::built_in();
    for sample in samples() {
        let decoded = decode(&sample.body, CONFIG_MAP).unwrap();
        let text = |field: &str| sample.json[field].as_str().unwrap();
        let root = types.root(text("apiVersion"), text("kind")).unwrap();
        let checked = types.check(root, sample.json.clone()).unwrap();
        assert_eq!(checked.unknown, [""; 0], "{}", sample.name);
        assert_eq!(decoded, checked.object, "{}", sample.name);
    }
}

#[test]
fn zeros_behind_pointers_are_kept_and_others_are_not() {
    let sample = samples()
        .iter()
        .find(|sample| sample.name == "deployment")
        .unwrap();
    let decoded = decode(&sample.body, CONFIG_MAP).unwrap();
    assert_eq!(decoded["spec"]["replicas"], json!(0));
    assert_eq!(decoded["spec"].get("minReadySeconds"), None);
    assert_eq!(
        decoded["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"],
        json!(0)
    );
}

#[test]
fn missing_types_are_taken_from_the_request() {
    let named = field(1, &field(1, b"a"));
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(decode(&body("", "", &named), CONFIG_MAP).unwrap(), expected);
    let unknown = [&named[..], b"\xa0\x06\x01", &field(15, b"x")].concat();
    assert_eq!(
        decode(&body("v1", "ConfigMap", &unknown), CONFIG_MAP).unwrap(),
        expected
    );
}

#[test]
fn options_are_the_same_in_all_groups() {
    let options = Expected {
        api_version: "meta.k8s.io/v1",
        kind: "DeleteOptions",
    };
    for group in ["v1", "apps/v1", "meta.k8s.io/v1", "example.com/v1alpha1"] {
        let decoded = decode(&body(group, "DeleteOptions", b"\x08\0"), options).unwrap();
        let expected =
            json!({"apiVersion": group, "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        assert_eq!(decoded, expected);
    }
    let error = decode(&body("v1", "Options", b""), options).unwrap_err();
    assert_eq!(
        error,
        "no kind \"Options\" is registered for version \"v1\""
    );
    assert_eq!(decode(b"", options).unwrap_err(), "empty data");
}

#[test]
fn later_fields_are_added_to_earlier_ones() {
    let metadata = |content: &[u8]| field(1, content);
    let twice = [
        metadata(&field(1, b"a")),
        metadata(&field(3, b"n")),
        metadata(&field(1, b"b")),
        field(2, &[field(1, b"k"), field(2, b"v")].concat()),
        field(2, &[field(1, b"k"), field(2, b"w")].concat()),
        field(2, &[]),
    ];
    let decoded = decode(&body("v1", "ConfigMap", &twice.concat()), CONFIG_MAP).unwrap();
    assert_eq!(decoded["metadata"], json!({"name": "b", "namespace": "n"}));
    assert_eq!(decoded["data"], json!({"k": "w", "": ""}));
}

#[test]
fn numbers_of_lists_can_be_packed() {
    // spec.securityContext.supplementalGroups
    let deep = |content: &[u8]| field(2, &field(14, content));
    let loose = deep(b"\x20\x01\x20\x02\x20\x03");
    let packed = deep(&field(4, &[1, 2, 3]));
    for raw in [loose, packed] {
        let pod = decode(&body("v1", "Pod", &raw), CONFIG_MAP).unwrap();
        assert_eq!(
            pod["spec"]["securityContext"]["supplementalGroups"],
            json!([1, 2, 3])
        );
    }
}

#[test]
fn messages_can_be_nested() {
    let inner = body("v1", "ConfigMap", &field(1, &field(1, b"inner")));
    let raw = field(2, &field(1, &inner));
    let decoded = decode(&body("apps/v1", "ControllerRevision", &raw), CONFIG_MAP).unwrap();
    assert_eq!(decoded["data"]["kind"], "ConfigMap");
    assert_eq!(decoded["data"]["metadata"]["name"], "inner");
}

#[test]
fn errors_have_the_wording_of_the_server() {
    let of = |raw: &[u8]| body("v1", "ConfigMap", raw);
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    let handled = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    for (body, start, text) in [
        (vec![], unrecognized, "empty data (<empty>)"),
        (b"k8s\0".to_vec(), unrecognized, "empty body (6b387300)"),
        (
            b"hello".to_vec(),
            unrecognized,
            "provided data does not appear to be a protobuf message, \
             expected prefix [107 56 115 0] (68656c6c6f)",
        ),
        (
            [b"k8s\0\x0a\x7f", &[b'a'; 40][..]].concat(),
            unrecognized,
            "unexpected EOF (6b3873000a7f\
             616161616161616161616161616161616161616161616161 ...)",
        ),
        (
            b"{\"kind\":\"ConfigMap\",\"metadata\":{}}".to_vec(),
            unrecognized,
            "provided data does not appear to be a protobuf message, \
             expected prefix [107 56 115 0] ({\"kind\":\"ConfigMap\",\"metadata\" ...)",
        ),
        (of(b"\x0a\x7f"), handled, "unexpected EOF"),
        (
            of(b"\x08\x01"),
            handled,
            "proto: wrong wireType = 0 for field metadata",
        ),
        (
            of(b"\x0c"),
            handled,
            "proto: ConfigMap: wiretype end group for non-group",
        ),
        (
            body("v1", "Thing", b""),
            "Thing in version \"v1\" cannot be handled as a ConfigMap: ",
            "no kind \"Thing\" is registered for version \"v1\"",
        ),
    ] {
        assert_eq!(
            decode(&body, CONFIG_MAP).unwrap_err(),
            format!("{start}{text}")
        );
    }
}

#[test]
fn values_without_a_json_form_are_rejected() {
    let quota = |quantity: &[u8]| {
        let entry = [field(1, b"cpu"), field(2, &field(1, quantity))].concat();
        body("v1", "ResourceQuota", &field(2, &field(1, &entry)))
    };
    assert!(decode(&quota(b"1"), CONFIG_MAP).is_ok());
    assert!(decode(&quota(b"many"), CONFIG_MAP).is_err());
    let created = |seconds: &[u8]| body("v1", "ConfigMap", &field(1, &field(8, seconds)));
    assert!(decode(&created(b"\x08\x01"), CONFIG_MAP).is_ok());
    let far = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f";
    assert!(decode(&created(far), CONFIG_MAP).is_err());
    let revision = |data: &[u8]| body("apps/v1", "ControllerRevision", &field(2, &field(1, data)));
    assert!(decode(&revision(b"[1]"), CONFIG_MAP).is_ok());
    assert!(decode(&revision(b"[1"), CONFIG_MAP).is_err());
}

#[test]
fn excessive_depth_is_rejected() {
    // Deeply nested `not` schemas.
    let schema = (0..5_000).fold(Vec::new(), |schema, _| field(28, &schema));
    let version = field(4, &field(1, &schema));
    let definition = field(2, &field(7, &version));
    let definition = body(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &definition,
    );
    let nested = field(
        2,
        &field(
            1,
            format!("{}{}", "[".repeat(110), "]".repeat(110)).as_bytes(),
        ),
    );
    let revision = body("apps/v1", "ControllerRevision", &nested);
    let revisions = (0..1_000).fold(Vec::new(), |revision, _| {
        body(
            "apps/v1",
            "ControllerRevision",
            &field(2, &field(1, &revision)),
        )
    });
    for body in [definition, revision, revisions] {
        let error = decode(&body, CONFIG_MAP).unwrap_err();
        assert!(
            error.ends_with("proto: the message is nested too deeply"),
            "{error}"
        );
    }
}

proptest! {
    #[test]
    fn random_messages_never_panic(
        kind in prop::sample::select(vec![
            ("v1", "Pod"), ("v1", "Event"), ("apps/v1", "ControllerRevision"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("v1", "DeleteOptions"),
        ]),
        raw: Vec<u8>,
    ) {
        let _ = decode(&raw, CONFIG_MAP);
        let _ = decode(&body(kind.0, kind.1, &raw), CONFIG_MAP);
    }

    #[test]
    fn damaged_bodies_never_panic(
        sample: prop::sample::Index, at: prop::sample::Index, byte: u8, cut: bool,
    ) {
        let mut body = sample.get(samples()).body.clone();
        let at = at.index(body.len());
        if cut {
            body.truncate(at);
        } else {
            body[at] = byte;
        }
        let _ = decode(&body, CONFIG_MAP);
    }
}

#[test]
fn encoded_documents_survive_a_round_trip() {
    let types = typing::built_in();
    for sample in samples() {
        let text = |field: &str| sample.json[field].as_str().unwrap();
        let root = types.root(text("apiVersion"), text("kind")).unwrap();
        let document = types.check(root, sample.json.clone()).unwrap().object;
        let written = encode(&document);
        let written = written.unwrap_or_else(|error| panic!("{}: {error}", sample.name));
        let read = decode(&written, CONFIG_MAP).unwrap();
        assert_eq!(
            without_nulls(&read),
            without_nulls(&document),
            "{}",
            sample.name
        );
    }
}

#[test]
fn lists_are_encoded_with_their_metadata() {
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList",
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}}],
    });
    let item = field(2, &field(1, &field(1, b"a")));
    let raw = [field(1, &field(2, b"7")), item].concat();
    let expected = [
        &body("v1", "ConfigMapList", &raw)[..],
        &field(3, b""),
        &field(4, b""),
    ]
    .concat();
    assert_eq!(encode(&list).unwrap(), expected);
    assert!(encode(&json!({"apiVersion": "a/v1", "kind": "WidgetList"})).is_err());
}
