//! Programs that the compiler accepts or rejects: attributes, arguments, options.
//!
//! The messages are those of the pinned toolchain. After changes, update them with `UI=overwrite
//! cargo test -p kopf --test ui`. The accepted programs are modules of this test.

#![allow(dead_code, reason = "most of the code is only compiled")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    clippy::too_many_arguments,
    clippy::unnecessary_wraps,
    clippy::unused_async,
    reason = "the code is written like examples"
)]

#[path = "ui/pass/arguments.rs"]
mod arguments;
#[path = "ui/pass/closures.rs"]
mod closures;
#[path = "ui/pass/indices.rs"]
mod indices;
#[path = "ui/pass/names.rs"]
mod names;
#[path = "ui/pass/options.rs"]
mod options;
#[path = "ui/pass/overview.rs"]
mod overview;
#[path = "ui/rejected.rs"]
mod rejected;
#[path = "ui/pass/resources.rs"]
mod resources;
#[path = "ui/pass/results.rs"]
mod results;

#[test]
fn valid_programs_run() {
    arguments::main();
    closures::main();
    indices::main();
    names::main();
    options::main();
    overview::main();
    resources::main();
    results::main();
}

#[test]
fn declared_handlers_can_be_built() {
    let operator = kopf::Operator::builder().handlers_from_macros().build();
    let operator = format!("{:?}", operator.unwrap());
    for handler in [
        "selectors",
        "some-id",
        "create_items",
        "pods_by_app",
        "renamed",
        "other_errors",
        "typed",
    ] {
        assert!(operator.contains(handler), "{handler}");
    }
}

#[test]
fn invalid_programs_fail_with_messages() {
    let differences = rejected::compile(std::path::Path::new("tests/ui/fail")).unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn attributes_declare_handlers_in_the_order_of_the_list() {
    #[kopf::on::create("things", id = "made")]
    #[kopf::on::resume("things", id = "found")]
    fn first() {}
    #[kopf::timer("things", interval = "5m")]
    fn second() {}
    let handlers = format!("{:?}", kopf::handlers![second, first]);
    let places = ["second", "made", "found"].map(|name| handlers.find(name).unwrap());
    assert!(places.is_sorted(), "{handlers}");
    assert!(kopf::handlers![].is_empty());
}
