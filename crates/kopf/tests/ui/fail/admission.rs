//! Options of admission handlers.

#[kopf::on::validate("things", operations = ["PATCH"])]
fn unknown_operation() {}

#[kopf::on::validate("things", operations = [])]
fn no_operations() {}

#[kopf::on::mutate("things", operations = "CREATE")]
fn one_for_many() {}

#[kopf::on::mutate("things", operation = "ALL")]
fn many_for_one() {}

#[kopf::on::validate("things", retries = 3)]
fn retried() {}

#[kopf::on::create("things", persistent = true)]
fn not_asked() {}

#[kopf::on::validate("things", subresource = "")]
fn nothing() {}

fn main() {}
