//! The operator that is tested.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn greet(Spec(spec): Spec, logger: Logger) -> kopf::Result<Value> {
    logger.info(format_args!("Here we are: {spec}"));
    if spec["slow"] == true {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    assert!(spec["worst"] != true, "worse than bad");
    if spec["bad"] == true {
        return Err(kopf::permanent("no good"));
    }
    Ok(json!({"hello": "world"}))
}

pub(crate) fn main(flavour: &OsStr) -> ExitCode {
    if flavour == "builder" {
        let mut builder = kopf::Operator::builder()
            .handlers_from_macros()
            .namespaces(["chosen"]);
        builder.settings_mut().networking.trust_env = false;
        return kopf::main_with(builder);
    }
    kopf::main()
}
