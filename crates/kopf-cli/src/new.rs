//! `kopf new`: creates a project.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use kopf_shipping::scaffold::{Language, Origin, Project};
use kopf_shipping::write_new;

use crate::args::NewOptions;
use crate::failure::Failure;

/// Creates the project, and prints the next steps.
pub(crate) fn run(options: &NewOptions) -> Result<ExitCode, Failure> {
    let language = if options.python {
        Language::Python
    } else {
        Language::Rust
    };
    let origin = match &options.kopf_path {
        Some(path) => {
            let found = std::fs::canonicalize(path);
            let what = format!("cannot find {}", path.display());
            Origin::Sources(found.map_err(|error| Failure::new(what, &error))?)
        }
        None => Origin::Released,
    };
    let project = Project {
        name: options.name.clone(),
        language,
        origin,
    };
    let failed = |error: &dyn std::error::Error| {
        let what = format!("cannot create the project {:?}", options.name);
        Failure::plain(what).because(error.to_string())
    };
    let files = project.files().map_err(|error| failed(&error))?;
    let folder = options.path.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(&options.name));
    write_new(&folder, &files).map_err(|error| failed(&error))?;
    // The project is complete, even if stdout is closed.
    let _ = std::io::stdout()
        .lock()
        .write_all(project.next_steps(&folder).as_bytes());
    Ok(ExitCode::SUCCESS)
}
