//! Invalid index functions and index arguments.

use kopf::prelude::*;

struct Opaque;

#[kopf::index("pods")]
fn no_entries() -> Opaque {
    Opaque
}

#[kopf::index("pods")]
fn nothing() {}

#[kopf::index("pods", interval = 5)]
fn wrong_option() -> (u8, u8) {
    (1, 2)
}

fn not_an_index() {}

#[kopf::on::create("things")]
fn asks(_: Index<not_an_index>) {}

fn main() {}
