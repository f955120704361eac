//! The command line of operators: `run`, `freeze` and `resume` with the options of the original, `crd`,
//! `rbac` and `manifests`, the environment variables `KOPF_RUN_*` and others, the log, signals, exit codes.
//!
//! [`main`] is for handlers that are declared by attribute macros. [`main_with`] takes an operator with state
//! or other settings, or a [`Program`]: with a version of its own for `--version`, with layers for the log.
//! [`Commands`] are for programs with their own commands and options. All of them own the process: its
//! runtime, its log, its signals. Other programs use [`crate::Operator`] directly.

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
mod usage;
mod watchman;

use std::process::ExitCode;

#[doc(hidden)]
pub use self::freezing::{FreezeArgs, Order, ResumeArgs};
#[doc(hidden)]
pub use self::manifests::PeeringArgs;
pub use self::program::{Commands, Program};
use crate::Operator;

/// Runs the program of an operator whose handlers are declared by attribute macros.
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
///     kopf::main()
/// }
/// ```
///
/// `my-operator run -A` serves the cluster of the kubeconfig or of its pod;
/// `my-operator run --sandbox -f crd.yaml -f obj.yaml` needs no cluster; `--help` lists the rest. It must not be
/// called inside of an async function: it starts its own runtime.
///
/// # Exit codes
///
/// 0 after the first SIGINT, SIGTERM or SIGHUP, when the operator has stopped; 1 after an error, a
/// second signal, or if an async handler blocks the shutdown; 2 on invalid arguments.
pub fn main() -> ExitCode {
    main_with(Operator::builder().handlers_from_macros())
}

/// As [`main`], for an operator with explicit handlers, shared state or other settings, or for a
/// [`Program`].
///
/// What the command line says goes before what the builder says: `-A` and `-n` replace its
/// namespaces. Without them, and without namespaces in the builder, the whole cluster is served.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
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
///         .handlers_from_macros()
///         .state(Counter::default())
///         .settings(|settings| settings.execution.default_backoff = Duration::from_secs(10));
///     kopf::main_with(operator)
/// }
/// ```
pub fn main_with(program: impl Into<Program>) -> ExitCode {
    program.into().main()
}
