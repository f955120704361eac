//! Servers and tunnels over real sockets of this machine, with a fake operator.

#![allow(clippy::unwrap_used, clippy::panic)] // test code only

mod client;
mod hosts;
mod limits;
mod ngrok;
mod operator;
mod pki;
mod reloading;
mod requests;
mod services;
mod sharing;
mod tls;
