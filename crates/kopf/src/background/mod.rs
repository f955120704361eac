//! Handlers that run beside objects: [`daemon`](daemon()) and [`timer`](timer()), as attribute macros
//! and as functions of the same names.
//!
//! Both are started for every object that matches, and run until it is deleted, or does not match
//! any more, or the operator ends. See the functions for what each of them does.
//!
//! The resource, `id`, `param`, filters (`labels`, `annotations`, `field`, `value`, `when`), `errors`,
//! `timeout`, `retries`, `backoff` and `registry` are those of [all handlers](crate::on). Further
//! options:
//!
//! | option | meaning |
//! |---|---|
//! | `initial_delay = 30` | seconds, a `Duration`, or a [function](InitialDelay), before the first call |
//! | `cancellation_backoff = 3` | how long a daemon can end by itself before it is cancelled (`daemon`) |
//! | `cancellation_timeout = 5` | how long it can take then, before it is abandoned (`daemon`) |
//! | `cancellation_polling = 60` | how often to look whether it has ended (`daemon`) |
//! | `interval = 10` | seconds or a `Duration` between two calls (`timer`) |
//! | `sharp = true` | the interval is between the beginnings of two calls (`timer`) |
//! | `idle = 60` | how long the object must not have changed before a call (`timer`) |

mod delay;
mod options;

pub use delay::{Delay, InitialDelay};
#[doc(inline)]
pub use kopf_core::background::StopReason;
pub use kopf_macros::{daemon, timer};
pub use options::{Beside, Daemon, Timer};

use crate::handler::Handler;
use crate::on::{HandlerBuilder, declare};
use crate::selecting::IntoSelect;

/// Runs the function beside every object that matches.
///
/// It is called once for an object and can run as long as it likes: it is told to end by
/// [`Stopped`](crate::Stopped), and sees the object as it changes through [`Live`](crate::Live). The
/// object cannot vanish before it has ended.
///
/// A daemon that returns has ended for this object, until the operator is restarted; with
/// [`temporary`](crate::temporary), it is called again. What it returns and what it has put into
/// its [`Patch`](crate::Patch) is written when it returns.
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
/// // A function that blocks has a thread of its own, and must look at the flag.
/// #[kopf::daemon("kopfexamples")]
/// fn monitor_in_a_thread(stopped: Stopped, logger: Logger) {
///     while !stopped.wait_blocking(10) {
///         logger.info("It is still there.");
///     }
/// }
/// ```
///
/// # How it is stopped
///
/// 1. The flag is set; `cancellation_backoff` is waited for, if it is given.
/// 2. With a `cancellation_timeout`, an async function is dropped where it waits. A blocking one
///    cannot be interrupted; the timeout is waited for.
/// 3. One that still runs is abandoned, with a warning. Without a `cancellation_timeout`, it is
///    waited for, however long it takes; the object stays until then. When the operator ends, it
///    is aborted after 5 seconds.
pub fn daemon<S, M>(
    resource: impl IntoSelect<S>,
    function: impl Handler<M>,
) -> HandlerBuilder<Daemon> {
    declare(resource, function)
}

/// Calls the function for every object that matches again and again, as long as it exists.
///
/// The next call comes `interval` after the former one has ended; with `sharp`, it is as if the
/// call took no time. With `idle`, the object must not have changed for that long before each call;
/// with `idle` alone, it is called once for each change. With neither, it is called once.
///
/// After an error, the timer is called again when the error says, as other handlers are; after a
/// [`permanent`](crate::permanent) one, it has ended for this object.
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
