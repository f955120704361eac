//! Types of options are checked.

#[kopf::on::create("things", retries = "three")]
fn retries() {}

#[kopf::on::create("things", timeout = "a minute")]
fn timeout() {}

#[kopf::on::create("things", backoff = -1)]
fn backoff() {}

#[kopf::on::create("things", id = 5)]
fn id() {}

#[kopf::on::create("things", errors = "permanent")]
fn errors() {}

#[kopf::on::create("things", labels = "app=web")]
fn labels() {}

#[kopf::on::create("things", labels = {app: "web"})]
fn label_keys() {}

#[kopf::on::create("things", labels = {"app": None})]
fn label_values() {}

#[kopf::on::create("things", field = 5)]
fn field() {}

#[kopf::on::create("things", when = true)]
fn when() {}

#[kopf::on::delete("things", optional = "yes")]
fn optional() {}

fn main() {}
