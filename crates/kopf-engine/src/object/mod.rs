//! The driver of one object: performs the actions of its state machine and feeds the results back.
//!
//! The rules are in `kopf_core::object`, the effects are here. An object has one driver while it
//! has pending work, so nothing is done to it concurrently.

mod ahead;
mod changing;
mod context;
mod driver;
mod events;
mod indexing;
mod oversized;
mod owning;
mod performing;
mod permit;
mod persisting;
mod planning;
mod quiet;
mod releasing;
mod retriggering;
mod runners;
mod stamping;
mod standby;
mod state;
#[cfg(test)]
mod tests;
mod watching;
mod writing;

pub(crate) use context::{ResourceContext, stream};
pub(crate) use driver::Driver;
pub(crate) use permit::ObjectPermit;
pub(crate) use quiet::QuietState;
pub(crate) use state::ObjectState;
