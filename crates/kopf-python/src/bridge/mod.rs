//! The operator: the engine in its thread, and the drain of its queue.

pub(crate) mod drain;
pub(crate) mod engine;
