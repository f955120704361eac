//! Behaviour of whole sandboxes: in process, over TLS, and under faults. One binary, so it is linked once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests"
)]

mod bad_input;
mod built_in_kinds;
mod certificates;
mod containers;
mod control;
mod costly_input;
mod crds;
mod determinism;
mod durability;
mod faults;
mod faults_over_tls;
mod faulty_watches;
mod gaps_and_views;
mod histories;
mod long_lists;
mod many;
mod model;
mod protobuf;
mod quotas;
mod rights;
mod robustness;
mod rough;
mod simulation;
mod support;
mod taps;
mod taps_over_tls;
mod users;
mod views;
mod watchers;
mod websockets;
