//! Invalid results of handlers.

struct Opaque;

#[kopf::on::create("things")]
async fn opaque() -> Opaque {
    Opaque
}

#[kopf::on::create("things")]
fn string_for_error() -> Result<(), String> {
    Err("no".to_owned())
}

fn main() {}
