//! One fault: its effect, the requests it applies to, and its frequency.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::chance;
use super::verdict::RequestFacts;
use crate::view::Lag;

/// The verb of a request, as named by Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many objects.
    List,
    /// Follows changes.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes a part of an object.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes many objects.
    DeleteCollection,
}

impl Verb {
    /// Returns the name of the verb in discovery.
    #[doc(hidden)]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Returns `true` for get, list and watch.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The effect of a fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    Latency { least: Duration, most: Duration },
    Error { code: u16, retry_after: Option<u32> },
    Reset,
    HalfOpen,
    Compact,
    DropEvents,
    DelayEvents(Duration),
    CutWatch,
    FreezeWatch,
    Lag(Duration),
}

/// A fault to inject: its effect, and the requests it applies to. By default it strikes every
/// request (or every event of every watch).
///
/// ```
/// use std::time::Duration;
/// use kopf_sandbox::fault::{Fault, Verb};
///
/// let flaky = Fault::reset().verb(Verb::Watch).kind("kopfexamples.kopf.dev").probability(0.1);
/// let overload = Fault::error(429).retry_after(1).lasting(Duration::from_secs(30));
/// let unlucky = Fault::drop_events().namespace("default").name("example").times(1);
/// # let _ = (flaky, overload, unlucky);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a fault does nothing until it is injected"]
pub struct Fault {
    pub(super) effect: Effect,
    pub(super) verbs: Vec<Verb>,
    pub(super) kind: Option<String>,
    pub(super) subresource: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) user: Option<String>,
    pub(super) probability: f64,
    pub(super) times: Option<u64>,
    pub(super) after: Duration,
    pub(super) lasting: Option<Duration>,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Self {
            effect,
            verbs: Vec::new(),
            kind: None,
            subresource: None,
            namespace: None,
            name: None,
            user: None,
            probability: 1.0,
            times: None,
            after: Duration::ZERO,
            lasting: None,
        }
    }

    /// Delays requests before they are carried out (by tokio's clock, which tests can pause).
    pub fn latency(delay: Duration) -> Self {
        Self::latency_between(delay, delay)
    }

    /// Delays requests by a duration from this range.
    pub fn latency_between(least: Duration, most: Duration) -> Self {
        Self::new(Effect::Latency { least, most })
    }

    /// Rejects requests with this HTTP status and the matching `Status` body.
    ///
    /// Intended for 409, 410, 429, 500, 503 and 504; other error codes get a generic body, and
    /// codes below 400 or above 599 become 500. The request is not carried out.
    pub fn error(code: u16) -> Self {
        let code = if (400..600).contains(&code) {
            code
        } else {
            500
        };
        Self::new(Effect::Error {
            code,
            retry_after: None,
        })
    }

    /// Resets connections before the request is carried out: the client gets no response.
    pub fn reset() -> Self {
        Self::new(Effect::Reset)
    }

    /// Makes connections half-open before the request is carried out: they stay open without a
    /// response. With HTTP/2 this stalls all requests of the connection.
    pub fn half_open() -> Self {
        Self::new(Effect::HalfOpen)
    }

    /// Drops all old versions before the request is carried out.
    pub fn compact() -> Self {
        Self::new(Effect::Compact)
    }

    /// Drops watch events; the stream continues with the next one.
    pub fn drop_events() -> Self {
        Self::new(Effect::DropEvents)
    }

    /// Delays watch events and those behind them, so that the order is kept.
    pub fn delay_events(delay: Duration) -> Self {
        Self::new(Effect::DelayEvents(delay))
    }

    /// Breaks watch streams instead of sending an event.
    pub fn cut_watch() -> Self {
        Self::new(Effect::CutWatch)
    }

    /// Stalls watch streams instead of sending an event: they stay open without data.
    pub fn freeze_watch() -> Self {
        Self::new(Effect::FreezeWatch)
    }

    /// Answers gets, lists and watches from a watch cache that follows with a delay, as a real server
    /// does that is behind the others. Reads without a `resourceVersion` are consistent and see the
    /// present, and so do writes. The module `view` of the crate has the details.
    ///
    /// The cache begins to lag when the rule begins. With a [`probability`](Self::probability), a part
    /// of the requests is answered by the server that lags.
    pub fn lag(delay: Duration) -> Self {
        Self::new(Effect::Lag(delay))
    }

    /// Sets `Retry-After` of errors, in seconds. Ignored for other faults.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        if let Effect::Error { retry_after, .. } = &mut self.effect {
            *retry_after = Some(seconds);
        }
        self
    }

    /// Restricts the fault to a verb. Several calls add up.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Restricts the fault to a resource: `plural` (in any group) or `plural.group`.
    pub fn kind(mut self, plural: impl Into<String>) -> Self {
        self.kind = Some(plural.into());
        self
    }

    /// Restricts the fault to a subresource, e.g. `status`; the empty string is the object itself.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Restricts the fault to a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts the fault to objects of this name. Lists and watches have no name; their events
    /// do.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Restricts the fault to requests of this user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets the fraction of requests that are struck, from 0.0 (none) to 1.0 (all, the default).
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = if probability.is_nan() {
            0.0
        } else {
            probability.clamp(0.0, 1.0)
        };
        self
    }

    /// Limits the number of strikes.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Sets the delay between the injection and the first strike.
    pub fn starting_after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }

    /// Sets the duration after the start until the fault ends.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.lasting = Some(duration);
        self
    }

    fn matches(&self, facts: &RequestFacts<'_>) -> bool {
        let same = |wanted: &Option<String>, actual: Option<&str>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| actual == Some(wanted))
        };
        (self.verbs.is_empty() || self.verbs.contains(&facts.verb))
            && self.kind.as_deref().is_none_or(|kind| is_kind(kind, facts))
            && same(
                &self.subresource,
                Some(facts.subresource.unwrap_or_default()),
            )
            && same(&self.namespace, facts.namespace)
            && same(&self.name, facts.name)
            && same(&self.user, Some(facts.user))
    }
}

/// Returns `true` if `plural` or `plural.group` matches the resource of a request.
fn is_kind(wanted: &str, facts: &RequestFacts<'_>) -> bool {
    match wanted.split_once('.') {
        Some((plural, group)) => plural == facts.resource && group == facts.group,
        None => wanted == facts.resource,
    }
}

/// An active fault.
#[derive(Debug)]
pub(super) struct Rule {
    fault: Fault,
    since: Instant,
    /// The revision of the store at that time.
    revision: u64,
    /// Requests that matched, struck or not.
    seen: u64,
    /// Requests that were struck.
    struck: u64,
    /// Cancelled when the rule is removed.
    over: CancellationToken,
}

impl Drop for Rule {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Rule {
    pub(super) fn new(fault: Fault, since: Instant, revision: u64) -> Self {
        Self {
            fault,
            since,
            revision,
            seen: 0,
            struck: 0,
            over: CancellationToken::new(),
        }
    }

    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }

    pub(super) fn effect(&self) -> &Effect {
        &self.fault.effect
    }

    /// Returns the lag of a cache while this rule lasts.
    pub(super) fn lag(&self, by: Duration) -> Lag {
        let begins = self.since.checked_add(self.fault.after);
        let begins = begins.unwrap_or(self.since);
        let lasting = self.fault.lasting;
        let ends = lasting.and_then(|lasting| begins.checked_add(lasting));
        let lag = Lag::after(self.revision, by).ending(ends, self.over.clone());
        if self.fault.after.is_zero() {
            return lag; // the revision is more exact than the time, which tests can pause
        }
        lag.beginning(begins)
    }

    pub(super) fn is_about_events(&self) -> bool {
        matches!(
            self.fault.effect,
            Effect::DropEvents | Effect::DelayEvents(_) | Effect::CutWatch | Effect::FreezeWatch
        )
    }

    /// Returns the roll of this request if the rule strikes it. The caller calls `struck` when it
    /// takes effect.
    pub(super) fn strikes(
        &mut self,
        facts: &RequestFacts<'_>,
        now: Instant,
        seed: u64,
        id: u64,
    ) -> Option<u64> {
        if !self.is_open(now) || !self.fault.matches(facts) {
            return None;
        }
        let roll = chance::roll(seed, id, self.seen);
        self.seen += 1;
        let left = self.fault.times.is_none_or(|times| self.struck < times);
        (left && chance::within(roll, self.fault.probability)).then_some(roll)
    }

    pub(super) fn struck(&mut self) {
        self.struck += 1;
    }

    fn is_open(&self, now: Instant) -> bool {
        let Some(age) = now
            .saturating_duration_since(self.since)
            .checked_sub(self.fault.after)
        else {
            return false;
        };
        self.fault.lasting.is_none_or(|lasting| age < lasting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> RequestFacts<'static> {
        RequestFacts {
            verb: Verb::Patch,
            group: "apps",
            resource: "deployments",
            subresource: Some("status"),
            namespace: Some("ns"),
            name: Some("web"),
            user: "ann",
        }
    }

    #[test]
    fn every_filter_matches_only_its_requests() {
        let all = || Fault::reset();
        for (fault, expected) in [
            (all(), true),
            (all().verb(Verb::Patch), true),
            (all().verb(Verb::Get).verb(Verb::Patch), true),
            (all().verb(Verb::Get), false),
            (all().kind("deployments"), true),
            (all().kind("deployments.apps"), true),
            (all().kind("deployments.other"), false),
            (all().kind("pods"), false),
            (all().subresource("status"), true),
            (all().subresource(""), false),
            (all().namespace("ns"), true),
            (all().namespace("other"), false),
            (all().name("web"), true),
            (all().name("other"), false),
            (all().user("ann"), true),
            (all().user("bob"), false),
        ] {
            assert_eq!(fault.matches(&facts()), expected, "{fault:?}");
        }
    }

    #[test]
    fn core_kinds_have_no_group() {
        let core = RequestFacts {
            group: "",
            resource: "pods",
            ..facts()
        };
        assert!(Fault::reset().kind("pods").matches(&core));
        assert!(!Fault::reset().kind("pods.apps").matches(&core));
    }

    #[test]
    fn out_of_range_numbers_are_clamped() {
        assert_eq!(Fault::error(200), Fault::error(500));
        assert_eq!(
            Fault::reset().probability(f64::NAN),
            Fault::reset().probability(0.0)
        );
        assert_eq!(Fault::reset().probability(7.0), Fault::reset());
    }
}
