//! A breadth-first explorer of all interleavings.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};

/// A model: states, steps, and the properties that hold in every state.
pub(crate) trait Model {
    type State: Clone + Hash;
    type Step: Clone + Debug;

    /// Returns all steps that are possible in a state.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;

    /// Makes a step. An error is a violated property.
    fn make(&self, state: &mut Self::State, step: &Self::Step) -> Result<(), String>;

    /// Checks a state in which no step is possible.
    fn check_end(&self, state: &Self::State) -> Result<(), String>;
}

/// The result of an exploration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Explored {
    /// Every state within the bound satisfies the properties.
    Complete { states: usize },
    /// The bound of states was reached without a violation.
    Bounded { states: usize },
    /// A property is violated after these steps.
    Violated {
        property: String,
        steps: Vec<String>,
    },
}

/// Visits every state that is reachable from the initial one, up to a number of states.
pub(crate) fn explore<M: Model>(model: &M, initial: M::State, bound: usize) -> Explored {
    let hasher = RandomState::new();
    let mut visited = HashSet::from([hasher.hash_one(&initial)]);
    // The origin of each visited state: its predecessor and the step from there.
    let mut origins: Vec<Option<(usize, M::Step)>> = vec![None];
    let mut queue = VecDeque::from([(0_usize, initial)]);
    while let Some((number, state)) = queue.pop_front() {
        let steps = model.steps(&state);
        if steps.is_empty()
            && let Err(property) = model.check_end(&state)
        {
            let steps = trace(&origins, number);
            return Explored::Violated { property, steps };
        }
        for step in steps {
            let mut next = state.clone();
            let result = model.make(&mut next, &step);
            let is_new = visited.insert(hasher.hash_one(&next));
            if result.is_err() || is_new {
                origins.push(Some((number, step)));
            }
            if let Err(property) = result {
                let steps = trace(&origins, origins.len() - 1);
                return Explored::Violated { property, steps };
            }
            if is_new {
                if origins.len() >= bound {
                    return Explored::Bounded {
                        states: origins.len(),
                    };
                }
                queue.push_back((origins.len() - 1, next));
            }
        }
    }
    Explored::Complete {
        states: origins.len(),
    }
}

fn trace<S: Debug>(origins: &[Option<(usize, S)>], mut number: usize) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some((predecessor, step)) = &origins[number] {
        steps.push(format!("{step:?}"));
        number = *predecessor;
    }
    steps.reverse();
    steps
}
