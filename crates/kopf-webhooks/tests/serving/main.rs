//! Servers and tunnels over real sockets of this machine, in front of a fake operator.

#![allow(clippy::unwrap_used, clippy::panic)] // all of it is tests

mod client;
mod hosts;
mod limits;
mod ngrok;
mod operator;
mod pki;
mod reloading;
mod requests;
mod sharing;
mod tls;
