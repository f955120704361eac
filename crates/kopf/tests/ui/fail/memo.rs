//! Invalid memo values, and guards across an await.

use kopf::prelude::*;

struct Opaque;

#[kopf::on::create("things")]
fn asks(_: Memo<Opaque>) {}

#[kopf::on::create("things")]
async fn holds_on(memo: Memo<u32>) {
    let guard = memo.write();
    std::future::ready(()).await;
    drop(guard);
}

fn main() {}
