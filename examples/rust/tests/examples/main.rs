//! Runs each example as a process with only a kubeconfig, and checks objects, events and logs.
//!
//! `KOPF_TEST_API` selects the server (see `kopf_tests::Server`); a sandbox is reached over TLS.
#![cfg(unix)] // signals are sent with kill(1)
#![allow(missing_docs, clippy::panic, clippy::unwrap_used)] // only tests

mod admission;
mod all_at_once;
mod builtins;
mod children;
mod daemons;
mod documented;
mod embedded;
mod ephemeral_volume_claims;
mod events;
mod exceptions;
mod filtering;
mod handlers;
mod hooks;
mod indexing;
mod load_testing;
mod minimal;
#[path = "../../../../tests/guide/options.rs"]
mod options;
mod own_program;
mod peering;
mod program;
mod raw_events;
mod reconcile;
mod simple_deployment;
mod stage;
mod subhandlers;
mod tenants;
mod testing;
mod timers;
