//! Permissions that an operator needs, derived from its handlers and settings.
//!
//! ```text
//! handlers, settings, scope, known resources ─► Requirements ─► rules of roles, as YAML
//!                                                            └► reviews at the start of an operator
//! ```
//!
//! Permissions of the user's own requests, such as the creation of children, cannot be derived: they
//! are added with [`ExtraPermission`].

mod extra_permission;
mod grants;
mod permission;
mod remark;
mod requirements;
mod resources;
mod rules;

pub use extra_permission::{Error as ExtraPermissionError, ExtraPermission};
pub use grants::{Completeness, Grants};
pub use permission::{Permission, PermissionScope};
pub use remark::Remark;
pub use requirements::{Coverage, Leases, Requirements, Usage};
pub use resources::{builtin_resources, resources_of_definition};
pub use rules::{Rule, rules, to_yaml};

/// Options of an operator beyond its settings that need permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Leases of leader election.
    pub leases: Leases,
    /// Creates and changes CRDs at the start.
    pub installs_definitions: bool,
}
