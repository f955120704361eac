//! The builder functions reject the same mistakes.

use kopf::{Patch, prelude::*};

fn handler() {}

fn main() {
    let _ = on::create("things", |size: u32| {
        let _ = size;
    });
    let _ = on::create(5, handler);
    let _ = on::create("things", handler).optional(true);
    let _ = on::create("things", handler).old("x");
    let _ = on::event("things", handler).retries(3);
    let _ = on::create("things", handler).timeout("1m");
    let _ = on::create("things", handler).when(|patch: Patch| {
        let _ = patch;
        true
    });
}
