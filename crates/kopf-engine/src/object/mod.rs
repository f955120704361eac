//! The driver of one object: performs the actions of its state machine and feeds the results back.
//!
//! The decisions are in `kopf_core::object`, the effects are here. An object has one driver while
//! it has pending work, so nothing is done to it concurrently. To read: `driver` (the phases of an
//! object), `active` (its events and actions), `cycle` and `reconciling` (its handlers), `writing` (its patches).

mod active;
mod calling;
mod context;
mod cycle;
mod driver;
mod reconciling;
mod runners;
mod sessions;
mod state;
mod writing;

pub(crate) use context::{AssignmentChange, ResourceContext};
pub(crate) use driver::Driver;
pub(crate) use state::{ObjectState, QuietState};
