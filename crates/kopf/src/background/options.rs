//! The options of daemons and timers.

use kopf_core::handler::{Cancellation, HandlerKind, Timing};

use super::delay::InitialDelay;
use crate::on::kinds::{ForObjects, Kind, Retried};
use crate::on::{Check, HandlerBuilder};
use crate::seconds::IntoDuration;

/// Handlers of [`daemon`](super::daemon()).
#[derive(Debug, Clone, Copy)]
pub struct Daemon;

/// Handlers of [`timer`](super::timer()).
#[derive(Debug, Clone, Copy)]
pub struct Timer;

/// A kind of handlers that run in the background of objects.
#[diagnostic::on_unimplemented(
    message = "only `kopf::daemon` and `kopf::timer` have an `initial_delay`"
)]
pub trait Background: Kind {}

impl Kind for Daemon {
    const KIND: HandlerKind = HandlerKind::Daemon(Cancellation::NONE);
}

impl Kind for Timer {
    const KIND: HandlerKind = HandlerKind::Timer(Timing::ONCE);
}

impl ForObjects for Daemon {}
impl ForObjects for Timer {}
impl Retried for Daemon {}
impl Retried for Timer {}
impl Background for Daemon {}
impl Background for Timer {}

impl<K: Background> HandlerBuilder<K> {
    /// Sets the delay before the first call: seconds, a `Duration`, or a [function](InitialDelay)
    /// of the object.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// async fn monitor(stopped: Stopped) {}
    ///
    /// let daemon = kopf::daemon("kopfexamples", monitor)
    ///     .initial_delay(|Spec(spec): Spec| spec["delay"].as_u64().unwrap_or(30));
    /// ```
    pub fn initial_delay<M>(mut self, delay: impl InitialDelay<M>) -> Self {
        self.inner.check("initial_delay", check_of(&delay));
        match delay.into_initial_delay() {
            Ok(delay) => self.inner.initial_delay = Some(delay),
            Err(error) => self.inner.problems.push(format!("initial_delay: {error}")),
        }
        self
    }
}

fn check_of<M, D: InitialDelay<M>>(_: &D) -> Check {
    D::check
}

impl HandlerBuilder<Daemon> {
    /// Sets the time to return after the stop flag is set, before the daemon is cancelled.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn f(stopped: Stopped) {}
    /// let daemon = kopf::daemon("kopfexamples", f)
    ///     .cancellation_backoff(5)
    ///     .cancellation_timeout(10);
    /// ```
    pub fn cancellation_backoff(mut self, backoff: impl IntoDuration) -> Self {
        let backoff = self.duration("cancellation_backoff", backoff);
        self.cancellation(|cancellation| cancellation.backoff = backoff)
    }

    /// Sets the time to return after cancellation, before the daemon is abandoned. Default: it is
    /// not cancelled.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn f(stopped: Stopped) {}
    /// let daemon = kopf::daemon("kopfexamples", f).cancellation_timeout(10);
    /// ```
    pub fn cancellation_timeout(mut self, timeout: impl IntoDuration) -> Self {
        let timeout = self.duration("cancellation_timeout", timeout);
        self.cancellation(|cancellation| cancellation.timeout = timeout)
    }

    /// Sets the interval of checks whether the daemon has returned. Default:
    /// `settings.background.cancellation_polling`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn f(stopped: Stopped) {}
    /// let daemon = kopf::daemon("kopfexamples", f).cancellation_polling(1);
    /// ```
    pub fn cancellation_polling(mut self, polling: impl IntoDuration) -> Self {
        let polling = self.duration("cancellation_polling", polling);
        self.cancellation(|cancellation| cancellation.polling = polling)
    }

    fn cancellation(mut self, change: impl FnOnce(&mut Cancellation)) -> Self {
        if let HandlerKind::Daemon(cancellation) = &mut self.inner.kind {
            change(cancellation);
        }
        self
    }
}

impl HandlerBuilder<Timer> {
    /// Sets the delay between the end of a call and the next one.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn f() {}
    /// let timer = kopf::timer("kopfexamples", f).interval(60);
    /// ```
    pub fn interval(mut self, interval: impl IntoDuration) -> Self {
        let interval = self.duration("interval", interval);
        if interval.is_some_and(|interval| interval.is_zero()) {
            let problem = "interval: must be greater than 0";
            self.inner.problems.push(problem.to_owned());
        }
        self.timing(|timing| timing.interval = interval)
    }

    /// Measures the interval from the start of a call instead of its end.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn f() {}
    /// let timer = kopf::timer("kopfexamples", f).interval(60).sharp(true);
    /// ```
    pub fn sharp(self, sharp: bool) -> Self {
        self.timing(|timing| timing.sharp = sharp)
    }

    /// Sets the time without changes of the object before a call.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn f() {}
    /// let timer = kopf::timer("kopfexamples", f).interval(60).idle(600);
    /// ```
    pub fn idle(mut self, idle: impl IntoDuration) -> Self {
        let idle = self.duration("idle", idle);
        self.timing(|timing| timing.idle = idle)
    }

    fn timing(mut self, change: impl FnOnce(&mut Timing)) -> Self {
        if let HandlerKind::Timer(timing) = &mut self.inner.kind {
            change(timing);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kopf_core::handler;

    use super::*;
    use crate::extract::Front;
    use crate::on::AnyHandler;
    use crate::prelude::*;
    use crate::{Live, PRESENT, Status, SubHandlers, WatchEvent};

    async fn run(_: Stopped, _: Live<Spec>) {}

    fn build(handler: impl Into<AnyHandler>) -> Result<kopf_engine::invocation::Handler, String> {
        handler.into().build(&Front::default())
    }

    #[test]
    fn options_of_daemons_reach_the_handler() {
        let daemon = crate::daemon("x", run)
            .initial_delay(1.5)
            .cancellation_backoff(1)
            .cancellation_timeout(Duration::from_secs(2))
            .cancellation_polling(3)
            .retries(5)
            .label("a", PRESENT);
        let daemon = build(daemon).unwrap();
        let cancellation = Cancellation {
            backoff: Some(Duration::from_secs(1)),
            timeout: Some(Duration::from_secs(2)),
            polling: Some(Duration::from_secs(3)),
        };
        assert_eq!(daemon.kind, HandlerKind::Daemon(cancellation));
        let Some(handler::InitialDelay::Fixed(delay)) = daemon.initial_delay else {
            panic!("a number is a fixed delay")
        };
        assert_eq!(delay, Duration::from_millis(1500));
        assert_eq!(&*daemon.id, "run");
    }

    #[test]
    fn options_of_timers_reach_the_handler() {
        let timer = crate::timer("x", run)
            .interval(10)
            .sharp(true)
            .idle(0.5)
            .initial_delay(|Name(name): Name| name.parse::<u32>());
        let timer = build(timer.field("spec.x")).unwrap();
        let timing = Timing {
            interval: Some(Duration::from_secs(10)),
            sharp: true,
            idle: Some(Duration::from_millis(500)),
        };
        assert_eq!(timer.kind, HandlerKind::Timer(timing));
        assert!(matches!(
            timer.initial_delay,
            Some(handler::InitialDelay::Function(_))
        ));
        assert_eq!(&*timer.id, "run/spec.x");
    }

    #[test]
    fn invalid_options_are_rejected() {
        let message = |handler: AnyHandler| build(handler).unwrap_err();
        assert!(
            message(crate::daemon("x", run).initial_delay(-1).into())
                .contains("initial_delay: invalid duration -1")
        );
        assert!(
            message(crate::daemon("x", run).cancellation_timeout(-1).into())
                .starts_with("cancellation_timeout: invalid duration -1")
        );
        assert!(message(crate::timer("x", run).interval(0).into()).starts_with("interval: must"));
        assert!(
            message(crate::timer("x", run).idle(f64::NAN).into())
                .starts_with("idle: invalid duration NaN")
        );
    }

    #[test]
    fn unavailable_arguments_are_rejected() {
        fn stopped(_: Stopped) {}
        fn live(_: Live<Status>) {}
        fn maybe(_: Option<Stopped>) {}
        fn diff(_: Diff) {}
        fn subs(_: SubHandlers) {}
        fn event(_: WatchEvent) {}
        let message = |handler: AnyHandler| build(handler).unwrap_err();
        assert!(message(on::create("x", stopped).into()).contains("daemons and timers only"));
        assert!(message(on::event("x", live).into()).contains("daemons and timers only"));
        assert!(build(on::create("x", maybe)).is_ok());
        assert!(message(crate::daemon("x", diff).into()).contains("Diff is for handlers of"));
        assert!(message(crate::timer("x", subs).into()).contains("SubHandlers"));
        assert!(message(crate::timer("x", event).into()).contains("on::event only"));
    }
}
