//! From handlers to a cluster: roles, manifests and Helm charts of operators, and new projects.
//!
//! Everything here is text: a function takes a description and returns YAML or files. The fronts describe
//! their operators and print or write the result. Output is deterministic: the same description gives
//! the same bytes.
//!
//! - [`rbac`]: service account, roles and bindings;
//! - [`manifests`]: everything that an operator needs in a cluster;
//! - [`chart`]: the same as a Helm chart;
//! - [`peering`]: the CRDs of peering objects;
//! - [`scaffold`]: a new project.

#![warn(clippy::too_many_lines)]

mod chart;
mod deployment;
mod files;
mod manifests;
mod naming;
mod peering;
mod plan;
mod rbac;
pub mod scaffold;
mod yaml;

pub use chart::chart;
pub use deployment::{Deployment, Webhooks};
pub use files::{Error as FilesError, File, write_new};
pub use manifests::manifests;
pub use naming::{Error as NamingError, Identity};
pub use peering::{PeeringGroup, peering};
pub use plan::{Launch, Plan};
pub use rbac::rbac;
pub use yaml::{Error as YamlError, definitions, documents};
