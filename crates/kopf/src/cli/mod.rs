//! The command line of operators: `run`, `freeze` and `resume` with the options of the original,
//! `crd`, `rbac` and `manifests`; environment variables such as `KOPF_RUN_*`; logs, signals, exit
//! codes.
//!
//! [`main`] runs handlers, an operator with state or other settings, or a [`Program`] with its own
//! version and log layers. [`Commands`] are for programs with their own commands and options. All
//! of them own the process: its runtime, log and signals. Other programs use [`crate::Operator`]
//! directly.

mod args;
mod command;
mod environment;
mod failure;
mod freezing;
mod logging;
mod manifests;
mod options;
mod program;
mod running;
#[cfg(feature = "sandbox")]
mod sandbox;
mod shipping;
mod signal_thread;
mod usage;

use std::process::ExitCode;

#[doc(hidden)]
pub use self::freezing::{FreezeArgs, Order, ResumeArgs};
#[doc(hidden)]
pub use self::manifests::PeeringArgs;
pub use self::program::{Commands, Program};

/// Runs the command line of an operator: its handlers, an operator with state or other settings, or
/// a [`Program`].
///
/// ```no_run
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(Spec(spec): Spec) -> kopf::Result<()> {
///     println!("And here we are! Creating: {spec}");
///     Ok(())
/// }
///
/// fn main() -> std::process::ExitCode {
///     kopf::main(kopf::handlers![create_fn])
/// }
/// ```
///
/// `my-operator run -A` serves the cluster of the kubeconfig or of its pod. `my-operator run
/// --sandbox -f crd.yaml -f obj.yaml` needs no cluster. `--help` lists all options. Do not call it
/// in an async function: it starts its own runtime.
///
/// With shared state or other settings, pass an operator. The command line overrides it: `-A` and
/// `-n` replace its namespaces. If neither sets namespaces, the whole cluster is served.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use kopf::prelude::*;
///
/// type Counter = Arc<AtomicU64>;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(State(counter): State<Counter>) -> u64 {
///     counter.fetch_add(1, Ordering::Relaxed)
/// }
///
/// fn main() -> std::process::ExitCode {
///     let operator = Operator::builder()
///         .handlers(kopf::handlers![create_fn])
///         .state(Counter::default())
///         .settings(|settings| settings.execution.default_backoff = kopf::duration!("10s"));
///     kopf::main(operator)
/// }
/// ```
///
/// # Exit codes
///
/// 0 after the first SIGINT, SIGTERM or SIGHUP, when the operator has stopped; 1 after an error, a
/// second signal, or if an async handler blocks the shutdown; 2 on invalid arguments.
pub fn main(program: impl Into<Program>) -> ExitCode {
    program.into().main()
}
