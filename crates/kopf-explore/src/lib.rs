//! Finds the bugs of Kubernetes operators in any language: what happens if the process dies between
//! two writes, if a restarted operator reads from a server that lags, if an object changes twice
//! while the watch is down?
//!
//! An exploration runs a [scenario] on sandboxes. Undisturbed runs are the
//! [reference](record::Reference). Each [plan](plan::Plan) is a run with one
//! [deviation](deviation::Deviation) at one [point](point::Point). [Oracles](oracle) compare its
//! [journal] and its objects with the reference. Findings are repeated, reduced and reported.
//!
//! Everything that decides is independent of processes and of time.

#![warn(clippy::too_many_lines)]

#[cfg(feature = "command")]
pub mod command;
pub mod deviation;
pub mod duration;
pub mod explore;
pub mod invariant;
pub mod journal;
pub mod mask;
pub mod needs;
pub mod object;
pub mod oracle;
pub mod outcome;
pub mod plan;
pub mod point;
pub mod record;
mod reduce;
pub mod report;
pub mod run;
pub mod scenario;
pub mod settings;

pub use self::settings::Settings;
