//! Tests of the selection of handlers, and their order.

use serde_json::{Value, json};

use super::*;
use crate::body::Body;
use crate::cause::{Change, EventType, Reason};
use crate::diff::diff;
use crate::filter::{Filters, MetaCriterion, ValueCriterion, when_fn};
use crate::handler::{FunctionId, HandlerSpec, Reconciliation};

const REASONS: [Reason; 7] = [
    Reason::Create,
    Reason::Update,
    Reason::Delete,
    Reason::Resume,
    Reason::Noop,
    Reason::Free,
    Reason::Gone,
];

fn spec(id: &str, kind: HandlerKind) -> HandlerSpec {
    let mut spec = HandlerSpec::new(id, FunctionId::Number(1), kind);
    spec.selector = Some(Selector::parse(&["things"]).unwrap());
    spec
}

fn built(id: &str, kind: HandlerKind) -> Handler<()> {
    spec(id, kind).build(()).unwrap()
}

fn resource() -> Resource {
    Resource {
        group: "g.example".into(),
        version: "v1".into(),
        plural: "things".into(),
        preferred: true,
        ..Resource::default()
    }
}

fn resource_handlers(handlers: impl IntoIterator<Item = Handler<()>>) -> ResourceHandlers<()> {
    handlers
        .into_iter()
        .collect::<Registry<()>>()
        .for_resource(&resource())
}

fn cause_of(reason: Reason, initial: bool, body: Value, old: Option<Value>) -> Cause {
    let new = json!({"spec": body["spec"]});
    Cause {
        resource: Arc::new(resource()),
        body: Body::new(body),
        event: Some(EventType::Modified),
        change: Some(Change {
            reason,
            initial,
            diff: diff(old.as_ref().unwrap_or(&Value::Null), &new),
            old: old.map(Arc::new),
            new: Some(Arc::new(new)),
            field: FieldPath::root(),
        }),
    }
}

fn cause(reason: Reason, initial: bool) -> Cause {
    let mut metadata = json!({"name": "x"});
    if reason == Reason::Delete || reason == Reason::Free {
        metadata["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    }
    let body = json!({"metadata": metadata, "spec": {"field": 1}});
    cause_of(reason, initial, body, Some(json!({"spec": {}})))
}

fn ids(handlers: &[Arc<Handler<()>>]) -> Vec<&str> {
    handlers.iter().map(|handler| &*handler.id).collect()
}

fn selected(handlers: &ResourceHandlers<()>, cause: &Cause) -> Vec<String> {
    let selected = handlers.selected(cause, &()).unwrap();
    ids(&selected).into_iter().map(str::to_owned).collect()
}

#[test]
fn handlers_are_selected_by_reason_in_the_order_of_registration() {
    let mut field = spec("field", HandlerKind::Field);
    field.filters.field = Some(FieldPath::parse("spec.field"));
    let handlers = resource_handlers([
        built("resume-deleted", HandlerKind::Resume { deleted: true }),
        built("resume", HandlerKind::Resume { deleted: false }),
        built("delete-optional", HandlerKind::Delete { optional: true }),
        built("delete", HandlerKind::Delete { optional: false }),
        built("update", HandlerKind::Update),
        field.build(()).unwrap(),
        built("create", HandlerKind::Create),
        built("event", HandlerKind::Event),
    ]);
    let field = "field/spec.field";
    for (reason, initial, expected) in [
        (Reason::Create, false, vec![field, "create"]),
        (Reason::Update, false, vec!["update", field]),
        (
            Reason::Update,
            true,
            vec!["resume-deleted", "resume", "update", field],
        ),
        (
            Reason::Delete,
            false,
            vec!["delete-optional", "delete", field],
        ),
        (
            Reason::Delete,
            true,
            vec!["resume-deleted", "delete-optional", "delete", field],
        ),
        (
            Reason::Resume,
            true,
            vec!["resume-deleted", "resume", field],
        ),
        (Reason::Noop, true, vec![]),
        (Reason::Free, true, vec![]),
        (Reason::Gone, true, vec![]),
    ] {
        assert_eq!(
            selected(&handlers, &cause(reason, initial)),
            expected,
            "{reason} {initial}"
        );
    }
}

#[test]
fn unchanged_field_is_not_handled() {
    let mut field = spec("field", HandlerKind::Field);
    field.filters.field = Some(FieldPath::parse("spec.field"));
    let mut create = spec("create", HandlerKind::Create);
    create.filters.field = Some(FieldPath::parse("spec.field"));
    let handlers = resource_handlers([field.build(()).unwrap(), create.build(()).unwrap()]);

    let body = || json!({"spec": {"field": 1, "other": 2}});
    let unchanged = Some(json!({"spec": {"field": 1, "other": 1}}));
    let update = cause_of(Reason::Update, false, body(), unchanged);
    assert_eq!(selected(&handlers, &update), [""; 0]);
    // On creation, the field is added, which is a change.
    let create = cause_of(Reason::Create, false, body(), None);
    assert_eq!(
        selected(&handlers, &create),
        ["field/spec.field", "create/spec.field"]
    );
    let nothing = cause_of(Reason::Create, false, json!({"spec": {}}), None);
    assert_eq!(selected(&handlers, &nothing), [""; 0]);
}

#[test]
fn one_function_runs_once_per_id_and_the_first_declaration_wins() {
    let mut first = spec("fn", HandlerKind::Resume { deleted: false });
    first.retrying.retries = Some(7);
    let mut field = spec("fn", HandlerKind::Update);
    field.filters.field = Some(FieldPath::parse("spec.field"));
    let mut another = spec("fn", HandlerKind::Update);
    another.function = FunctionId::Number(2);
    let handlers = resource_handlers([
        first.build(()).unwrap(),
        built("fn", HandlerKind::Update),
        field.build(()).unwrap(),
        built("other-id", HandlerKind::Update),
        another.build(()).unwrap(),
    ]);
    let both = handlers
        .selected(&cause(Reason::Update, true), &())
        .unwrap();
    assert_eq!(ids(&both), ["fn", "fn/spec.field", "other-id", "fn"]);
    assert_eq!(both[0].retrying.retries, Some(7));
    assert_eq!(both[3].function, FunctionId::Number(2));
    // Without resuming, the second declaration is selected.
    let update = handlers
        .selected(&cause(Reason::Update, false), &())
        .unwrap();
    assert_eq!(ids(&update), ["fn", "fn/spec.field", "other-id", "fn"]);
    assert_eq!(update[0].retrying.retries, None);
    // The records on objects are identified by id only.
    let owned: Vec<&str> = handlers
        .owned(Reason::Update)
        .iter()
        .map(|id| &**id)
        .collect();
    assert_eq!(owned, ["fn", "fn/spec.field", "other-id"]);
}

#[test]
fn declaration_that_does_not_match_does_not_hide_the_next_one() {
    let mut filtered = spec("fn", HandlerKind::Create);
    filtered.filters.when = Some(when_fn(|_, _| Ok(false)));
    let handlers = resource_handlers([
        filtered.build(()).unwrap(),
        built("fn", HandlerKind::Create),
    ]);
    assert_eq!(selected(&handlers, &cause(Reason::Create, false)), ["fn"]);
}

#[test]
fn handlers_of_other_resources_are_not_selected() {
    let mut other = spec("other", HandlerKind::Create);
    other.selector = Some(Selector::parse(&["others"]).unwrap());
    other.filters.field = Some(FieldPath::parse("status.other"));
    let mut field = spec("field", HandlerKind::Field);
    field.filters.field = Some(FieldPath::parse("status.x"));
    let mut watching = spec("watching", HandlerKind::Event);
    watching.filters.field = Some(FieldPath::parse("status.y"));
    let registry: Registry<()> = [
        other.build(()).unwrap(),
        field.clone().build(()).unwrap(),
        field.build(()).unwrap(),
        watching.build(()).unwrap(),
    ]
    .into_iter()
    .collect();
    let kind = registry.for_resource(&resource());
    assert_eq!(ids(&kind.changing), ["field/status.x", "field/status.x"]);
    assert_eq!(ids(&kind.watching), ["watching/status.y"]);
    assert_eq!(
        kind.extra_fields,
        ["status.y", "status.x"].map(FieldPath::parse)
    );
    assert_eq!(registry.selectors().count(), 4);
    assert_eq!(registry.handlers().len(), 4);
    assert!(!registry.is_empty() && Registry::<()>::default().is_empty());
}

#[test]
fn watching_is_for_all_events_that_match() {
    let mut filtered = spec("filtered", HandlerKind::Event);
    filtered.filters.labels = [("a".to_owned(), MetaCriterion::Present)].into();
    let handlers = resource_handlers([
        built("create", HandlerKind::Create),
        built("all", HandlerKind::Event),
        filtered.build(()).unwrap(),
        built("all", HandlerKind::Event),
    ]);
    let mut event = cause(Reason::Noop, false);
    event.change = None;
    let watching = |event: &Cause| {
        handlers.watching_for(event, &(), |error| panic!("no filter can fail: {error}"))
    };
    assert_eq!(ids(&watching(&event)), ["all"]);
    event.body = Body::new(json!({"metadata": {"labels": {"a": ""}}}));
    assert_eq!(ids(&watching(&event)), ["all", "filtered"]);
}

#[test]
fn failing_filter_of_an_event_handler_does_not_affect_others() {
    let mut failing = spec("failing", HandlerKind::Event);
    failing.filters.when = Some(when_fn(|_: &Cause, _| Err("no answer".into())));
    let mut panicking = spec("panicking", HandlerKind::Event);
    panicking.filters.when = Some(when_fn(|_: &Cause, _| panic!("oops")));
    let handlers = resource_handlers([
        failing.build(()).unwrap(),
        built("one", HandlerKind::Event),
        panicking.build(()).unwrap(),
        built("two", HandlerKind::Event),
    ]);
    let mut event = cause(Reason::Noop, false);
    event.change = None;
    let mut errors = Vec::new();
    let selected = handlers.watching_for(&event, &(), |error| errors.push(error));
    assert_eq!(ids(&selected), ["one", "two"]);
    let failed: Vec<_> = errors.iter().map(|error| &*error.handler).collect();
    assert_eq!(failed, ["failing", "panicking"]);
    assert_eq!(errors[1].source.to_string(), "it has panicked: oops");
}

#[test]
fn panicking_filters_are_errors_with_the_handler_id() {
    let mut panicking = spec("panicking", HandlerKind::Create);
    panicking.filters.when = Some(when_fn(|_: &Cause, _| panic!("oops")));
    let handlers = resource_handlers([panicking.build(()).unwrap()]);
    let cause = cause(Reason::Create, false);
    let error = handlers.selected(&cause, &()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the when filter of the handler \"panicking\" has failed"
    );
    assert!(handlers.prematches_any(&cause, &()).is_err());
}

fn labelled(kind: HandlerKind) -> Handler<()> {
    let mut spec = spec("fn", kind);
    spec.filters.labels = [("go".to_owned(), MetaCriterion::from("yes"))].into();
    spec.build(()).unwrap()
}

fn with_label(reason: Reason, go: &str) -> Cause {
    let body = json!({"metadata": {"labels": {"go": go}}, "spec": {"field": 1}});
    cause_of(reason, false, body, None)
}

#[test]
fn objects_without_matching_handlers_are_ignored() {
    let handlers =
        resource_handlers([labelled(HandlerKind::Create), labelled(HandlerKind::Update)]);
    for reason in REASONS {
        let prematched = |go: &str| {
            handlers
                .prematches_any(&with_label(reason, go), &())
                .unwrap()
        };
        assert!(prematched("yes"), "{reason}");
        assert!(!prematched("no"), "{reason}");
    }
    let watching = resource_handlers([built("event", HandlerKind::Event)]);
    assert!(
        !watching
            .prematches_any(&cause(Reason::Create, false), &())
            .unwrap()
    );
}

#[test]
fn prematch_ignores_changes() {
    let mut spec = spec("field", HandlerKind::Field);
    spec.filters = Filters {
        field: Some(FieldPath::parse("spec.field")),
        old: Some(ValueCriterion::from("never")),
        ..Filters::default()
    };
    let handlers = resource_handlers([spec.build(()).unwrap()]);
    let cause = cause(Reason::Update, false);
    assert_eq!(selected(&handlers, &cause), [""; 0]);
    assert!(handlers.prematches_any(&cause, &()).unwrap());
}

#[test]
fn matching_mandatory_deletion_handlers_require_the_finalizer() {
    let required = |kind: HandlerKind, reason: Reason, go: &str| {
        let handlers = resource_handlers([labelled(kind)]);
        handlers
            .requires_finalizer(&with_label(reason, go), &())
            .unwrap()
    };
    for reason in REASONS {
        assert!(
            required(HandlerKind::Delete { optional: false }, reason, "yes"),
            "{reason}"
        );
        assert!(
            !required(HandlerKind::Delete { optional: false }, reason, "no"),
            "{reason}"
        );
        assert!(
            !required(HandlerKind::Delete { optional: true }, reason, "yes"),
            "{reason}"
        );
        assert!(!required(HandlerKind::Create, reason, "yes"), "{reason}");
    }
}

#[test]
fn filter_errors_are_returned() {
    let mut failing = spec("failing", HandlerKind::Delete { optional: false });
    failing.filters.when = Some(when_fn(|_, _| Err("boom".into())));
    let handlers = resource_handlers([failing.build(()).unwrap()]);
    let cause = cause(Reason::Delete, false);
    assert!(handlers.selected(&cause, &()).is_err());
    assert!(handlers.prematches_any(&cause, &()).is_err());
    assert!(handlers.requires_finalizer(&cause, &()).is_err());
}

#[test]
fn sub_handlers_are_selected_by_their_filters_alone() {
    let sub = |id: &str, field: Option<&str>| {
        let mut spec = HandlerSpec::new(
            id,
            FunctionId::Number(1),
            HandlerKind::Sub { needs_change: true },
        );
        spec.filters.field = field.map(FieldPath::parse);
        Arc::new(spec.build(()).unwrap())
    };
    let subs = [
        sub("parent/a", None),
        sub("parent/b", Some("spec.field")),
        sub("parent/c", Some("spec.absent")),
        sub("parent/a", None),
    ];
    for reason in [
        Reason::Create,
        Reason::Update,
        Reason::Delete,
        Reason::Resume,
    ] {
        let selected = select_from(&subs, &cause(reason, false), &()).unwrap();
        assert_eq!(ids(&selected), ["parent/a", "parent/b"], "{reason}");
    }
}

#[test]
fn admission_handlers_are_selected_for_admission_only() {
    use crate::admission::WebhookType;
    let types = [WebhookType::Validating, WebhookType::Mutating];
    let webhooks = types.map(|type_| {
        let mut spec = spec("webhook", HandlerKind::Admission(type_));
        spec.filters.field = Some(FieldPath::parse("status.x"));
        spec.build(()).unwrap()
    });
    let handlers = resource_handlers(webhooks);
    let ResourceHandlers {
        indexing,
        watching,
        spawning,
        changing,
        reconciling,
        child_watching,
        is_owned,
        is_reconciled,
        extra_fields,
        owned,
        owned_at_deletion,
    } = &handlers;
    let all = [
        indexing,
        watching,
        spawning,
        changing,
        reconciling,
        child_watching,
    ];
    assert!(!is_owned && !is_reconciled);
    assert!(all.iter().all(|handlers| handlers.is_empty()));
    assert!(extra_fields.is_empty() && owned.is_empty() && owned_at_deletion.is_empty());
    assert!(
        !handlers
            .requires_finalizer(&cause(Reason::Create, false), &())
            .unwrap()
    );
}

#[test]
fn reconcile_handlers_are_a_part_of_deletions_if_they_have_a_finalizer() {
    let reconcile = |finalizer| {
        let every = None;
        HandlerKind::Reconcile(Reconciliation { every, finalizer })
    };
    let handlers = resource_handlers([
        built("plain", reconcile(false)),
        built("held", reconcile(true)),
        built("made", HandlerKind::Create),
    ]);
    let (create, delete) = (cause(Reason::Create, false), cause(Reason::Delete, false));
    let selected = |cause| ids(&handlers.selected(cause, &()).unwrap()).join(" ");
    assert_eq!(selected(&create), "made");
    assert_eq!(selected(&delete), "held");
    let reconciling = handlers.reconciling_for(&create, &()).unwrap();
    assert_eq!(ids(&reconciling), ["plain", "held"]);
    assert!(handlers.reconciles_deletion(&create, &()).unwrap());
    assert!(!handlers.requires_finalizer(&create, &()).unwrap());
    assert_eq!(handlers.owned(Reason::Update).len(), 1);
    assert_eq!(handlers.owned(Reason::Delete).len(), 3);
    assert!(!handlers.look_at_essences_only());
}

fn owning(id: &str, kind: HandlerKind, parent: Option<&str>) -> Handler<()> {
    let mut spec = HandlerSpec::new(id, FunctionId::Number(1), kind);
    spec.selector = parent.map(|parent| Selector::parse(&[parent]).unwrap());
    spec.owns = vec![Selector::parse(&["pods"]).unwrap()];
    spec.build(()).unwrap()
}

fn named(plural: &str) -> Resource {
    Resource {
        plural: plural.into(),
        ..resource()
    }
}

#[test]
fn children_belong_to_the_resources_of_other_handlers() {
    let registry: Registry<()> = [
        built("create", HandlerKind::Create),
        owning("any", HandlerKind::Child, None),
        owning("named", HandlerKind::Child, Some("others")),
    ]
    .into_iter()
    .collect();
    let ids = |plural: &str| -> Vec<String> {
        let handlers = registry.for_resource(&named(plural));
        let ids = handlers.child_watching.iter();
        ids.map(|handler| handler.id.to_string()).collect()
    };
    assert_eq!(ids("things"), ["any"]);
    assert_eq!(ids("others"), ["named"]);
    assert_eq!(ids("pods"), [""; 0]);
    let things = registry.for_resource(&named("things"));
    assert!(things.is_owner() && !things.is_owned && !things.look_at_essences_only());
    let pods = registry.for_resource(&named("pods"));
    assert!(pods.is_owned && !pods.is_owner() && !pods.look_at_essences_only());
    let cause = cause(Reason::Noop, false);
    let of = |child: &str| {
        let failed = |error| panic!("{error}");
        things
            .child_watching_for(&named(child), &cause, &(), failed)
            .len()
    };
    assert_eq!((of("pods"), of("jobs")), (1, 0));
    assert!(
        registry
            .selectors()
            .any(|selector| selector.check(&named("pods")))
    );
}

#[test]
fn owned_objects_wake_the_handlers_that_declare_them() {
    let registry: Registry<()> = [
        built("plain", HandlerKind::Create),
        owning("waiting", HandlerKind::Create, Some("things")),
    ]
    .into_iter()
    .collect();
    let handlers = registry.for_resource(&resource());
    let woken = |child: &str| {
        handlers
            .woken_by(&named(child))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(woken("pods"), [Arc::from("waiting")]);
    assert!(woken("things").is_empty());
    assert!(handlers.is_owner());
}
