//! Invalid results of handlers.

struct Opaque;

#[kopf::on::create("things")]
async fn opaque() -> Opaque {
    Opaque
}

#[kopf::on::create("things")]
fn number_for_error() -> Result<(), u32> {
    Err(5)
}

fn main() {}
