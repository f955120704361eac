//! Tests of handling: its effects on objects, API calls and logs.
//!
//! One file per topic, one function per behaviour. Sections refer to the description of
//! handling in the original. Tests that need neither virtual time nor faults also run on a real
//! control plane.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are also tests"
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "helper functions take `json!(…)` as it is, and every patch has a path"
)]

mod front;
mod golden;
mod stage;

mod activities;
mod admission;
mod applying;
mod awaited_storages;
mod background;
mod causes;
mod conditions;
mod consistency;
mod contention;
mod delays;
mod essence;
mod events;
mod faults;
mod filters;
mod finalizers;
mod foreign;
mod health;
mod indexing;
mod late_leases;
mod leading;
mod log_style;
mod lost_updates;
mod managed_fields;
mod metrics;
mod no_progress;
mod outcomes;
mod owning;
mod patching;
mod pausing;
mod peering;
mod posting;
mod progress;
mod queueing;
mod reconciling;
mod recreation;
mod restarts;
mod results;
mod retriggering;
mod scopes;
mod secrets;
mod selection;
mod settings;
mod sizes;
mod storages;
mod streams;
mod subhandlers;
mod takeover;
mod throttling;
mod traces;
