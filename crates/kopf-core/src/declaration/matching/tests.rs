//! Truth tables of all filters.

use serde_json::json;

use super::*;
use crate::body::Body;
use crate::cause::{EventType, Reason};
use crate::diff::diff;
use crate::filter::{ValueFilter, value_fn, when_fn};
use crate::handler::{FunctionId, HandlerSpec};
use crate::resource::Resource;
use crate::selector::Selector;

fn handler(kind: HandlerKind, filters: Filters) -> Handler<()> {
    let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
    spec.selector = Some(Selector::everything());
    spec.filters = filters;
    spec.build(()).unwrap()
}

fn resource() -> Arc<Resource> {
    Arc::new(Resource {
        plural: "things".into(),
        preferred: true,
        ..Resource::default()
    })
}

fn event(body: Value) -> Cause {
    Cause {
        resource: resource(),
        body: Body::new(body),
        event: Some(EventType::Modified),
        change: None,
    }
}

/// Returns a change of `spec.field` from one value to another, each possibly absent.
fn changed(old: Option<Value>, new: Option<Value>) -> Cause {
    let essence = |value: Option<Value>| match value {
        Some(value) => json!({"spec": {"field": value, "other": 1}}),
        None => json!({"spec": {"other": 1}}),
    };
    let (old, new) = (essence(old), essence(new));
    Cause {
        change: Some(Change {
            reason: Reason::Update,
            initial: false,
            diff: diff(&old, &new),
            old: Some(Arc::new(old)),
            new: Some(Arc::new(new.clone())),
            field: FieldPath::root(),
        }),
        ..event(new)
    }
}

fn is_matched(handler: &Handler<()>, cause: &Cause) -> bool {
    matches(handler, cause, &()).unwrap()
}

fn with_field() -> Filters {
    Filters {
        field: Some(FieldPath::parse("spec.field")),
        ..Filters::default()
    }
}

/// Returns a filter that accepts exactly this value; absent ones are null.
fn accepting(accepted: Value) -> Arc<dyn ValueFilter> {
    value_fn(move |value, _, _| Ok(*value == accepted))
}

#[test]
fn metadata() {
    let absent = || None;
    let empty = || Some("");
    let other = || Some("other");
    let exact = || Some("value");
    // The criterion, then: absent, empty, another, the same.
    let table = [
        (MetaCriterion::from("value"), [false, false, false, true]),
        (MetaCriterion::from(""), [false, true, false, false]),
        (MetaCriterion::Present, [false, true, true, true]),
        (MetaCriterion::Absent, [true, false, false, false]),
        (
            MetaCriterion::Callback(accepting(json!("value"))),
            [false, false, false, true],
        ),
        (
            MetaCriterion::Callback(accepting(json!(null))),
            [true, false, false, false],
        ),
    ];
    for (criterion, expected) in table {
        for place in ["labels", "annotations"] {
            let criteria = BTreeMap::from([("key".to_owned(), criterion.clone())]);
            let mut filters = Filters::default();
            if place == "labels" {
                filters.labels = criteria;
            } else {
                filters.annotations = criteria;
            }
            let handler = handler(HandlerKind::Create, filters);
            let actual = [absent(), empty(), other(), exact()].map(|value: Option<&str>| {
                let mut metadata = json!({place: {"unrelated": "x"}});
                if let Some(value) = value {
                    metadata[place]["key"] = json!(value);
                }
                is_matched(&handler, &event(json!({"metadata": metadata})))
            });
            assert_eq!(actual, expected, "{criterion:?} in {place}");
        }
    }
}

#[test]
fn all_criteria_have_to_match() {
    let labels = [("a", MetaCriterion::Present), ("b", MetaCriterion::Absent)];
    let filters = Filters {
        labels: labels
            .map(|(key, criterion)| (key.to_owned(), criterion))
            .into(),
        ..Filters::default()
    };
    let handler = handler(HandlerKind::Create, filters);
    let labelled = |labels: Value| event(json!({"metadata": {"labels": labels}}));
    assert!(is_matched(&handler, &labelled(json!({"a": "1"}))));
    assert!(!is_matched(
        &handler,
        &labelled(json!({"a": "1", "b": "2"}))
    ));
    assert!(!is_matched(&handler, &labelled(json!({}))));
    assert!(!is_matched(&handler, &event(json!({}))));
}

/// The value filter of handlers of objects: absent, another, the same.
#[test]
fn values_of_objects() {
    let table = [
        (None, [false, true, true]),
        (Some(ValueCriterion::Present), [false, true, true]),
        (Some(ValueCriterion::Absent), [true, false, false]),
        (Some(ValueCriterion::from("x")), [false, false, true]),
        (
            Some(ValueCriterion::Callback(accepting(json!("x")))),
            [false, false, true],
        ),
        (
            Some(ValueCriterion::Callback(accepting(json!(null)))),
            [true, false, false],
        ),
    ];
    for (value, expected) in table {
        let text = format!("{value:?}");
        let filters = Filters {
            value,
            ..with_field()
        };
        let handler = handler(HandlerKind::Event, filters);
        let bodies = [
            json!({}),
            json!({"spec": {"field": "y"}}),
            json!({"spec": {"field": "x"}}),
        ];
        let actual = bodies.map(|body| is_matched(&handler, &event(body)));
        assert_eq!(actual, expected, "{text}");
    }
}

/// The value filter of change handlers: either side of the change suffices.
#[test]
fn values_of_changes() {
    let x = || Some(json!("x"));
    let y = || Some(json!("y"));
    // From absent to absent, x to absent, absent to x, y to x, x to y, y to y.
    let table = [
        (None, [false, true, true, true, true, true]),
        (
            Some(ValueCriterion::Present),
            [false, true, true, true, true, true],
        ),
        (
            Some(ValueCriterion::Absent),
            [true, true, true, false, false, false],
        ),
        (
            Some(ValueCriterion::from("x")),
            [false, true, true, true, true, false],
        ),
        (
            Some(ValueCriterion::Callback(accepting(json!("x")))),
            [false, true, true, true, true, false],
        ),
        (
            Some(ValueCriterion::Callback(accepting(json!(null)))),
            [true, true, true, false, false, false],
        ),
    ];
    for (value, expected) in table {
        let text = format!("{value:?}");
        let filters = Filters {
            value,
            ..with_field()
        };
        // A creation handler does not need the field to be changed.
        let handler = handler(HandlerKind::Create, filters);
        let causes = [
            changed(None, None),
            changed(x(), None),
            changed(None, x()),
            changed(y(), x()),
            changed(x(), y()),
            changed(y(), y()),
        ];
        assert_eq!(
            causes.map(|cause| is_matched(&handler, &cause)),
            expected,
            "{text}"
        );
    }
}

#[test]
fn new_value_is_checked_first() {
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let filters = Filters {
        value: Some(ValueCriterion::Callback(value_fn(move |value, _, _| {
            log.lock().unwrap().push(value.clone());
            Ok(*value == json!("new"))
        }))),
        ..with_field()
    };
    let handler = handler(HandlerKind::Create, filters);
    assert!(is_matched(
        &handler,
        &changed(Some(json!("old")), Some(json!("new")))
    ));
    assert_eq!(*asked.lock().unwrap(), [json!("new")]);
    assert!(is_matched(&handler, &changed(Some(json!("new")), None)));
    assert_eq!(
        *asked.lock().unwrap(),
        [json!("new"), json!(null), json!("new")]
    );
}

#[test]
fn event_handlers_match_the_object_even_with_a_change() {
    let filters = Filters {
        value: Some(ValueCriterion::from("old")),
        ..with_field()
    };
    let handler = handler(HandlerKind::Event, filters);
    assert!(!is_matched(
        &handler,
        &changed(Some(json!("old")), Some(json!("new")))
    ));
}

#[test]
fn fields_must_change_for_updates_and_field_handlers_only() {
    let same = changed(Some(json!(1)), Some(json!(1.0)));
    let different = changed(Some(json!(1)), Some(json!(2)));
    let added = changed(None, Some(json!(1)));
    let removed = changed(Some(json!(1)), None);
    for kind in [
        HandlerKind::Create,
        HandlerKind::Update,
        HandlerKind::Delete { optional: false },
        HandlerKind::Resume { deleted: false },
        HandlerKind::Field,
        HandlerKind::Sub {
            needs_change: false,
        },
        HandlerKind::Sub { needs_change: true },
    ] {
        let handler = handler(kind, with_field());
        assert_eq!(
            is_matched(&handler, &same),
            !kind.needs_field_change(),
            "{kind:?}"
        );
        for cause in [&different, &added, &removed] {
            assert!(is_matched(&handler, cause), "{kind:?}");
        }
        assert!(prematches(&handler, &same, &()).unwrap(), "{kind:?}");
    }
}

#[test]
fn updates_without_a_field_need_no_change_of_it() {
    let handler = handler(HandlerKind::Update, Filters::default());
    assert!(is_matched(
        &handler,
        &changed(Some(json!(1)), Some(json!(1)))
    ));
}

/// Tests the criteria of each side: absent, another, the same.
#[test]
fn old_and_new() {
    let table = [
        (None, [true, true, true]),
        (Some(ValueCriterion::Present), [false, true, true]),
        (Some(ValueCriterion::Absent), [true, false, false]),
        (Some(ValueCriterion::from("x")), [false, false, true]),
        (
            Some(ValueCriterion::Callback(accepting(json!("x")))),
            [false, false, true],
        ),
        (
            Some(ValueCriterion::Callback(accepting(json!(null)))),
            [true, false, false],
        ),
    ];
    let values = || [None, Some(json!("y")), Some(json!("x"))];
    for (criterion, expected) in table {
        let old = handler(
            HandlerKind::Field,
            Filters {
                old: criterion.clone(),
                ..with_field()
            },
        );
        let new = handler(
            HandlerKind::Field,
            Filters {
                new: criterion.clone(),
                ..with_field()
            },
        );
        // The other side differs, so that there is a change.
        let other = || Some(json!("z"));
        let from = values().map(|value| is_matched(&old, &changed(value, other())));
        let to = values().map(|value| is_matched(&new, &changed(other(), value)));
        assert_eq!((from, to), (expected, expected), "{criterion:?}");
    }
}

#[test]
fn prematch_ignores_old_and_new() {
    let filters = Filters {
        old: Some(ValueCriterion::from("x")),
        new: Some(ValueCriterion::from("y")),
        ..with_field()
    };
    let handler = handler(HandlerKind::Field, filters);
    let cause = changed(Some(json!("a")), Some(json!("b")));
    assert!(!is_matched(&handler, &cause));
    assert!(prematches(&handler, &cause, &()).unwrap());
    assert!(is_matched(
        &handler,
        &changed(Some(json!("x")), Some(json!("y")))
    ));
    assert!(!is_matched(
        &handler,
        &changed(Some(json!("x")), Some(json!("b")))
    ));
}

#[test]
fn old_value_is_absent_without_a_diffbase() {
    let mut cause = changed(None, Some(json!("x")));
    if let Some(change) = &mut cause.change {
        change.old = None;
    }
    let value = |value| Filters {
        value: Some(value),
        ..with_field()
    };
    assert!(is_matched(
        &handler(HandlerKind::Field, with_field()),
        &cause
    ));
    assert!(is_matched(
        &handler(HandlerKind::Create, value(ValueCriterion::Absent)),
        &cause
    ));
    assert!(is_matched(
        &handler(HandlerKind::Create, value("x".into())),
        &cause
    ));
}

#[test]
fn field_below_a_scalar_is_absent() {
    let filters = Filters {
        field: Some(FieldPath::parse("spec.field.deeper")),
        ..Filters::default()
    };
    let handler = handler(HandlerKind::Create, filters);
    assert!(!is_matched(
        &handler,
        &changed(Some(json!("x")), Some(json!([1])))
    ));
}

#[test]
fn selector_is_checked_first_and_the_function_last() {
    let panics = when_fn(|_, _| panic!("must not be asked"));
    let filters = Filters {
        labels: [("a".to_owned(), MetaCriterion::Present)].into(),
        when: Some(panics),
        ..Filters::default()
    };
    let mut handler = handler(HandlerKind::Create, filters);
    assert!(!is_matched(&handler, &event(json!({}))));
    handler.spec.selector = Some(Selector::parse(&["others"]).unwrap());
    let labelled = event(json!({"metadata": {"labels": {"a": "1"}}}));
    assert!(!is_matched(&handler, &labelled));
    assert!(!prematches(&handler, &labelled, &()).unwrap());
}

#[test]
fn when_function_applies_to_matches_and_prematches() {
    for answer in [false, true] {
        let filters = Filters {
            when: Some(when_fn(move |_, _| Ok(answer))),
            ..Filters::default()
        };
        let handler = handler(HandlerKind::Create, filters);
        let cause = event(json!({}));
        assert_eq!(is_matched(&handler, &cause), answer);
        assert_eq!(prematches(&handler, &cause, &()).unwrap(), answer);
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn errors_name_the_handler_and_the_filter() {
    let failing = || value_fn(|_, _, _| Err("boom".into()));
    let meta = || BTreeMap::from([("key".to_owned(), MetaCriterion::Callback(failing()))]);
    let value = || Some(ValueCriterion::Callback(failing()));
    let base = Filters::default;
    let filters = [
        (
            "labels",
            Filters {
                labels: meta(),
                ..base()
            },
        ),
        (
            "annotations",
            Filters {
                annotations: meta(),
                ..base()
            },
        ),
        (
            "value",
            Filters {
                value: value(),
                ..with_field()
            },
        ),
        (
            "old",
            Filters {
                old: value(),
                ..with_field()
            },
        ),
        (
            "new",
            Filters {
                new: value(),
                ..with_field()
            },
        ),
        (
            "when",
            Filters {
                when: Some(when_fn(|_, _| Err("boom".into()))),
                ..base()
            },
        ),
    ];
    for (filter, filters) in filters {
        let handler = handler(
            HandlerKind::Field,
            Filters {
                field: Some(FieldPath::parse("spec.field")),
                ..filters
            },
        );
        let error = matches(&handler, &changed(None, Some(json!(1))), &()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the {filter} filter of the handler \"fn/spec.field\" has failed")
        );
        assert_eq!(
            std::error::Error::source(&error).unwrap().to_string(),
            "boom"
        );
    }
}
