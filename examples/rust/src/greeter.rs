//! The operator of `09-testing`, in a library because its test uses it.

use kopf::prelude::*;
use kopf::{OperatorBuilder, on};

/// Returns the operator for the program and for the test.
pub fn operator() -> OperatorBuilder {
    Operator::builder().handler(on::create("kopfexamples", greet).id("greet"))
}

/// Returns a greeting. Fails temporarily without a name.
async fn greet(Spec(spec): Spec, retry: Retry) -> kopf::Result<Value> {
    let Some(name) = spec["greet"].as_str() else {
        return Err(kopf::temporary("spec.greet is not set").delay(60 * 60));
    };
    Ok(json!({"message": format!("Hello, {name}!"), "attempts": *retry + 1}))
}
