//! The handling of objects: the state machine, settings, permissions.

pub mod object;
pub mod rights;
pub mod settings;
