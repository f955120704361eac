//! An operator that greets, to be tested. It is a library, so that its test can use it, too.

use kopf::prelude::*;
use kopf::{OperatorBuilder, on};

/// The operator, as it runs in production and in the test.
pub fn operator() -> OperatorBuilder {
    Operator::builder().handler(on::create("kopfexamples", greet).id("greet"))
}

/// Greets, as soon as somebody has said whom.
async fn greet(Spec(spec): Spec, retry: Retry) -> kopf::Result<Value> {
    let Some(name) = spec["greet"].as_str() else {
        return Err(kopf::temporary("nobody has said whom to greet").delay(60 * 60));
    };
    Ok(json!({"message": format!("Hello, {name}!"), "attempts": *retry + 1}))
}
