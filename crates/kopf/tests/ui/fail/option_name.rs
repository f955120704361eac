//! Names of options are checked.

#[kopf::on::create("things", retrys = 3)]
fn misspelled() {}

#[kopf::on::create("things", interval = 3)]
fn unknown() {}

#[kopf::on::create("things", optional = true)]
fn of_another() {}

#[kopf::on::event("things", retries = 3)]
fn not_for_events() {}

#[kopf::on::create("things", retries = 3, retries = 4)]
fn twice() {}

#[kopf::on::delete("things", optional)]
fn without_a_value() {}

fn main() {}
