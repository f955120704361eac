//! Tests of reviews: parsing, selection of handlers, responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::field::FieldPath;
use crate::filter::{MetaCriterion, ValueCriterion, when_fn};
use crate::handler::{FunctionId, Handler, HandlerKind, HandlerSpec, Retrying};
use crate::outcome::{Attempt, HandlerError, Outcome, decide};
use crate::patch::{Patch, PatchFn};
use crate::resource::Resource;
use crate::selector::Selector;

fn things() -> Arc<Resource> {
    Arc::new(Resource {
        group: "g.example".into(),
        version: "v1".into(),
        plural: "things".into(),
        preferred: true,
        ..Resource::default()
    })
}

fn request(parts: &Value) -> Value {
    let mut request = json!({
        "uid": "u-1",
        "resource": {"group": "g.example", "version": "v1", "resource": "things"},
        "operation": "CREATE",
        "userInfo": {"username": "someone"},
        "object": {"metadata": {"name": "x"}, "spec": {"field": 1}},
        "oldObject": null,
    });
    for (key, value) in parts.as_object().unwrap() {
        request[key] = value.clone();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

fn read(review: Value) -> Result<Review, Refusal> {
    let incoming = Incoming {
        review,
        ..Incoming::default()
    };
    Review::read(incoming, &[things()])
}

#[test]
fn all_fields_of_a_request_are_parsed() {
    let incoming = Incoming {
        order: None,
        review: request(&json!({
            "operation": "UPDATE", "subResource": "status", "dryRun": true,
            "object": {"spec": {"field": 2}}, "oldObject": {"spec": {"field": 1}},
        })),
        webhook: Some("fn".to_owned()),
        headers: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
        sslpeer: Some(json!({"version": 3})),
    };
    let review = Review::read(incoming, &[things()]).unwrap();
    assert_eq!(review.api_version, "admission.k8s.io/v1");
    assert_eq!(
        (review.kind.as_str(), review.uid.as_str()),
        ("AdmissionReview", "u-1")
    );
    assert_eq!(*review.resource, *things());
    assert_eq!(review.operation, Some(Operation::Update));
    assert_eq!(review.subresource.as_deref(), Some("status"));
    assert!(review.dryrun);
    assert_eq!(review.userinfo, json!({"username": "someone"}));
    assert_eq!(review.headers["A"], "b");
    assert_eq!(review.sslpeer, Some(json!({"version": 3})));
    assert_eq!(review.webhook.as_deref(), Some("fn"));
    assert_eq!(review.body.spec()["field"], 2, "as it is to be");
    assert_eq!(review.old.as_deref().unwrap()["spec"]["field"], 1);
    assert_eq!(review.new.as_deref().unwrap()["spec"]["field"], 2);
    assert_eq!(
        serde_json::to_value(&**review.diff()).unwrap(),
        json!([["change", ["spec", "field"], 1, 2]])
    );
}

#[test]
fn absent_fields_have_defaults() {
    let mut sent = request(&json!({}));
    sent.as_object_mut().unwrap().remove("apiVersion");
    sent["kind"] = json!(5);
    let fields = sent["request"].as_object_mut().unwrap();
    fields.retain(|key, _| matches!(key.as_str(), "resource" | "userInfo" | "object"));
    let review = read(sent).unwrap();
    assert_eq!(review.api_version, "admission.k8s.io/v1");
    assert_eq!(
        (review.kind.as_str(), review.uid.as_str()),
        ("AdmissionReview", "")
    );
    assert_eq!(
        (review.operation, review.subresource.as_deref()),
        (None, None)
    );
    assert!(!review.dryrun && review.webhook.is_none() && review.old.is_none());
    assert_eq!(review.sslpeer, None);
}

#[test]
fn objects_of_creations_and_deletions() {
    let created = read(request(&json!({}))).unwrap();
    assert_eq!(created.body.name(), Some("x"));
    assert!(created.old.is_none());
    let whole = json!([["add", [], null, created.body.value()]]);
    assert_eq!(serde_json::to_value(&**created.diff()).unwrap(), whole);
    let deleted = read(request(&json!({
        "operation": "DELETE", "object": null, "oldObject": {"metadata": {"name": "y"}},
    })));
    let deleted = deleted.unwrap();
    assert_eq!(deleted.body.name(), Some("y"), "as it is");
    assert!(deleted.new.is_none() && deleted.old.is_some());
}

#[test]
fn v1beta1_reviews_get_v1beta1_responses() {
    let mut sent = request(&json!({}));
    sent["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let review = read(sent).unwrap();
    let answer = respond(&review, [], &[], &[]);
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1beta1");
}

#[test]
fn resources_are_found_by_all_their_names() {
    let named = |group: &str, version: &str, plural: &str| {
        let resource = json!({"group": group, "version": version, "resource": plural});
        read(request(&json!({"resource": resource})))
    };
    assert!(named("g.example", "v1", "things").is_ok());
    for (group, version, plural) in [
        ("h.example", "v1", "things"),
        ("g.example", "v2", "things"),
        ("g.example", "v1", "others"),
        ("", "v1", "things"),
    ] {
        let refusal = named(group, version, plural).unwrap_err();
        assert_eq!(refusal.code(), 404, "{refusal}");
        assert!(refusal.to_string().contains(plural), "{refusal}");
    }
    let incoming = Incoming {
        review: request(&json!({})),
        ..Incoming::default()
    };
    let refusal = Review::read(incoming, &[things(), things()]).unwrap_err();
    assert_eq!(refusal.code(), 409, "{refusal}");
}

#[test]
fn reviews_with_missing_fields_are_rejected_by_name() {
    for (part, value, expected) in [
        ("userInfo", json!(null), "request.userInfo"),
        (
            "object",
            json!(null),
            "either request.object or request.oldObject",
        ),
        ("object", json!([1]), "request.object is not an object"),
        (
            "oldObject",
            json!("x"),
            "request.oldObject is not an object",
        ),
        ("operation", json!("PATCH"), "unknown operation \"PATCH\""),
        ("operation", json!(1), "request.operation is not a string"),
        (
            "subResource",
            json!({}),
            "request.subResource is not a string",
        ),
        ("resource", json!(null), "request.resource.group"),
        (
            "resource",
            json!({"group": "", "version": 1}),
            "request.resource.version",
        ),
    ] {
        let refusal = read(request(&json!({part: value}))).unwrap_err();
        assert_eq!(refusal.code(), 400, "{refusal}");
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
}

#[test]
fn malformed_reviews_are_rejected() {
    for garbage in [
        json!(null),
        json!(1),
        json!("text"),
        json!([]),
        json!({}),
        json!({"request": null}),
        json!({"request": "x"}),
        json!({"request": []}),
        json!({"request": {}}),
        json!({"request": {"resource": "x", "userInfo": {}, "object": {}}}),
        json!({"response": {"allowed": true}}),
    ] {
        assert_eq!(read(garbage.clone()).unwrap_err().code(), 400, "{garbage}");
    }
}

#[test]
fn content_is_absent_from_debug_output() {
    let review = read(request(&json!({"userInfo": {"username": "hidden"},
        "object": {"metadata": {"name": "x"}, "data": "hidden"}})));
    let text = format!("{:?}", review.unwrap());
    assert!(
        text.contains("things") && !text.contains("hidden"),
        "{text}"
    );
}

// Selection.

fn spec(id: &str, type_: WebhookType) -> HandlerSpec {
    let mut spec = HandlerSpec::new(id, FunctionId::Number(1), HandlerKind::Admission(type_));
    spec.selector = Some(Selector::parse(&["things"]).unwrap());
    spec
}

fn validating(id: &str) -> HandlerSpec {
    spec(id, WebhookType::Validating)
}

fn mutating(id: &str) -> HandlerSpec {
    spec(id, WebhookType::Mutating)
}

fn built(specs: impl IntoIterator<Item = HandlerSpec>) -> Vec<Arc<Handler<()>>> {
    let specs = specs.into_iter();
    specs
        .map(|spec| Arc::new(spec.build(()).unwrap()))
        .collect()
}

fn selected(
    handlers: &[Arc<Handler<()>>],
    review: &Review,
    asked: Option<WebhookType>,
) -> Vec<String> {
    let found = select(handlers, review, asked, &review.cause(), &()).unwrap();
    found.iter().map(|handler| handler.id.to_string()).collect()
}

#[test]
fn all_handlers_are_selected_in_order_by_default() {
    let mut event = validating("event");
    event.kind = HandlerKind::Event;
    let handlers = built([mutating("b"), validating("a"), event, mutating("b")]);
    let review = read(request(&json!({}))).unwrap();
    assert_eq!(selected(&handlers, &review, None), ["b", "a"]);
    let types = [WebhookType::Validating, WebhookType::Mutating];
    let by_type = types.map(|type_| selected(&handlers, &review, Some(type_)).concat());
    assert_eq!(by_type, ["a", "b"]);
}

#[test]
fn named_handler_is_selected_alone() {
    let mut field = validating("b");
    field.filters.field = Some(FieldPath::parse("spec.field"));
    let handlers = built([validating("a"), field]);
    for (hint, expected) in [
        ("a", vec!["a"]),
        ("b/spec.field", vec!["b/spec.field"]),
        ("b", vec![]),
        ("A", vec![]),
    ] {
        let mut review = read(request(&json!({}))).unwrap();
        review.webhook = Some(hint.to_owned());
        assert_eq!(selected(&handlers, &review, None), expected, "{hint:?}");
    }
}

#[test]
fn only_deletion_handlers_mutate_deletions() {
    let with = |mut spec: HandlerSpec, operations: &[Operation]| {
        spec.webhook.add_operations(operations.to_vec());
        spec
    };
    let handlers = built([
        validating("validating"),
        mutating("all"),
        with(mutating("deletions"), &[Operation::Delete]),
        with(mutating("both"), &[Operation::Delete, Operation::Create]),
    ]);
    let deletion = json!({"operation": "DELETE", "object": null, "oldObject": {}});
    let review = read(request(&deletion)).unwrap();
    assert_eq!(
        selected(&handlers, &review, None),
        ["validating", "deletions"]
    );
    let review = read(request(&json!({"operation": "CREATE"}))).unwrap();
    assert_eq!(
        selected(&handlers, &review, None),
        ["validating", "all", "both"]
    );
}

#[test]
fn operations_are_compared_unless_the_review_has_none() {
    let with = |id: &str, operations: &[Operation]| {
        let mut spec = validating(id);
        spec.webhook.add_operations(operations.to_vec());
        spec
    };
    let handlers = built([
        validating("all"),
        with("creations", &[Operation::Create]),
        with("changes", &[Operation::Create, Operation::Update]),
    ]);
    for (operation, expected) in [
        (json!("CREATE"), vec!["all", "creations", "changes"]),
        (json!("UPDATE"), vec!["all", "changes"]),
        (json!("CONNECT"), vec!["all"]),
        (json!(null), vec!["all", "creations", "changes"]),
    ] {
        let review = read(request(&json!({"operation": operation}))).unwrap();
        assert_eq!(selected(&handlers, &review, None), expected, "{operation}");
    }
}

#[test]
fn unknown_handlers_are_rejected_by_id() {
    let mut event = validating("event");
    event.kind = HandlerKind::Event;
    let handlers = built([validating("a"), event]);
    for known in [None, Some(""), Some("a")] {
        assert_eq!(check_handler(&handlers, known), Ok(()), "{known:?}");
    }
    for unknown in ["b", "A", "a/", "/", "event"] {
        let refusal = check_handler(&handlers, Some(unknown)).unwrap_err();
        assert_eq!(refusal, Refusal::UnknownHandler(unknown.to_owned()));
        assert_eq!(refusal.code(), 404);
    }
}

#[test]
fn subresources_are_compared() {
    let with = |id: &str, subresource: Option<&str>| {
        let mut spec = validating(id);
        spec.webhook.subresource = subresource.map(str::to_owned);
        spec
    };
    let handlers = built([
        with("main", None),
        with("status", Some("status")),
        with("any", Some("*")),
    ]);
    for (subresource, expected) in [
        (json!(null), ["main", "any"]),
        (json!(""), ["main", "any"]),
        (json!("status"), ["status", "any"]),
    ] {
        let review = read(request(&json!({"subResource": subresource}))).unwrap();
        assert_eq!(selected(&handlers, &review, None), expected);
    }
    let review = read(request(&json!({"subResource": "scale"}))).unwrap();
    assert_eq!(selected(&handlers, &review, None), ["any"]);
}

#[test]
fn filters_match_the_object_of_the_request() {
    let mut labels = validating("labels");
    labels
        .filters
        .labels
        .insert("a".to_owned(), MetaCriterion::Present);
    let mut annotations = validating("annotations");
    let none = MetaCriterion::Absent;
    annotations.filters.annotations.insert("b".to_owned(), none);
    let mut field = validating("field");
    field.filters.field = Some(FieldPath::parse("spec.field"));
    field.filters.value = Some(ValueCriterion::from("new"));
    let mut when = validating("when");
    when.filters.when = Some(when_fn(|cause, _| Ok(cause.body.spec()["field"] == "new")));
    let mut others = validating("others");
    others.selector = Some(Selector::parse(&["others"]).unwrap());
    let handlers = built([labels, annotations, field, when, others]);

    let objects = json!({
        "object": {"metadata": {"labels": {"a": ""}}, "spec": {"field": "new"}},
        "oldObject": {"metadata": {"annotations": {"b": ""}}, "spec": {"field": "old"}},
    });
    let review = read(request(&objects)).unwrap();
    let all = ["labels", "annotations", "field/spec.field", "when"];
    assert_eq!(selected(&handlers, &review, None), all);
    let objects = json!({"object": {"metadata": {"annotations": {"b": ""}}, "spec": {}},
        "oldObject": {"metadata": {"labels": {"a": ""}}, "spec": {"field": "new"}}});
    let review = read(request(&objects)).unwrap();
    assert!(selected(&handlers, &review, None).is_empty());
}

#[test]
fn failing_filter_is_an_error() {
    let mut failing = validating("failing");
    failing.filters.when = Some(when_fn(|_, _| Err("boom".into())));
    let handlers = built([failing]);
    let review = read(request(&json!({}))).unwrap();
    let error = select(&handlers, &review, None, &review.cause(), &()).unwrap_err();
    assert!(error.to_string().contains("\"failing\""), "{error}");
}

// Answers.

fn outcome(result: Result<Option<Value>, HandlerError>) -> Outcome {
    let attempt = Attempt {
        label: "Webhook 'fn'",
        retrying: &Retrying::default(),
        default_errors: HandlerKind::Admission(WebhookType::Validating).default_errors(),
        default_backoff: Duration::from_secs(60),
        retries: 0,
        runtime: Duration::ZERO,
    };
    decide(&attempt, Duration::ZERO, result)
}

fn answered(outcomes: &[Outcome], warnings: &[&str], operations: &[Value]) -> Value {
    let warnings: Vec<String> = warnings.iter().map(|&text| text.to_owned()).collect();
    let review = read(request(&json!({}))).unwrap();
    respond(&review, outcomes, &warnings, operations)["response"].take()
}

#[test]
fn request_is_allowed_without_handlers_or_errors() {
    let allowed = json!({"uid": "u-1", "allowed": true});
    assert_eq!(answered(&[], &[], &[]), allowed);
    assert_eq!(
        answered(&[outcome(Ok(Some(json!("ignored"))))], &[], &[]),
        allowed
    );
}

#[test]
fn responses_with_errors_have_warnings_and_patches() {
    let operation = json!({"op": "remove", "path": "/spec"});
    let failed = outcome(Err(HandlerError::permanent("no")));
    let answer = answered(&[failed], &["one", "two"], std::slice::from_ref(&operation));
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["warnings"], json!(["one", "two"]));
    assert_eq!(answer["patchType"], "JSONPatch");
    let patch = STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(patch, json!([operation]));
    assert_eq!(answer["status"], json!({"message": "no", "code": 500}));
}

#[test]
fn most_specific_error_is_reported() {
    let errors = [
        HandlerError::arbitrary("arbitrary"),
        HandlerError::temporary("temporary", None),
        HandlerError::permanent("permanent"),
        HandlerError::permanent("another"),
        HandlerError::denied("denied", Some(418)),
        HandlerError::denied("again", None),
    ];
    let expected = [
        ("arbitrary", 500),
        ("temporary", 500),
        ("permanent", 500),
        ("permanent", 500),
        ("denied", 418),
        ("denied", 418),
    ];
    for (count, (message, code)) in (1..).zip(expected) {
        let failed = errors.iter().take(count);
        let outcomes: Vec<_> = failed.map(|error| outcome(Err(error.clone()))).collect();
        let status = json!({"message": message, "code": code});
        assert_eq!(answered(&outcomes, &[], &[])["status"], status, "{count}");
    }
}

#[test]
fn invalid_codes_are_replaced() {
    for (code, told) in [
        (0, 500),
        (1, 1),
        (422, 422),
        (999, 999),
        (1000, 500),
        (u16::MAX, 500),
    ] {
        let denied = outcome(Err(HandlerError::denied("no", Some(code))));
        let answer = answered(&[denied], &[], &[]);
        assert_eq!(answer["status"], json!({"message": "no", "code": told}));
    }
}

#[test]
fn errors_without_messages_and_codes_have_defaults() {
    for (error, message) in [
        (HandlerError::denied("", Some(0)), "AdmissionError('')"),
        (HandlerError::permanent(""), "PermanentError('')"),
        (HandlerError::temporary("", None), "TemporaryError('')"),
        (HandlerError::arbitrary(""), "Exception('')"),
    ] {
        let answer = answered(&[outcome(Err(error))], &[], &[]);
        assert_eq!(answer["status"], json!({"message": message, "code": 500}));
    }
}

// Patches.

fn operations(merge: Value, body: &Value) -> Value {
    let Value::Object(merge) = merge else {
        panic!("not an object: {merge}")
    };
    let patch = Patch {
        merge,
        fns: Vec::new(),
    };
    json!(json_patch(&patch, body).unwrap())
}

#[test]
fn merge_patch_becomes_operations() {
    for (merge, body, expected) in [
        (json!({}), json!({}), json!([])),
        (json!({"spec": {}}), json!({}), json!([])),
        (json!({"spec": {"a": {}}}), json!({"spec": {}}), json!([])),
        (
            json!({"spec": {"a": 1}}),
            json!({"spec": {"a": 1}}),
            json!([]),
        ),
        (json!({"spec": {"a": null}}), json!({"spec": {}}), json!([])),
        (
            json!({"spec": {"a": 1}}),
            json!({}),
            json!([{"op": "add", "path": "/spec", "value": {"a": 1}}]),
        ),
        (
            json!({"spec": {"a": 2}}),
            json!({"spec": {"a": 1}}),
            json!([{"op": "replace", "path": "/spec/a", "value": 2}]),
        ),
        (
            json!({"spec": {"a": null}}),
            json!({"spec": {"a": 1, "b": 1}}),
            json!([{"op": "remove", "path": "/spec/a"}]),
        ),
        (
            json!({"spec": {"a": {"b": null}}}),
            json!({"spec": {"a": {"b": 1}}, "kind": "X"}),
            json!([{"op": "remove", "path": "/spec"}]),
        ),
        (
            json!({"spec": {"list": ["a", "c"]}}),
            json!({"spec": {"list": ["a"]}}),
            json!([{"op": "add", "path": "/spec/list/1", "value": "c"}]),
        ),
        (
            json!({"spec": {"a": {"b": 1}}}),
            json!({"spec": {"a": "text"}}),
            json!([{"op": "replace", "path": "/spec/a", "value": {"b": 1}}]),
        ),
        (
            json!({"metadata": {"annotations": {"a/b~c": "x"}}}),
            json!({"metadata": {"annotations": {}}}),
            json!([{"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "x"}]),
        ),
    ] {
        assert_eq!(operations(merge.clone(), &body), expected, "{merge} {body}");
    }
}

#[test]
fn functions_run_after_the_merge_patch_in_order() {
    let mut patch = Patch::default();
    patch.set(&"spec.n".into(), json!(1));
    for factor in [10, 7] {
        patch.add_fn(PatchFn::new("scale", move |body| {
            body["spec"]["n"] = json!(body["spec"]["n"].as_i64().unwrap_or_default() * factor + 1);
            Ok(())
        }));
    }
    let operations = json_patch(&patch, &json!({"spec": {"n": 5}})).unwrap();
    assert_eq!(
        operations,
        [json!({"op": "replace", "path": "/spec/n", "value": 78})]
    );
}

#[test]
fn errors_name_the_failed_function() {
    let failing = |function: PatchFn| {
        let mut patch = Patch::default();
        patch.add_fn(function);
        json_patch(&patch, &json!({})).unwrap_err().to_string()
    };
    let errors = [
        failing(PatchFn::new("mine", |_| Err("no".into()))),
        failing(PatchFn::new("mine", |_| panic!("on purpose"))),
    ];
    assert!(
        errors.iter().all(|error| error.contains("mine")),
        "{errors:?}"
    );
    let replaced = failing(PatchFn::new("mine", |body| {
        *body = json!(1);
        Ok(())
    }));
    assert!(replaced.contains("not an object"), "{replaced}");
}
