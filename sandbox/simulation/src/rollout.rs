//! The sizes of a Deployment's ReplicaSets during a rollout, as a pure function.

use serde_json::Value;

use super::fields::{Rounding, number, portion, text};

/// The size of one ReplicaSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Its requested replicas.
    pub(super) wanted: i64,
    /// Its pods, except for terminating ones.
    pub(super) present: i64,
    pub(super) available: i64,
}

impl Size {
    pub(super) fn of(set: &Value) -> Self {
        Self {
            wanted: number(set, "/spec/replicas", 1),
            present: number(set, "/status/replicas", 0),
            available: number(set, "/status/availableReplicas", 0),
        }
    }
}

/// The rules of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    Recreate,
    Rolling {
        max_surge: i64,
        max_unavailable: i64,
    },
}

impl Strategy {
    pub(super) fn of(deployment: &Value) -> Self {
        if text(deployment, "/spec/strategy/type") == "Recreate" {
            return Self::Recreate;
        }
        let wanted = number(deployment, "/spec/replicas", 1);
        let given =
            |field: &str| deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
        let max_surge = portion(given("maxSurge"), wanted, Rounding::Up);
        let max_unavailable = portion(given("maxUnavailable"), wanted, Rounding::Down);
        Self::Rolling {
            max_surge,
            // Otherwise no pod could be replaced.
            max_unavailable: max_unavailable.max(i64::from(max_surge == 0)),
        }
    }

    /// Returns the maximum number of pods of a Deployment.
    pub(super) fn most(self, wanted: i64) -> i64 {
        match self {
            Self::Recreate => wanted,
            Self::Rolling { max_surge, .. } => wanted + max_surge,
        }
    }
}

/// Requested sizes after one step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) new: i64,
    pub(super) old: Vec<i64>,
}

/// Returns the next sizes of the new ReplicaSet and of the old ones (oldest first).
pub(super) fn step(strategy: Strategy, wanted: i64, new: Size, old: &[Size]) -> Step {
    match strategy {
        Strategy::Recreate => {
            let gone = old.iter().all(|size| size.wanted == 0 && size.present == 0);
            Step {
                new: if gone { wanted } else { new.wanted.min(wanted) },
                old: vec![0; old.len()],
            }
        }
        Strategy::Rolling {
            max_unavailable, ..
        } => {
            let total = new.wanted + old.iter().map(|size| size.wanted).sum::<i64>();
            let room = (strategy.most(wanted) - total).max(0);
            let grown = if new.wanted < wanted {
                wanted.min(new.wanted + room)
            } else {
                wanted
            };
            Step {
                new: grown,
                old: shrunk(new, old, wanted - max_unavailable),
            }
        }
    }
}

/// Shrinks old ReplicaSets: first by unavailable pods, then as far as enough others are available.
fn shrunk(new: Size, old: &[Size], least: i64) -> Vec<i64> {
    let mut sizes: Vec<i64> = old.iter().map(|size| size.wanted).collect();
    let total = new.wanted + sizes.iter().sum::<i64>();
    let new_unavailable = (new.wanted - new.available).max(0);
    let mut allowed = (total - least - new_unavailable).max(0);
    for (size, set) in sizes.iter_mut().zip(old) {
        let unhealthy = (set.wanted - set.available).clamp(0, allowed);
        *size -= unhealthy;
        allowed -= unhealthy;
    }
    let available = new.available + old.iter().map(|size| size.available).sum::<i64>();
    let mut spare = (available - least).max(0);
    for size in &mut sizes {
        let less = (*size).min(spare);
        *size -= less;
        spare -= less;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn size(wanted: i64, available: i64) -> Size {
        Size {
            wanted,
            present: wanted,
            available,
        }
    }

    #[test]
    fn rollouts_stay_within_their_bounds() {
        let strategy = Strategy::Rolling {
            max_surge: 1,
            max_unavailable: 1,
        };
        let mut new = size(0, 0);
        let mut old = vec![size(4, 4)];
        for _ in 0..20 {
            let step = step(strategy, 4, new, &old);
            let total = step.new + step.old.iter().sum::<i64>();
            assert!(total <= 5, "{step:?}");
            // Pods of smaller sets are removed immediately; new ones are available in the next
            // cycle.
            let available = step.old[0].min(old[0].available) + new.available.min(step.new);
            assert!(available >= 3, "{step:?}");
            new = size(step.new, new.wanted);
            old = vec![size(step.old[0], step.old[0])];
        }
        assert_eq!((new.wanted, old[0].wanted), (4, 0));
    }

    #[test]
    fn unhealthy_old_pods_do_not_block_a_rollout() {
        let strategy = Strategy::Rolling {
            max_surge: 0,
            max_unavailable: 1,
        };
        let step = step(strategy, 3, size(0, 0), &[size(3, 0)]);
        assert_eq!(step.old, [2]);
    }

    #[test]
    fn recreate_waits_for_the_old_pods() {
        let ending = Size {
            wanted: 0,
            present: 1,
            available: 0,
        };
        assert_eq!(
            step(Strategy::Recreate, 2, size(0, 0), &[size(2, 2)]),
            Step {
                new: 0,
                old: vec![0]
            }
        );
        assert_eq!(step(Strategy::Recreate, 2, size(0, 0), &[ending]).new, 0);
        assert_eq!(
            step(Strategy::Recreate, 2, size(0, 0), &[size(0, 0)]).new,
            2
        );
    }

    #[test]
    fn strategies_are_parsed_with_their_rounding() {
        let deployment = json!({ "spec": { "replicas": 3, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" },
        }}});
        let expected = Strategy::Rolling {
            max_surge: 1,
            max_unavailable: 0,
        };
        assert_eq!(Strategy::of(&deployment), expected);
    }
}
