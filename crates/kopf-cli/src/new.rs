//! `kopf new`: creates a project.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use kopf_shipping::scaffold::{Language, Origin, Project};

use crate::args::NewOptions;
use crate::failure::Failure;

/// Creates the project, and prints the next steps.
pub(crate) fn run(options: &NewOptions) -> Result<ExitCode, Failure> {
    let language = if options.python {
        Language::Python
    } else {
        Language::Rust
    };
    let failed = |error: &dyn std::error::Error| {
        let what = format!("cannot create the project {:?}", options.name);
        Failure::plain(what).because(error.to_string())
    };
    let origin = match &options.kopf_path {
        Some(path) => Origin::at(path, language).map_err(|error| failed(&error))?,
        None => Origin::Released,
    };
    let project = Project {
        name: options.name.clone(),
        language,
        origin,
    };
    let folder = options.path.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(&options.name));
    project.create(&folder).map_err(|error| failed(&error))?;
    // The project is complete, even if stdout is closed.
    let _ = std::io::stdout()
        .lock()
        .write_all(project.next_steps(&folder).as_bytes());
    Ok(ExitCode::SUCCESS)
}
