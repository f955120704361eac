//! Roles, manifests, Helm charts and project templates of operators.
//!
//! Functions take a description of the operator and return YAML or files. The output is
//! deterministic: the same description results in the same bytes.
//!
//! - [`rbac`]: service account, roles and bindings;
//! - [`manifests`]: namespace, CRDs, roles, Deployment and Service;
//! - [`chart`]: the same as a Helm chart;
//! - [`peering`]: CRDs of peering objects;
//! - [`scaffold`]: new projects.

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

pub use chart::{Error as ChartError, chart};
pub use deployment::{Deployment, Webhooks};
pub use files::{Error as FilesError, File, write_new};
pub use manifests::manifests;
pub use naming::{Error as NamingError, Identity};
pub use peering::{PeeringGroup, peering};
pub use plan::{Launch, Plan, notes};
pub use rbac::rbac;
pub use yaml::{Error as YamlError, definitions, documents};
