//! What a handler can return.

struct Opaque;

#[kopf::on::create("things")]
async fn opaque() -> Opaque {
    Opaque
}

#[kopf::on::create("things")]
fn text_is_no_error() -> Result<(), String> {
    Err("no".to_owned())
}

fn main() {}
