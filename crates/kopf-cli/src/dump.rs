//! `kopf sandbox export` and `kopf sandbox import`: the objects of a data folder as one list.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use kopf_sandbox::Sandbox;
use kopf_sandbox::manifests::{self, Manifests};
use serde_json::json;

use crate::args::{DumpFormat, ExportOptions, ImportOptions};
use crate::failure::{Failure, of_manifests};
use kopf_inspect::Screen;

/// Prints the objects of a folder.
pub(crate) async fn export(options: &ExportOptions, _: &Screen) -> Result<ExitCode, Failure> {
    let folder = &options.data;
    if !folder.join("format").is_file() {
        let what = format!("cannot export {}", folder.display());
        return Err(Failure::plain(what)
            .because("it is not a data folder of a sandbox")
            .advise("name the folder of kopf sandbox --data"));
    }
    let sandbox = open(folder)?;
    let list = json!({"apiVersion": "v1", "kind": "List", "items": sandbox.export()});
    sandbox.shutdown().await;
    let text = match options.output {
        DumpFormat::Yaml => serde_saphyr::to_string(&list)
            .map_err(|error| Failure::new("cannot serialize the objects as YAML", &error))?,
        DumpFormat::Json => format!("{list}\n"),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new("cannot print the objects", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Stores the objects of dumps in a folder.
pub(crate) async fn import(
    options: &ImportOptions,
    terminal: &Screen,
) -> Result<ExitCode, Failure> {
    let dumps = Manifests::read(&options.filename).map_err(of_manifests)?;
    let sandbox = open(&options.data)?;
    let restored = dumps.restore(&sandbox).await;
    sandbox.shutdown().await;
    let loaded = restored.map_err(of_manifests)?;
    if let Some(warning) = manifests::dropped_owners(&loaded) {
        terminal.warning(&warning);
    }
    let stored = counted(loaded.len());
    let folder = options.data.display();
    terminal.plain(&format!("stored {stored} in {folder}"));
    Ok(ExitCode::SUCCESS)
}

/// Returns a number of objects with the noun.
pub(crate) fn counted(count: usize) -> String {
    match count {
        1 => "1 object".to_owned(),
        _ => format!("{count} objects"),
    }
}

fn open(folder: &Path) -> Result<Sandbox, Failure> {
    Sandbox::builder()
        .data(folder)
        .build()
        .map_err(|error| Failure::new("cannot start the sandbox", &error))
}
