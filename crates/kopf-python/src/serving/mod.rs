//! Servers of webhooks.

pub(crate) mod webhooks;
