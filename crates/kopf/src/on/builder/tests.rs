//! Options of handlers and their validation.

use std::time::Duration;

use super::{AnyHandler, Front, Handler};
use crate::ErrorsMode;
use crate::prelude::*;
use crate::{Labels, PRESENT, Param, WatchEvent};
use kopf_core::handler::{HandlerKind, Retrying};

async fn make(_: Spec) {}

fn build(handler: impl Into<AnyHandler>) -> Result<Handler, String> {
    handler.into().build(&Front::default())
}

#[test]
fn ids_are_names_of_functions() {
    assert_eq!(&*build(on::create("x", make)).unwrap().id, "make");
    assert_eq!(
        &*build(on::create("x", make).id("other")).unwrap().id,
        "other"
    );
    assert_eq!(
        &*build(on::create("x", make).field("spec.size")).unwrap().id,
        "make/spec.size"
    );
    let error = build(on::create("x", |_: Spec| {})).unwrap_err();
    assert!(error.starts_with("a closure has no name"));
}

#[test]
fn options_reach_the_handler() {
    let handler = build(
        on::delete("x", make)
            .errors(ErrorsMode::Permanent)
            .timeout(1.5)
            .retries(3)
            .backoff(Duration::from_secs(2))
            .label("a", PRESENT)
            .annotations([("b", "c")])
            .field(["spec", "x"])
            .value(5)
            .when(|_: Labels| true)
            .param("param")
            .optional(true),
    )
    .unwrap();
    assert_eq!(
        handler.retrying,
        Retrying {
            errors: Some(ErrorsMode::Permanent),
            timeout: Some(Duration::from_millis(1500)),
            retries: Some(3),
            backoff: Some(Duration::from_secs(2)),
        }
    );
    assert_eq!(handler.kind, HandlerKind::Delete { optional: true });
    assert!(handler.filters.labels.contains_key("a"));
    assert!(handler.filters.annotations.contains_key("b"));
    assert!(handler.filters.value.is_some() && handler.filters.when.is_some());
    let param = handler.spec.param.unwrap();
    assert_eq!(param.downcast_ref::<&str>(), Some(&"param"));
}

#[test]
fn invalid_options_are_rejected() {
    let message = |handler: AnyHandler| build(handler).unwrap_err();
    assert!(message(on::create("", make).into()).contains("must not be an empty string"));
    assert!(message(on::field("x", make).into()).contains("field"));
    assert!(message(on::create("x", make).value(1).into()).contains("field"));
    let error = message(on::create("x", make).timeout(-1).into());
    assert!(error.starts_with("timeout: invalid duration -1"), "{error}");
    assert!(message(on::create("x", make).id("").into()).contains("empty id"));
    let both = on::update("x", make).field("f").value(1).old(2);
    assert!(message(both.into()).contains("not both"));
}

#[test]
fn unavailable_arguments_are_rejected() {
    fn needs_param(_: Param<i32>) {}
    fn needs_state(_: State<i32>) {}
    fn needs_change(_: Diff) {}
    fn needs_event(_: WatchEvent) {}
    fn needs_nothing(_: Option<State<i32>>, _: Option<Diff>, _: Option<WatchEvent>) {}
    let message = |handler: AnyHandler| build(handler).unwrap_err();
    assert!(
        message(on::create("x", needs_param).into())
            .contains("argument number 1: the handler has no param")
    );
    assert!(message(on::create("x", needs_param).param("").into()).contains("not of the type i32"));
    assert!(message(on::create("x", needs_state).into()).contains("no state of the type i32"));
    assert!(
        message(on::event("x", needs_change).into()).contains("Diff is for handlers of create")
    );
    assert!(message(on::create("x", needs_event).into()).contains("on::event only"));
    assert!(build(on::create("x", needs_param).param(1)).is_ok());
    assert!(build(on::event("x", needs_event)).is_ok());
    assert!(build(on::event("x", needs_nothing)).is_ok());
}

#[test]
fn unavailable_arguments_of_filters_are_rejected() {
    let message = |handler: AnyHandler| build(handler).unwrap_err();
    let of_state = |_: State<i32>| true;
    let of_value = |_: &Value, _: State<i32>| true;
    let of_diff = |diff: Diff| diff.is_empty();
    let no_state = "no state of the type i32";
    for (option, handler) in [
        ("when", on::create("x", make).when(of_state)),
        ("when", on::create("x", make).when(crate::not_(of_state))),
        ("label \"a\"", on::create("x", make).label("a", of_value)),
        (
            "annotation \"a\"",
            on::create("x", make).annotation("a", of_value),
        ),
        ("value", on::create("x", make).field("f").value(of_value)),
    ] {
        let error = message(handler.into());
        assert!(error.starts_with(&format!("{option}: ")), "{error}");
        assert!(error.contains(no_state), "{error}");
    }
    let both = crate::all_((|_: Spec| true, of_state));
    assert!(message(on::create("x", make).when(both).into()).contains(no_state));
    let error = message(crate::daemon("x", make).when(of_diff).into());
    assert!(
        error.starts_with("when: Diff is for handlers of create"),
        "{error}"
    );
    let delayed = crate::timer("x", make).initial_delay(|_: State<u64>| 5);
    let error = message(delayed.into());
    assert!(error.starts_with("initial_delay: "), "{error}");
    assert!(build(on::update("x", make).when(of_diff)).is_ok());
    assert!(build(crate::daemon("x", make).when(|_: Option<State<i32>>| true)).is_ok());
}
