//! Arguments of sub-handlers are extractors.

use kopf::{SubHandlers, prelude::*};

#[kopf::on::create("things")]
fn create_fn(subs: SubHandlers) {
    subs.register("a", |size: u32| async move {
        let _ = size;
        Ok(())
    });
}

fn main() {}
