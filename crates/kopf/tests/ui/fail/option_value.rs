//! Types of options that only the compiler can check have traits with messages.

use kopf::{Patch, prelude::*};

const LIMIT: &str = "1m";

#[kopf::on::create("things", timeout = LIMIT)]
fn timeout() {}

#[kopf::on::create("things", labels = {"app": 5})]
fn label() {}

#[kopf::on::create("things", field = "spec.x", value = vec![1])]
fn value() {}

fn needs_patch(_: Patch) -> bool {
    true
}

#[kopf::on::create("things", when = needs_patch)]
fn when() {}

fn main() {}
