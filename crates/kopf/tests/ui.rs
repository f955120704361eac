//! What the compiler accepts, and what it says otherwise: about attributes, arguments, options.
//!
//! The texts are those of the pinned toolchain; after a change, `TRYBUILD=overwrite cargo test -p kopf
//! --test ui` writes them anew. What is accepted is a part of this program: it is compiled with it, and
//! trybuild would have to build all of Kopf once more to run it.

#![allow(dead_code, reason = "most of it is there to be compiled")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    clippy::too_many_arguments,
    clippy::unnecessary_wraps,
    clippy::unused_async,
    reason = "it is written like examples"
)]

#[path = "ui/pass/arguments.rs"]
mod arguments;
#[path = "ui/pass/closures.rs"]
mod closures;
#[path = "ui/pass/face.rs"]
mod face;
#[path = "ui/pass/indices.rs"]
mod indices;
#[path = "ui/pass/names.rs"]
mod names;
#[path = "ui/pass/options.rs"]
mod options;
#[path = "ui/pass/resources.rs"]
mod resources;
#[path = "ui/pass/results.rs"]
mod results;

#[test]
fn what_is_accepted_stays_accepted() {
    arguments::main();
    closures::main();
    face::main();
    indices::main();
    names::main();
    options::main();
    resources::main();
    results::main();
}

#[test]
fn all_that_is_declared_can_be_built() {
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
fn messages_of_the_compiler_name_what_is_wrong_and_what_is_accepted() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
