//! Options and results of reconcile handlers.

#[kopf::on::reconcile("things", every = "0s")]
fn always() {}

#[kopf::on::reconcile("things", every = "often")]
fn often() {}

#[kopf::on::reconcile("things", field = "spec.field")]
fn fielded() {}

#[kopf::on::reconcile("things", old = "x")]
fn compared() {}

#[kopf::on::reconcile(every = "5m")]
fn of_nothing() {}

#[kopf::on::reconcile("things", owns = [])]
fn owns_nothing() {}

#[kopf::on::create("things", every = "5m")]
fn periodic_creation() {}

#[kopf::on::reconcile("things")]
fn results() -> String {
    String::new()
}

fn main() {}
