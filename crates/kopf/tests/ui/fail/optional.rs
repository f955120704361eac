//! What is never absent cannot be optional.

use kopf::prelude::*;

#[kopf::on::create("things")]
async fn create_fn(body: Option<Body>) {
    let _ = body;
}

fn main() {}
