//! Checks that the manifests in the project of `kopf new` equal the output of its program.
//!
//! There is no test harness: with the variable [`OPERATOR`], this program is the operator.

use std::error::Error;
use std::process::{Command, ExitCode};

#[path = "../../../crates/kopf-shipping/templates/rust/lib.rs.template"]
#[allow(unreachable_pub)] // a library in the project
mod project;

/// Variable that makes this program the operator.
const OPERATOR: &str = "KOPF_TEST_OPERATOR";

const MANIFESTS: &str = include_str!("../../../crates/kopf-shipping/templates/rust/operator.yaml");

#[allow(clippy::print_stdout, clippy::print_stderr)] // it is a test
fn main() -> ExitCode {
    if std::env::var_os(OPERATOR).is_some() {
        return kopf::main(project::operator());
    }
    match manifests() {
        Ok(printed) if printed == MANIFESTS.replace("@NAME@", "my-operator") => ExitCode::SUCCESS,
        Ok(printed) => {
            println!("templates/rust/operator.yaml is outdated. The manifests are:\n{printed}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cannot print the manifests: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the output of the command in the README of the project.
fn manifests() -> Result<String, Box<dyn Error>> {
    let options = ["--name", "my-operator", "--namespace", "my-operator"];
    let output = Command::new(std::env::current_exe()?)
        .env(OPERATOR, "1")
        .args(["manifests", "--image", "my-operator:latest"])
        .args(options)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
