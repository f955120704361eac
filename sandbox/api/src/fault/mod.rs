//! Fault injection; the public crate documents it.

mod chance;
mod rule;
mod spec;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};

use kopf_sandbox_store::sync::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use self::rule::{Effect, Rule};
pub use self::rule::{Fault, Verb};
pub use self::spec::RuleError;
pub use self::spec::read as rules;
pub use self::verdict::ConnectionBroken;
pub(crate) use self::verdict::rejection;
pub use self::verdict::{ConnectionFault, EventVerdict, Outcome, RequestFacts, Verdict};

/// The number of an injected fault, for removing it and reading its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

impl FaultId {
    #[doc(hidden)]
    pub fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// The number of strikes of each type of fault since the sandbox started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// Delayed requests.
    pub latencies: u64,
    /// Requests rejected with an error.
    pub errors: u64,
    /// Connections reset by a rule.
    pub resets: u64,
    /// Connections made half-open by a rule.
    pub half_open: u64,
    /// Requests that triggered a compaction.
    pub compactions: u64,
    /// Watch events that were dropped.
    pub dropped_events: u64,
    /// Watch events that were delayed.
    pub delayed_events: u64,
    /// Watch streams cut by a rule.
    pub cut_watches: u64,
    /// Watch streams that stalled.
    pub frozen_watches: u64,
    /// Reads that were answered by a lagging server.
    pub lagging_reads: u64,
}

/// A command to the parts of the sandbox that takes effect immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// The store drops all versions but the current ones.
    Compact,
    /// The listener aborts all its connections.
    ResetConnections,
    /// The listener's connections stay open without being served, or are served again.
    FreezeConnections(bool),
}

/// How often all open watches were ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kills {
    /// The number of calls of `kill_watches`.
    pub(crate) breaks: u64,
    /// The number of calls of `expire_watches`.
    pub(crate) expiries: u64,
}

type Revision = Box<dyn Fn() -> u64 + Send + Sync>;
type Subscriber = Arc<dyn Fn(Command) + Send + Sync>;
type WeakSubscriber = Weak<dyn Fn(Command) + Send + Sync>;

/// A subscription to commands. Dropping it ends the subscription.
pub struct Subscription {
    _subscriber: Subscriber,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// The faults of one sandbox. Clones share the rules and the counters.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    seed: u64,
    /// `true` if there are any rules; read without the lock on every request.
    armed: AtomicBool,
    state: Mutex<State>,
    subscribers: RwLock<Vec<WeakSubscriber>>,
    /// Open streams end when it changes.
    kills: watch::Sender<Kills>,
    /// Returns the revision of the store.
    revision: OnceLock<Revision>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    rules: BTreeMap<FaultId, Rule>,
    /// Counters are kept after their rules are removed.
    counts: BTreeMap<FaultId, u64>,
    injected: Injected,
}

impl Default for Faults {
    /// Returns a handle without faults, with the seed 0.
    fn default() -> Self {
        Self::new(0)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Faults")
            .field("seed", &self.shared.seed)
            .field("rules", &state.rules)
            .field("injected", &state.injected)
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// Returns a handle without faults. The seed determines those that are added.
    pub fn new(seed: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                seed,
                armed: AtomicBool::new(false),
                state: Mutex::default(),
                subscribers: RwLock::default(),
                kills: watch::Sender::new(Kills::default()),
                revision: OnceLock::new(),
            }),
        }
    }

    /// Adds a rule. It applies from the next request or event on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use kopf_sandbox::fault::{Fault, Faults, Verb};
    ///
    /// let faults = Faults::new(7);
    /// let slow = faults.inject(Fault::latency(Duration::from_millis(200)).verb(Verb::List));
    /// assert!(faults.remove(slow));
    /// assert!(!faults.remove(slow), "already removed");
    /// ```
    pub fn inject(&self, fault: Fault) -> FaultId {
        let revision = self.shared.revision.get().map_or(0, |revision| revision());
        let mut state = self.lock();
        state.last_id += 1;
        let id = FaultId(state.last_id);
        let rule = Rule::new(fault, Instant::now(), revision);
        state.rules.insert(id, rule);
        state.counts.insert(id, 0);
        self.shared.armed.store(true, Ordering::Release);
        id
    }

    /// Adds all rules of a document: YAML or JSON, as for `kopf sandbox --faults`.
    ///
    /// ```
    /// use kopf_sandbox::fault::Faults;
    ///
    /// let faults = Faults::new(7);
    /// let rules = "- {fault: error, code: 429, retryAfter: 1, verbs: [patch], times: 5}";
    /// assert_eq!(faults.load(rules)?.len(), 1);
    /// assert!(faults.load("- {fault: rest}").is_err());
    /// # Ok::<(), kopf_sandbox::fault::RuleError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A rule is invalid; none is added.
    pub fn load(&self, text: &str) -> Result<Vec<FaultId>, RuleError> {
        let rules = spec::parse(text)?;
        Ok(rules.into_iter().map(|rule| self.inject(rule)).collect())
    }

    /// Returns the seed, the rules and the counters as a document.
    pub(crate) fn describe(&self) -> Value {
        let state = self.lock();
        let rules = state.rules.iter().map(|(id, rule)| {
            let count = state.counts.get(id).copied().unwrap_or_default();
            json!({ "id": id.0, "count": count, "rule": spec::write(rule.fault()) })
        });
        let rules: Vec<Value> = rules.collect();
        let Injected {
            latencies,
            errors,
            resets,
            half_open,
            compactions,
            dropped_events,
            delayed_events,
            cut_watches,
            frozen_watches,
            lagging_reads,
        } = state.injected;
        json!({
            "seed": self.shared.seed,
            "rules": rules,
            "injected": {
                "latencies": latencies, "errors": errors, "resets": resets,
                "halfOpen": half_open, "compactions": compactions,
                "droppedEvents": dropped_events, "delayedEvents": delayed_events,
                "cutWatches": cut_watches, "frozenWatches": frozen_watches,
                "laggingReads": lagging_reads,
            },
        })
    }

    /// Removes a rule. Returns `false` if there is no such rule.
    pub fn remove(&self, id: FaultId) -> bool {
        let mut state = self.lock();
        let removed = state.rules.remove(&id).is_some();
        self.shared
            .armed
            .store(!state.rules.is_empty(), Ordering::Release);
        removed
    }

    /// Removes all rules. Counters are kept.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.rules.clear();
        self.shared.armed.store(false, Ordering::Release);
    }

    /// Returns how often a rule has struck, even after its removal.
    pub fn count(&self, id: FaultId) -> u64 {
        self.lock().counts.get(&id).copied().unwrap_or_default()
    }

    /// Returns how often each type of fault has struck.
    ///
    /// ```
    /// use kopf_sandbox::fault::Faults;
    ///
    /// assert_eq!(Faults::default().injected().errors, 0);
    /// ```
    pub fn injected(&self) -> Injected {
        self.lock().injected
    }

    /// Breaks all open watches. Watches opened later are not affected.
    ///
    /// Clients see a truncated stream ([`ConnectionBroken`]), not an orderly end.
    pub fn kill_watches(&self) {
        self.shared.kills.send_modify(|kills| kills.breaks += 1);
    }

    /// Ends all open watches with the error 410 `Expired`, after the events that are already on their
    /// way. Watches opened later are not affected.
    ///
    /// Clients have to list the objects again, so they do not get the events in between.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
    /// sandbox.faults().expire_watches();
    /// # Ok(()) }
    /// ```
    pub fn expire_watches(&self) {
        self.shared.kills.send_modify(|kills| kills.expiries += 1);
    }

    /// Drops all old versions: watches and paged lists that continue from them get a 410.
    pub fn compact(&self) {
        self.lock().injected.compactions += 1;
        self.tell(Command::Compact);
    }

    /// Aborts all open connections of the listener with a TCP reset.
    ///
    /// Has no effect without a listener: see [`Fault::reset`] for calls in process.
    pub fn reset_connections(&self) {
        self.tell(Command::ResetConnections);
    }

    /// Makes all connections of the listener half-open: they stay open, nothing is read or sent,
    /// and new ones are accepted but not served. `false` resumes them.
    pub fn freeze_connections(&self, frozen: bool) {
        self.tell(Command::FreezeConnections(frozen));
    }

    /// Calls the function with every command until the subscription is dropped. The function must
    /// not own the sandbox (use weak references), nor call into these faults.
    #[doc(hidden)]
    pub fn subscribe(&self, subscriber: impl Fn(Command) + Send + Sync + 'static) -> Subscription {
        let subscriber: Subscriber = Arc::new(subscriber);
        let mut subscribers = self.shared.subscribers.write();
        subscribers.retain(|known| known.strong_count() > 0);
        subscribers.push(Arc::downgrade(&subscriber));
        Subscription {
            _subscriber: subscriber,
        }
    }

    /// Sets the source of the revision at which rules begin. Like a subscriber, it must not own the
    /// sandbox.
    #[doc(hidden)]
    pub fn set_revision(&self, revision: impl Fn() -> u64 + Send + Sync + 'static) {
        // A sandbox sets it once, when it is built.
        let _ = self.shared.revision.set(Box::new(revision));
    }

    /// Returns a receiver that changes whenever all open watches must end.
    pub(crate) fn watch_kills(&self) -> watch::Receiver<Kills> {
        self.shared.kills.subscribe()
    }

    /// Returns the verdict on a request. Called once per request, before it is carried out.
    pub(crate) fn on_request(&self, facts: &RequestFacts<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        if !self.shared.armed.load(Ordering::Acquire) {
            return verdict;
        }
        let compact = {
            let mut state = self.lock();
            let State {
                rules,
                counts,
                injected,
                ..
            } = &mut *state;
            let now = Instant::now();
            let mut compact = false;
            for (id, rule) in rules.iter_mut().filter(|(_, rule)| !rule.is_about_events()) {
                let Some(roll) = rule.strikes(facts, now, self.shared.seed, id.0) else {
                    continue;
                };
                if !apply(rule, roll, facts, &mut verdict, injected) {
                    continue;
                }
                compact |= matches!(rule.effect(), Effect::Compact);
                rule.struck();
                *counts.entry(*id).or_default() += 1;
            }
            compact
        };
        // Outside of the lock: the store may take its own.
        if compact {
            self.tell(Command::Compact);
        }
        verdict
    }

    /// Returns the verdict on a watch event. `facts` describe the watch, with the namespace and
    /// name of the object. Called once per event and stream.
    pub(crate) fn on_watch_event(&self, facts: &RequestFacts<'_>) -> EventVerdict {
        if !self.shared.armed.load(Ordering::Acquire) {
            return EventVerdict::Deliver;
        }
        let mut state = self.lock();
        let State {
            rules,
            counts,
            injected,
            ..
        } = &mut *state;
        let now = Instant::now();
        let mut fate = EventVerdict::Deliver;
        for (id, rule) in rules.iter_mut().filter(|(_, rule)| rule.is_about_events()) {
            let struck = rule.strikes(facts, now, self.shared.seed, id.0).is_some();
            if !struck || fate != EventVerdict::Deliver {
                continue;
            }
            fate = match rule.effect() {
                Effect::DropEvents => {
                    injected.dropped_events += 1;
                    EventVerdict::Drop
                }
                Effect::DelayEvents(delay) => {
                    injected.delayed_events += 1;
                    EventVerdict::Delay(*delay)
                }
                Effect::CutWatch => {
                    injected.cut_watches += 1;
                    EventVerdict::Cut
                }
                Effect::FreezeWatch => {
                    injected.frozen_watches += 1;
                    EventVerdict::Freeze
                }
                _ => continue,
            };
            rule.struck();
            *counts.entry(*id).or_default() += 1;
        }
        fate
    }

    fn tell(&self, command: Command) {
        let subscribers = self.shared.subscribers.read();
        for subscriber in subscribers.iter().filter_map(Weak::upgrade) {
            subscriber(command);
        }
    }

    /// Locks the state. Counters and rules are valid at any time, so a poisoned lock is safe to
    /// use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }
}

/// Applies the effect of a rule that strikes a request. Returns `false` if it has none on this one.
fn apply(
    rule: &Rule,
    roll: u64,
    facts: &RequestFacts<'_>,
    verdict: &mut Verdict,
    injected: &mut Injected,
) -> bool {
    match rule.effect() {
        Effect::Latency { least, most } => {
            let delay = chance::between(roll, *least, *most);
            verdict.delay = verdict.delay.saturating_add(delay);
            injected.latencies += 1;
        }
        Effect::Lag(by) if facts.verb.is_read() => {
            verdict.lag = Some(rule.lag(*by));
            injected.lagging_reads += 1;
        }
        Effect::Lag(_) => return false,
        Effect::Compact => injected.compactions += 1,
        // A request has one outcome: that of the oldest rule.
        _ if !matches!(verdict.outcome, Outcome::Proceed) => return false,
        Effect::Error { code, retry_after } => {
            let rejection = verdict::rejection(*code, *retry_after, facts);
            verdict.outcome = Outcome::Reject(Box::new(rejection));
            injected.errors += 1;
        }
        Effect::Reset => {
            verdict.outcome = Outcome::Break(ConnectionFault::Reset);
            injected.resets += 1;
        }
        Effect::HalfOpen => {
            verdict.outcome = Outcome::Break(ConnectionFault::HalfOpen);
            injected.half_open += 1;
        }
        Effect::DropEvents | Effect::DelayEvents(_) | Effect::CutWatch | Effect::FreezeWatch => {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests;
