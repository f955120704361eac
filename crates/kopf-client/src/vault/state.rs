//! Which credentials are there, which of them is next, and which are not wanted again. No waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use super::credentials::{Held, Identity};
use super::error::LoginError;

/// How many refused credentials are remembered for each id.
const REMEMBERED: usize = 3;

#[allow(clippy::struct_excessive_bools)] // facts that have nothing to do with each other
pub(super) struct State {
    /// A few at most: one for each login handler.
    current: Vec<Arc<Held>>,
    refused: HashMap<Arc<str>, VecDeque<Identity>>,
    /// Whether somebody waits for credentials.
    wanted: bool,
    /// Whether any of those that are gone since the last login was accepted by the server.
    worked: bool,
    /// Whether any of them was refused. If not, their time is over, and nothing is wrong with them.
    was_refused: bool,
    /// Whether it was told that there is no connection, because of certificates.
    is_told: bool,
    /// Why there will not be any more.
    pub(super) over: Option<LoginError>,
    chance: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            current: Vec::new(),
            refused: HashMap::new(),
            wanted: false,
            worked: false,
            was_refused: false,
            is_told: false,
            over: None,
            chance: seed,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Whether it is time to log in.
    pub(super) fn is_wanting(&self) -> bool {
        self.wanted && self.is_empty()
    }

    /// One of those with the highest priority, by chance. If there are none, they are wanted.
    pub(super) fn pick(&mut self, now: Instant) -> Option<Arc<Held>> {
        self.expire(now);
        if let [only] = self.current.as_slice() {
            return Some(Arc::clone(only));
        }
        self.wanted = self.is_empty();
        let top = self.current.iter().map(|held| held.priority).max()?;
        let number = self.draw();
        let best = self.current.iter().filter(|held| held.priority == top);
        let count = u64::try_from(best.clone().count()).ok()?;
        let lot = usize::try_from(number.checked_rem(count)?).ok()?;
        best.clone().nth(lot).map(Arc::clone)
    }

    /// What would probably be picked.
    pub(super) fn peek(&self) -> Option<Arc<Held>> {
        let best = self.current.iter().max_by_key(|held| held.priority);
        best.map(Arc::clone)
    }

    /// Drops those whose time is over. They are welcome again.
    fn expire(&mut self, now: Instant) {
        let is_over = |held: &Arc<Held>| held.until.is_some_and(|until| until <= now);
        if self.current.iter().any(is_over) {
            self.worked |= self
                .current
                .iter()
                .any(|held| is_over(held) && held.has_worked());
            self.current.retain(|held| !is_over(held));
        }
    }

    /// Drops these, and remembers them as bad. False if they are dropped already.
    pub(super) fn invalidate(&mut self, refused: &Arc<Held>) -> bool {
        let before = self.current.len();
        self.current.retain(|held| !Arc::ptr_eq(held, refused));
        if self.current.len() == before {
            return false;
        }
        self.worked |= refused.has_worked();
        self.was_refused = true;
        let remembered = self.refused.entry(Arc::clone(&refused.id)).or_default();
        if remembered.len() >= REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back(refused.identity.clone());
        true
    }

    /// Drops these, which are not refused, but cannot be tried. Whether that is to be told to somebody:
    /// once, until there was a connection. None if they are dropped already.
    pub(super) fn distrust(&mut self, held: &Arc<Held>) -> Option<bool> {
        let before = self.current.len();
        self.current.retain(|known| !Arc::ptr_eq(known, held));
        if self.current.len() == before {
            return None;
        }
        self.worked |= held.has_worked();
        let was_told = std::mem::replace(&mut self.is_told, true);
        Some(!was_told || held.has_worked())
    }

    /// How it was with those of the last login: whether any has worked, whether any was refused.
    pub(super) fn end_of_last(&mut self) -> (bool, bool) {
        let was_refused = std::mem::take(&mut self.was_refused);
        (std::mem::take(&mut self.worked), was_refused)
    }

    /// Whether the server has refused the same before.
    pub(super) fn is_refused(&self, id: &str, identity: &Identity) -> bool {
        let remembered = self.refused.get(id).into_iter().flatten();
        remembered.into_iter().any(|known| known.is_same(identity))
    }

    /// Takes new ones over, instead of those with the same ids.
    pub(super) fn populate(&mut self, new: Vec<Held>) {
        for held in new {
            self.current.retain(|known| known.id != held.id);
            self.current.push(Arc::new(held));
        }
        self.worked = false;
        self.was_refused = false;
        self.wanted = false;
    }

    /// The next number of a sequence without a visible order (splitmix64).
    fn draw(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::Response;
    use kube::client::Body;

    use super::*;
    use crate::transport::Lane;

    fn held(id: &str, secret: &str, priority: i32) -> Held {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let lane = Lane::new(service, "", "default");
        let identity = Identity::Known(secret.to_owned());
        Held::new(id, (lane, identity), priority, None)
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
    fn what_cannot_be_tried_is_told_once_and_welcome_again() {
        let mut state = State::new(7);
        let mut drop_one = |worked: bool| {
            state.populate(vec![held("a", "1", 0)]);
            let picked = state.pick(Instant::now()).unwrap();
            if worked {
                picked.note_success();
            }
            let told = state.distrust(&picked);
            assert_eq!(state.distrust(&picked), None, "they are gone already");
            assert!(!state.is_refused("a", &picked.identity));
            told
        };
        assert_eq!(drop_one(false), Some(true));
        assert_eq!(drop_one(false), Some(false));
        assert_eq!(drop_one(true), Some(true), "it is another time");
        assert_eq!(drop_one(false), Some(false));
    }

    #[test]
    fn the_highest_priority_is_taken_and_chance_decides_among_equals() {
        let mut state = State::new(7);
        assert!(state.pick(Instant::now()).is_none());
        state.populate(vec![
            held("low", "1", -1),
            held("a", "2", 5),
            held("b", "3", 5),
            held("c", "4", 5),
        ]);
        assert_eq!(ids(&mut state), ["a", "b", "c"]);
        for _ in 0..3 {
            let refused = state.pick(Instant::now()).unwrap();
            assert!(state.invalidate(&refused));
        }
        assert_eq!(ids(&mut state), ["low"]);
    }

    #[test]
    fn new_ones_replace_those_of_the_same_id() {
        let mut state = State::new(0);
        state.populate(vec![held("a", "1", 0), held("b", "2", 0)]);
        let old = state.current[0].clone();
        state.populate(vec![held("a", "3", 1)]);
        assert_eq!(ids(&mut state), ["a"]);
        assert_eq!(state.current.len(), 2);
        assert!(!state.invalidate(&old), "it was dropped already");
        assert_eq!(state.current.len(), 2);
    }

    #[test]
    fn three_refused_ones_are_remembered_for_each_id() {
        let mut state = State::new(0);
        for secret in ["1", "2", "3", "4"] {
            state.populate(vec![held("a", secret, 0)]);
            let refused = state.pick(Instant::now()).unwrap();
            assert!(state.invalidate(&refused));
            assert!(!state.invalidate(&refused), "once is enough");
        }
        let known: Vec<_> = ["1", "2", "3", "4", "5"]
            .into_iter()
            .filter(|secret| state.is_refused("a", &Identity::Known((*secret).to_owned())))
            .collect();
        assert_eq!(known, ["2", "3", "4"]);
        assert!(!state.is_refused("b", &Identity::Known("4".to_owned())));
        assert!(!state.is_refused("a", &Identity::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn expired_ones_are_dropped_without_being_remembered() {
        let mut state = State::new(0);
        let now = Instant::now();
        let mut expiring = held("a", "1", 9);
        expiring.until = Some(now + Duration::from_secs(10));
        state.populate(vec![expiring, held("b", "2", 0)]);
        let before = now + Duration::from_secs(9);
        assert_eq!(&*state.pick(before).unwrap().id, "a");
        let after = now + Duration::from_secs(10);
        assert_eq!(&*state.pick(after).unwrap().id, "b");
        assert!(!state.is_refused("a", &Identity::Known("1".to_owned())));
    }

    #[test]
    fn it_is_known_whether_any_has_worked() {
        let mut state = State::new(0);
        state.populate(vec![held("a", "1", 1), held("b", "2", 0)]);
        let first = state.pick(Instant::now()).unwrap();
        first.note_success();
        state.invalidate(&first);
        assert!(state.worked);
        state.populate(vec![held("a", "3", 1)]);
        assert!(!state.worked, "of the new ones, nothing is known");
    }
}
