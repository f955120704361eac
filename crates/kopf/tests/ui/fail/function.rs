//! Functions and items that cannot be handlers.

#[kopf::on::create("things")]
struct NotAFunction;

#[kopf::on::create("things")]
fn generic<T>(_: T) {}

#[kopf::on::create("things")]
unsafe fn not_safe() {}

struct Operator;

impl Operator {
    #[kopf::on::create("things")]
    fn method(&self) {}
}

fn main() {}
