//! All types of results.

use std::collections::BTreeMap;

use kopf::Json;
use kopf::prelude::*;
use kopf::serde::Serialize;

#[derive(Serialize)]
struct Made {
    name: String,
}

#[kopf::on::create("things")]
async fn nothing() {}

#[kopf::on::create("things")]
async fn a_type() -> kopf::Result<Made> {
    Ok(Made { name: "x".into() })
}

#[kopf::on::create("things")]
fn perhaps() -> Option<Made> {
    None
}

#[kopf::on::create("things")]
fn other_errors() -> Result<u32, std::num::ParseIntError> {
    "x".parse()
}

#[kopf::on::create("things")]
fn any_errors() -> kopf::Result<()> {
    let number: u32 = "5".parse()?;
    let text = String::from_utf8(vec![0])?;
    let _: Value = kopf::serde_json::from_str(&text)?;
    if number > 3 {
        Err(kopf::permanent("too many"))?;
    }
    Err(kopf::temporary("too few").delay(3.5))
}

#[kopf::on::create("things")]
fn plain() -> BTreeMap<String, Vec<u32>> {
    BTreeMap::new()
}

#[kopf::on::create("things")]
fn wrapped() -> Json<Made> {
    Json(Made { name: "x".into() })
}

pub(crate) fn main() {}
