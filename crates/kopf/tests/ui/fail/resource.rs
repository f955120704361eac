//! A resource is required.

#[kopf::on::create]
fn nothing() {}

#[kopf::on::create(retries = 3)]
fn only_options() {}

#[kopf::on::create(group = "kopf.dev")]
fn only_a_group() {}

#[kopf::on::create(5)]
fn a_number() {}

#[kopf::on::create("")]
fn empty() {}

#[kopf::on::create("a", "b", "c", "d")]
fn too_many() {}

#[kopf::on::create("things", kind = "Thing")]
fn two_names() {}

#[kopf::on::create(retries = 3, "things")]
fn after_options() {}

#[kopf::on::create(String)]
fn a_type_without_a_resource() {}

fn main() {}
