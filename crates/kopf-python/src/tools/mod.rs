//! Commands, and the sandbox.

#[cfg(feature = "sandbox")]
pub(crate) mod exploring;
pub(crate) mod inspecting;
pub(crate) mod pausing;
#[cfg(feature = "sandbox")]
pub(crate) mod sandboxing;
pub(crate) mod shipping;
#[cfg(feature = "sandbox")]
pub(crate) mod virtual_time;
