//! The operator's own command line: `run`, `freeze` and `resume` with the options of the original, `crd`,
//! `rbac` and `manifests`, the environment variables `KOPF_RUN_*` and so on, the log, the signals, the exit
//! code.
//!
//! [`main`] is for handlers that are declared by attribute macros; [`main_with`] takes an operator
//! that is put together by hand, or whose settings are to be changed. Both own the process: its
//! runtime, its log, its signals. A program that has other plans for them uses
//! [`crate::Operator`] directly.

mod args;
mod command;
mod environment;
mod failure;
mod freezing;
mod logging;
mod manifests;
mod options;
mod running;
#[cfg(feature = "sandbox")]
mod sandbox;
mod shipping;
mod usage;
mod watchman;

use std::process::ExitCode;

use self::command::Task;
#[doc(hidden)]
pub use self::freezing::{FreezeArgs, Order, ResumeArgs};
#[doc(hidden)]
pub use self::manifests::PeeringArgs;
use crate::{Operator, OperatorBuilder};

/// The whole program of an operator whose handlers are declared by attribute macros.
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
/// `my-operator run -A` serves the cluster of the kubeconfig or the one it runs in, and
/// `my-operator run --sandbox -f crd.yaml -f obj.yaml` tries it without any; `--help` tells the
/// rest. It must not be called inside of an async function: it brings a runtime of its own.
///
/// # Exit codes
///
/// 0 after the first SIGINT, SIGTERM or SIGHUP, when the operator has stopped; 1 after an error, a
/// second signal, or if an async handler blocks the shutdown; 2 on invalid arguments.
pub fn main() -> ExitCode {
    main_with(Operator::builder().handlers_from_macros())
}

/// As [`main`], for an operator of your own: with handlers that are given explicitly, with shared
/// state, with other settings.
///
/// What the command line says goes before what the builder says: `-A` and `-n` replace its
/// namespaces. Without them, and without namespaces in the builder, the whole cluster is served.
///
/// ```no_run
/// use std::time::Duration;
///
/// fn main() -> std::process::ExitCode {
///     let mut operator = kopf::Operator::builder().handlers_from_macros();
///     operator.settings_mut().execution.default_backoff = Duration::from_secs(10);
///     kopf::main_with(operator)
/// }
/// ```
pub fn main_with(builder: OperatorBuilder) -> ExitCode {
    match command::parse(std::env::args_os(), &|name| std::env::var_os(name)) {
        Ok(Task::Run(options)) => running::run(builder, *options),
        Ok(Task::Freezing(order)) => order.run(),
        Ok(Task::Printing(args)) => args.run(),
        Ok(Task::Shipping(shipment)) => shipment.run(builder),
        Err(error) => {
            // Nobody may be there to read it.
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}
