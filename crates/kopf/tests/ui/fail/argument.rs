//! Errors point at arguments that are not extractors.

use kopf::{Body, prelude::*};

#[kopf::on::create("things")]
async fn create_fn(Name(name): Name, size: u32) {
    let _ = (name, size);
}

#[kopf::on::create("things")]
fn by_reference(body: &Body) {
    let _ = body;
}

fn main() {}
