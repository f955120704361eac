//! Background handlers of objects: [`daemon`](daemon()) and [`timer`](timer()), as attribute macros
//! and as functions of the same names.
//!
//! Both are started for every matching object. They run until it is deleted or stops matching, or
//! until the operator exits.
//!
//! The resource, `id`, `param`, filters (`labels`, `annotations`, `field`, `value`, `when`),
//! `errors`, `timeout`, `retries`, `backoff` and `registry` are those of [all handlers](crate::on).
//! Further options:
//!
//! | option | meaning |
//! |---|---|
//! | `initial_delay = 30` | seconds, a `Duration`, or a [function](InitialDelay), before the first call |
//! | `cancellation_backoff = 3` | the time to return after the stop flag, before cancellation (`daemon`) |
//! | `cancellation_timeout = 5` | the time to return after cancellation, before the daemon is abandoned (`daemon`) |
//! | `cancellation_polling = 60` | the interval of checks whether it has returned (`daemon`) |
//! | `interval = 10` | seconds or a `Duration` between two calls (`timer`) |
//! | `sharp = true` | the interval is between the starts of two calls (`timer`) |
//! | `idle = 60` | the time without changes of the object before a call (`timer`) |

mod delay;
mod options;

pub use delay::{Delay, InitialDelay};
#[doc(inline)]
pub use kopf_core::background::StopReason;
pub use kopf_macros::{daemon, timer};
pub use options::{Background, Daemon, Timer};

use crate::handler::Handler;
use crate::on::{HandlerBuilder, declare};
use crate::selecting::IntoSelect;

/// Runs the function in the background of every matching object.
///
/// It is called once for an object and can run indefinitely. [`Stopped`](crate::Stopped) signals
/// when to return, and [`Live`](crate::Live) gives the current version of the object. The object is
/// not removed before the function returns.
///
/// A daemon that returns is not started again for this object until the operator restarts. After a
/// [`temporary`](crate::temporary) error, it is called again. Its result and its
/// [`Patch`](crate::Patch) are written when it returns.
///
/// ```
/// use kopf::Live;
/// use kopf::prelude::*;
///
/// #[kopf::daemon("kopfexamples", cancellation_timeout = 3)]
/// async fn monitor(spec: Live<Spec>, stopped: Stopped, logger: Logger) -> kopf::Result<()> {
///     while !stopped.wait(10).await {
///         logger.info(format_args!("field={}", spec.get()["field"]));
///     }
///     Ok(())
/// }
///
/// // A blocking function runs in its own thread and must check the flag.
/// #[kopf::daemon("kopfexamples")]
/// fn monitor_in_a_thread(stopped: Stopped, logger: Logger) {
///     while !stopped.wait_blocking(10) {
///         logger.info("Still running.");
///     }
/// }
/// ```
///
/// # Stopping
///
/// 1. The flag is set, followed by the `cancellation_backoff`, if set.
/// 2. With a `cancellation_timeout`, an async function is dropped at its current `await`. A
///    blocking function cannot be interrupted; the operator waits for the timeout.
/// 3. A function that still runs is abandoned with a warning. Without a `cancellation_timeout`, the
///    operator waits indefinitely, and the object remains. When the operator exits, the function is
///    aborted after 5 seconds.
pub fn daemon<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Daemon> {
    declare(resource, function)
}

/// Calls the function repeatedly for every matching object, as long as it exists.
///
/// The next call is `interval` after the end of the former one, or after its start with `sharp`.
/// With `idle`, the object must not have changed for that long before each call; with `idle` alone,
/// the function is called once for each change. With neither, it is called once.
///
/// Errors are retried as in other handlers. After a [`permanent`](crate::permanent) error, the
/// timer ends for this object.
///
/// ```
/// use kopf::Patch;
/// use kopf::prelude::*;
///
/// #[kopf::timer("kopfexamples", interval = 10, idle = 60, initial_delay = 5)]
/// async fn tick(Spec(spec): Spec, patch: Patch) -> kopf::Result<()> {
///     patch.status().set("seen", spec["field"].clone());
///     Ok(())
/// }
/// ```
pub fn timer<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Timer> {
    declare(resource, function)
}
