//! The credentials of a vault, without any waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use crate::error::LoginError;
use crate::grant::{Grant, Identity};
use crate::random::SplitMix64;

/// The number of rejected credentials that are kept for each id.
const REMEMBERED: usize = 3;

/// The credentials of a vault.
pub(super) struct State {
    /// One for each login handler at most.
    current: Vec<Arc<Grant>>,
    rejected: HashMap<Arc<str>, VecDeque<Identity>>,
    /// `true` if a request waits for credentials.
    is_wanted: bool,
    end: LastEnd,
    /// `true` if a failed TLS verification was reported since the last connection.
    is_reported: bool,
    /// The permanent failure of the login.
    pub(super) over: Option<LoginError>,
    random: SplitMix64,
}

/// The end of the credentials of the last login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LastEnd {
    /// The server accepted some of them before they were removed.
    pub(super) has_worked: bool,
    /// The server rejected some of them. Otherwise they have expired.
    pub(super) was_rejected: bool,
}

/// The result of removing credentials with which TLS verification fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// They were removed before.
    Repeated,
    /// The first failure since there was a connection.
    First,
    /// One more failure.
    Again,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            current: Vec::new(),
            rejected: HashMap::new(),
            is_wanted: false,
            end: LastEnd::default(),
            is_reported: false,
            over: None,
            random: SplitMix64::new(seed),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Returns `true` if a login is needed.
    pub(super) fn is_wanting(&self) -> bool {
        self.is_wanted && self.is_empty()
    }

    /// Returns one of those with the highest priority, chosen at random. `None` requests a login.
    pub(super) fn pick(&mut self, now: Instant) -> Option<Arc<Grant>> {
        self.expire(now);
        if let [only] = self.current.as_slice() {
            return Some(Arc::clone(only));
        }
        self.is_wanted = self.is_empty();
        let top = self.current.iter().map(|grant| grant.priority).max()?;
        let number = self.random.next();
        let best = self.current.iter().filter(|grant| grant.priority == top);
        let count = u64::try_from(best.clone().count()).ok()?;
        let chosen = usize::try_from(number.checked_rem(count)?).ok()?;
        best.clone().nth(chosen).map(Arc::clone)
    }

    /// Returns one of those with the highest priority.
    pub(super) fn peek(&self) -> Option<Arc<Grant>> {
        let best = self.current.iter().max_by_key(|grant| grant.priority);
        best.map(Arc::clone)
    }

    /// Removes expired ones. They are accepted again if a login returns them.
    fn expire(&mut self, now: Instant) {
        let is_over = |grant: &Arc<Grant>| grant.until.is_some_and(|until| until <= now);
        if self.current.iter().any(is_over) {
            self.end.has_worked |= self
                .current
                .iter()
                .any(|grant| is_over(grant) && grant.has_worked());
            self.current.retain(|grant| !is_over(grant));
        }
    }

    /// Removes rejected ones and remembers them. Returns `false` if they were removed before.
    pub(super) fn invalidate(&mut self, rejected: &Arc<Grant>) -> bool {
        if !self.remove(rejected) {
            return false;
        }
        self.end.was_rejected = true;
        let remembered = self.rejected.entry(Arc::clone(&rejected.id)).or_default();
        if remembered.len() >= REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back(rejected.identity.clone());
        true
    }

    /// Removes those with which TLS verification fails. They are accepted again if a login returns
    /// them, because the server can be the one to blame.
    pub(super) fn distrust(&mut self, grant: &Arc<Grant>) -> Removal {
        if !self.remove(grant) {
            return Removal::Repeated;
        }
        let was_reported = std::mem::replace(&mut self.is_reported, true);
        if was_reported && !grant.has_worked() {
            Removal::Again
        } else {
            Removal::First
        }
    }

    fn remove(&mut self, grant: &Arc<Grant>) -> bool {
        let before = self.current.len();
        self.current.retain(|known| !Arc::ptr_eq(known, grant));
        let is_removed = self.current.len() < before;
        self.end.has_worked |= is_removed && grant.has_worked();
        is_removed
    }

    /// Takes the end of the credentials of the last login.
    pub(super) fn take_last_end(&mut self) -> LastEnd {
        std::mem::take(&mut self.end)
    }

    /// Returns `true` if the server has rejected the same credentials before.
    pub(super) fn is_rejected(&self, id: &str, identity: &Identity) -> bool {
        let remembered = self.rejected.get(id).into_iter().flatten();
        remembered.into_iter().any(|known| known.is_same(identity))
    }

    /// Adds new ones. They replace those with the same ids.
    pub(super) fn populate(&mut self, new: Vec<Grant>) {
        for grant in new {
            self.current.retain(|known| known.id != grant.id);
            self.current.push(Arc::new(grant));
        }
        self.end = LastEnd::default();
        self.is_wanted = false;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::Response;
    use kube::client::Body;

    use super::*;
    use crate::transport::Channel;

    fn grant(id: &str, secret: &str, priority: i32) -> Grant {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let channel = Channel::new(service, "", "default");
        let identity = Identity::Known(secret.to_owned());
        let mut grant = Grant::new(id, channel, identity);
        grant.priority = priority;
        grant
    }

    fn ids(state: &mut State) -> Vec<String> {
        let mut ids: Vec<_> = (0..100)
            .filter_map(|_| state.pick(Instant::now()))
            .map(|held| held.id.to_string())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    #[test]
    fn untrusted_credentials_are_reported_once_and_accepted_again() {
        let mut state = State::new(7);
        let mut drop_one = |worked: bool| {
            state.populate(vec![grant("a", "1", 0)]);
            let picked = state.pick(Instant::now()).unwrap();
            if worked {
                picked.note_success();
            }
            let removal = state.distrust(&picked);
            assert_eq!(state.distrust(&picked), Removal::Repeated);
            assert!(!state.is_rejected("a", &picked.identity));
            removal
        };
        assert_eq!(drop_one(false), Removal::First);
        assert_eq!(drop_one(false), Removal::Again);
        assert_eq!(drop_one(true), Removal::First, "there was a connection");
        assert_eq!(drop_one(false), Removal::Again);
    }

    #[test]
    fn highest_priority_is_picked_and_equals_at_random() {
        let mut state = State::new(7);
        assert!(state.pick(Instant::now()).is_none());
        state.populate(vec![
            grant("low", "1", -1),
            grant("a", "2", 5),
            grant("b", "3", 5),
            grant("c", "4", 5),
        ]);
        assert_eq!(ids(&mut state), ["a", "b", "c"]);
        for _ in 0..3 {
            let rejected = state.pick(Instant::now()).unwrap();
            assert!(state.invalidate(&rejected));
        }
        assert_eq!(ids(&mut state), ["low"]);
    }

    #[test]
    fn new_credentials_replace_those_of_the_same_id() {
        let mut state = State::new(0);
        state.populate(vec![grant("a", "1", 0), grant("b", "2", 0)]);
        let old = state.current[0].clone();
        state.populate(vec![grant("a", "3", 1)]);
        assert_eq!(ids(&mut state), ["a"]);
        assert_eq!(state.current.len(), 2);
        assert!(!state.invalidate(&old), "replaced before");
        assert_eq!(state.current.len(), 2);
    }

    #[test]
    fn three_rejected_credentials_are_remembered_for_each_id() {
        let mut state = State::new(0);
        for secret in ["1", "2", "3", "4"] {
            state.populate(vec![grant("a", secret, 0)]);
            let rejected = state.pick(Instant::now()).unwrap();
            assert!(state.invalidate(&rejected));
            assert!(!state.invalidate(&rejected), "removed before");
        }
        let known: Vec<_> = ["1", "2", "3", "4", "5"]
            .into_iter()
            .filter(|secret| state.is_rejected("a", &Identity::Known((*secret).to_owned())))
            .collect();
        assert_eq!(known, ["2", "3", "4"]);
        assert!(!state.is_rejected("b", &Identity::Known("4".to_owned())));
        assert!(!state.is_rejected("a", &Identity::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn expired_credentials_are_not_remembered_as_rejected() {
        let mut state = State::new(0);
        let now = Instant::now();
        let mut expiring = grant("a", "1", 9);
        expiring.until = Some(now + Duration::from_secs(10));
        state.populate(vec![expiring, grant("b", "2", 0)]);
        let before = now + Duration::from_secs(9);
        assert_eq!(&*state.pick(before).unwrap().id, "a");
        let after = now + Duration::from_secs(10);
        assert_eq!(&*state.pick(after).unwrap().id, "b");
        assert!(!state.is_rejected("a", &Identity::Known("1".to_owned())));
    }

    #[test]
    fn success_is_recorded_until_the_next_login() {
        let mut state = State::new(0);
        state.populate(vec![grant("a", "1", 1), grant("b", "2", 0)]);
        let first = state.pick(Instant::now()).unwrap();
        first.note_success();
        state.invalidate(&first);
        assert!(state.end.has_worked);
        state.populate(vec![grant("a", "3", 1)]);
        assert_eq!(state.take_last_end(), LastEnd::default());
    }
}
