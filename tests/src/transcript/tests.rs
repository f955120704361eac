//! Tests of the runner: what is right passes, and every kind of difference is reported.

use super::play;

async fn outcome(steps: &str) -> String {
    let text = format!("case:\n{steps}");
    play(&text, "case").await.err().unwrap_or_default()
}

#[tokio::test]
async fn right_transcripts_pass() {
    let steps = "
- crd: {spec: {type: object, properties: {size: {type: integer}}}}
- for: size
  in: [a, b]
  POST widgets: {metadata: {name: one}, spec: {size: $size}}
  status: 422 Invalid
  causes: [[FieldValueTypeInvalid, spec.size, <contains integer>]]
- POST widgets: {metadata: {name: one}, spec: {size: 1}}
  save: {created: ., version: metadata.resourceVersion}
- PUT widgets/one: {$from: $created, spec: {size: 2}}
  has: {spec.size: 2, metadata.resourceVersion: <not $version>, metadata.labels: null}
- GET widgets:
  names: [one]
  returns: {content-type: application/json}
- WATCH widgets?resourceVersion=$version:
- event: MODIFIED one
  has: {spec.size: 2}
- DELETE widgets/one:
- GET widgets/one:
  eventually: true
  status: 404 NotFound
";
    assert_eq!(outcome(steps).await, "");
}

#[tokio::test]
async fn each_difference_is_reported_with_its_line() {
    for (step, report) in [
        (
            "GET pods/a:\n  status: 200",
            "3: GET pods/a\n  status: expected 200, got 404 NotFound",
        ),
        (
            "GET pods/a:\n  status: 404 Gone",
            "status: expected 404 Gone, got 404 NotFound",
        ),
        (
            "GET pods/a:\n  status: 404\n  message: no",
            "message: expected \"no\", got \"pods \\\"a\\\" not found\"",
        ),
        (
            "GET pods:\n  has: {kind: Pod}",
            "kind: expected \"Pod\", got \"PodList\"",
        ),
        (
            "GET pods:\n  has: {metadata.absent: <any>}",
            "metadata.absent: expected \"<any>\", got null",
        ),
        ("GET pods:\n  names: [a]", "names: expected [\"a\"], got []"),
        (
            "GET pods:\n  includes: {items: [a]}",
            "items: expected \"a\" in []",
        ),
        (
            "GET pods:\n  warnings: [a]",
            "warnings: expected [\"a\"], got []",
        ),
        (
            "GET /healthz:\n  text: no",
            "text: expected \"no\", got \"ok\"",
        ),
        (
            "GET /healthz:\n  returns: {content-type: no}",
            "content-type: expected \"no\", got \"text/plain",
        ),
        (
            "POST pods: {metadata: {name: a}}\n  status: 422\n  causes: []",
            "causes: expected [], got [[",
        ),
        (
            "POST pods: {metadata: {name: a}}\n  status: 422\n  some_causes: [[No, a]]",
            "some_causes: expected [\"No\",\"a\"] in [[",
        ),
        (
            "for: [a, b]\n  in: [[pods, 200], [pods, 404]]\n  GET $a:\n  status: $b",
            "3: for [\"pods\",404]: GET $a\n  status: expected 404, got 200",
        ),
        (
            "for: a\n  in: [pods]\n  do: [{GET $a: null, names: [a]}]",
            "GET $a\n  names: expected",
        ),
        (
            "for: [a, b]\n  in: [[pods]]\n  GET $a:",
            "expected a row with 2 values",
        ),
        ("GET pods/$nope:", "3: unknown name $nope"),
        (
            "GET pods:\n  has: {kind: <is string>, a: <bogus>}",
            "3: unknown condition <bogus>",
        ),
        ("event: ADDED a", "3: no watch watch"),
    ] {
        let found = outcome(&format!("\n- {step}\n")).await;
        assert!(found.contains(report), "{step}: {found}");
    }
}

#[tokio::test]
async fn wrong_events_are_reported() {
    let steps = "
- POST configmaps: {metadata: {name: a}}
- WATCH configmaps?fieldSelector=metadata.name=a:
- event: ADDED b
  has: {data: {x: y}}
";
    let found = outcome(steps).await;
    assert!(
        found.contains("event: expected ADDED b, got ADDED a"),
        "{found}"
    );
    assert!(
        found.contains("data: expected {\"x\":\"y\"}, got null"),
        "{found}"
    );
}

#[tokio::test]
async fn misspelt_keys_are_reported_with_line_and_field() {
    for (step, report) in [
        (
            "GET pods:\n  staus: 200",
            "3: case: unknown field \"staus\": expected anonymous base64",
        ),
        (
            "GTE pods:",
            "3: case: unknown field \"GTE pods\": \"GTE\" is not a method",
        ),
        ("get: pods", "3: case: no action; unknown fields: [get]"),
        ("crd: {}\n  raw: x", "3: case: misplaced field \"raw\""),
        ("crd: {specs: {}}", "3: crd: unknown field \"specs\""),
        (
            "GET pods:\n  has: kind",
            "3: case: has: expected a mapping, got \"kind\"",
        ),
        (
            "GET pods:\n  eventually: yes please",
            "3: case: eventually: expected true",
        ),
        ("GET pods:\n  for: a", "3: case: in: expected a list"),
        (
            "GET pods:\n  status: 200\n  status: 404",
            "duplicate mapping key",
        ),
        ("GET pods:\n  status: soon", "3: status: invalid \"soon\""),
        ("start: sometimes", "3: case: start: expected rbac or tls"),
    ] {
        let found = outcome(&format!("\n- {step}\n")).await;
        assert!(found.contains(report), "{step}: {found}");
    }
}
