//! An operator with one timer of ten seconds per object. With the arguments `tasks` and a number,
//! it only spawns as many tasks with the same sleep.

use std::process::ExitCode;
use std::time::Duration;

use tokio::task::JoinSet;

const INTERVAL: Duration = Duration::from_secs(10);

#[kopf::timer("kopfexamples", interval = INTERVAL)]
async fn tick() {}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, count] = arguments.as_slice()
        && mode == "tasks"
        && let Ok(count) = count.parse()
    {
        return tasks(count);
    }
    let mut operator = kopf::Operator::builder().handlers_from_macros();
    operator.settings_mut().posting.enabled = false;
    kopf::main(operator)
}

/// Spawns sleeping tasks in the same runtime as that of operators.
fn tasks(count: u32) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let Ok(runtime) = runtime.worker_threads(1).enable_all().build() else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(async {
                loop {
                    tokio::time::sleep(INTERVAL).await;
                }
            });
        }
        tasks.join_all().await;
    });
    ExitCode::SUCCESS
}
