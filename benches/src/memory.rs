//! Memory of the process with many objects.

use anyhow::Result;

use crate::load;
use crate::report::{Report, Target};
use crate::servers::Process;

const OBJECTS: u32 = 100_000;
/// Data bytes of an object of about two kilobytes.
const BYTES: usize = 1_800;
const TASKS: u32 = 16;

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let process = Process::start().await?;
    let client = process.client().await?;
    load::namespace(&client, "bench-memory").await?;
    let before = process.usage()?.resident_megabytes()?;
    load::create(&client, "bench-memory", OBJECTS, BYTES, TASKS).await?;
    let after = process.usage()?.resident_megabytes()?;
    report.add("memory without objects", before, "MB", Target::None);
    let name = format!("memory with {OBJECTS} objects of 2 KB");
    report.add(name, after, "MB", Target::AtMost(600.0));
    process.stop().await
}
