//! `run`: from options to an exit code.
//!
//! Manifests and handlers are checked before anything is started. Then the operator runs until a
//! signal or an error.

use std::process::ExitCode;
use std::time::Duration;

use kopf_core::namespace::Scope;
use kopf_engine::authentication::Access;
use kopf_engine::invocation::Registry;
use kopf_engine::operator::Error;
use tokio_util::sync::CancellationToken;

use super::failure::{self, Failure};
use super::logging;
use super::options::RunOptions;
use super::program::BoxedLayer;
#[cfg(feature = "sandbox")]
use super::sandbox;
use super::signal_thread::SignalThread;
use crate::{Operator, OperatorBuilder};

/// Time limit for blocking functions, which cannot be interrupted, after the operator has stopped.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(5);

/// Exceeds the number of blocking functions of any operator. Threads are started on demand.
const BLOCKING_THREADS: usize = 65_536;

/// Sets the number of threads of tokio's runtime.
const WORKER_THREADS: &str = "TOKIO_WORKER_THREADS";

/// The cluster of the operator.
enum Target {
    /// The cluster of the credentials.
    Cluster,
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Prepared),
}

/// The reason for the exit.
enum End {
    /// A regular shutdown.
    Stopped,
    /// A forced exit without waiting for running tasks.
    Forced,
}

pub(super) fn run(
    builder: OperatorBuilder,
    options: RunOptions,
    layers: Vec<BoxedLayer>,
) -> ExitCode {
    let _exporting = logging::install(options.logging.clone(), layers);
    match try_run(builder, options) {
        Ok(End::Stopped) => ExitCode::SUCCESS,
        // The reason is logged already.
        Ok(End::Forced) => ExitCode::FAILURE,
        Err(failure) => {
            failure::log(&failure);
            ExitCode::FAILURE
        }
    }
}

fn try_run(builder: OperatorBuilder, options: RunOptions) -> Result<End, Failure> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(
            Failure::plain("The command line is called inside of an async function").advise(
                "call kopf::main() from a plain `fn main()`, without #[tokio::main]: it starts \
                 its own runtime",
            ),
        );
    }
    let target = target(&options)?;
    let operator = configure(builder, options)?;
    let runtime = runtime()
        .build()
        .map_err(|error| Failure::new("The runtime cannot be started", &error))?;
    let registry = operator.registry();
    let operator = operator.to_engine();
    let stop = CancellationToken::new();
    // Signals are caught before anything needs a cleanup.
    let signals = SignalThread::start(stop.clone(), operator.inspect())
        .map_err(|error| Failure::new("Signals cannot be caught", &error))?;
    let end = runtime.block_on(async {
        tokio::select! {
            result = work(operator, registry, target, stop) => result.map(|()| End::Stopped),
            () = signals.forced() => Ok(End::Forced),
        }
    });
    if let Ok(End::Forced) = end {
        runtime.shutdown_background();
    } else {
        runtime.shutdown_timeout(BLOCKING_TIMEOUT);
    }
    end
}

/// Returns a runtime with one thread for async code. An operator is idle most of the time, and
/// moving objects between threads costs a fifth of its CPU time. Blocking functions have their own
/// threads. For CPU-bound async functions, set tokio's variable.
fn runtime() -> tokio::runtime::Builder {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all();
    // The settings limit blocking handlers; the operator's own blocking functions need threads as
    // well.
    runtime.max_blocking_threads(BLOCKING_THREADS);
    if std::env::var_os(WORKER_THREADS).is_none() {
        runtime.worker_threads(1);
    }
    runtime
}

#[cfg_attr(not(feature = "sandbox"), allow(clippy::unnecessary_wraps))]
fn target(options: &RunOptions) -> Result<Target, Failure> {
    #[cfg(feature = "sandbox")]
    if let Some(options) = &options.sandbox {
        return Ok(Target::Sandbox(sandbox::Prepared::read(options)?));
    }
    #[cfg(not(feature = "sandbox"))]
    let _ = options;
    Ok(Target::Cluster)
}

/// Applies the options to the operator.
fn configure(mut builder: OperatorBuilder, options: RunOptions) -> Result<Operator, Failure> {
    for remark in &options.peering.remarks {
        tracing::warn!("{remark}");
    }
    options.peering.apply(&mut builder.settings_mut().peering);
    options.leading.apply(&mut builder.settings_mut().leading);
    // Only the sandbox calls the webhooks, from this process.
    builder.settings_mut().admission.loopback |= options.sandbox.is_some();
    let builder = match options.scope {
        Some(scope) => builder.scope(scope),
        None if builder.has_scope() => builder,
        None => builder.scope(Scope::Cluster),
    };
    let builder = match options.liveness {
        Some(endpoint) => builder.liveness(&endpoint.to_string()),
        None => builder,
    };
    let builder = match options.sandbox {
        // Everything is permitted in the sandbox.
        Some(_) => builder,
        None => builder.review_permissions(),
    };
    let builder = if options.install_crds {
        builder.install_crds()
    } else {
        builder
    };
    let builder = match options.metrics {
        Some(endpoint) => builder.metrics(&endpoint.to_string()),
        None => builder,
    };
    let operator = builder
        .build()
        .map_err(|error| Failure::new("The operator cannot be started", &error))?;
    if options.install_crds && operator.definitions().complete.is_empty() {
        tracing::warn!(
            "There are no CRDs to install: no handler uses a resource type with a schema."
        );
    }
    Ok(operator)
}

#[cfg_attr(not(feature = "sandbox"), allow(unused_variables))]
async fn work(
    operator: kopf_engine::Operator,
    registry: Registry,
    target: Target,
    stop: CancellationToken,
) -> Result<(), Failure> {
    match target {
        Target::Cluster => into_failure(operator.run(Access::Login, stop).await),
        #[cfg(feature = "sandbox")]
        Target::Sandbox(prepared) => {
            let Some(embedded) = stop.run_until_cancelled(prepared.start()).await else {
                return Ok(());
            };
            let mut embedded = embedded?;
            embedded.show(operator.inspect(), registry);
            embedded.greet();
            let result = into_failure(operator.run(embedded.client(), stop).await);
            embedded.shutdown().await;
            result
        }
    }
}

fn into_failure(result: Result<(), Error>) -> Result<(), Failure> {
    result.map_err(|error| match &error {
        Error::Login(cause) => Failure::new("The operator cannot log in", cause).advise(
            "set KUBECONFIG to a kubeconfig with valid credentials, or run it in a pod with a \
             service account, or declare a login handler, or try it with --sandbox",
        ),
        error => Failure::new("The operator failed", error),
    })
}
