//! Options that contradict or require each other.

#[kopf::on::update("things", field = "spec.x", value = 1, old = 2)]
fn value_and_old() {}

#[kopf::on::update("things", new = 2)]
fn new_without_field() {}

#[kopf::on::create("things", value = 2)]
fn value_without_field() {}

#[kopf::on::field("things")]
fn field_without_field() {}

fn main() {}
