//! The `kopf` command: output, exit codes and files.

#![cfg(unix)] // signals are sent with kill(1)
#![allow(clippy::unwrap_used, clippy::panic)] // also in what is around the tests

mod commands;
mod explore;
mod manifests;
#[path = "../../../../tests/guide/options.rs"]
mod options;
mod process;
mod sandbox;
