//! The handling of objects: the state machine, settings, permissions.

#[doc(hidden)]
pub mod object;
#[doc(hidden)]
pub mod rights;
pub mod settings;
