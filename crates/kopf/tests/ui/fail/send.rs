//! Values that are not `Send` cannot be held across an await.

use std::rc::Rc;

use kopf::prelude::*;

async fn elsewhere() {}

#[kopf::on::create("things")]
async fn create_fn(Name(name): Name) {
    let name = Rc::new(name);
    elsewhere().await;
    let _ = name;
}

fn main() {}
