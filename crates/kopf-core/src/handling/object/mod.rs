//! One object, one explicit state machine.
//!
//! The machine decides how an object is handled: when its versions are indexed and shown to event
//! handlers, when change handlers run, what is written when, what is waited for, and when to try
//! again. It is pure: [`Input`]s and [`Action`]s are data, the [`State`] is an enum, the rules are
//! functions, time is an argument. A driver (in `kopf-engine::object`) performs the actions.
//!
//! `tests/model` puts the machine into a small world and visits every interleaving of events,
//! edits, faults and crashes up to a bound.

mod action;
pub mod attempted;
pub mod cycle;
mod cycling;
mod echo;
pub mod handling;
mod input;
mod machine;
mod memory;
mod plan;
mod policy;
mod progressing;
pub mod reconciling;
mod releasing;
pub mod retriggering;
mod rules;
mod sending;
mod stamping;
mod state;
mod survey;
#[cfg(test)]
mod tests;
mod version;
mod writing;

use crate::moment;
pub use crate::moment::Moment;
pub use action::{Action, Message};
pub use attempted::AttemptedEssences;
pub use echo::{Awaited, Covered, Echo, Overdue, Remaining};
pub use input::{Effect, Handled, Input, Response};
pub use machine::{Actions, Machine};
pub use memory::{Memory, Object};
pub use plan::{Consistency, Facts, Finalizer, FinalizerChange, PendingPatch, Plan, plan};
pub use policy::Policy;
pub use progressing::Fingerprint;
pub use reconciling::{Now, Reconcilers};
pub use releasing::{Erasure, Release};
pub use rules::{DeletionBlockers, Rules, StandardRules};
pub use sending::WritePlan;
pub use stamping::Stamp;
pub use state::{BackOffReason, BackingOff, NextStep, Running, Snapshot, State, Unsent};
pub use survey::{Runners, Survey};
pub use version::{Version, reaches};
