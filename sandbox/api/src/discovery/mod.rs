//! Discovery: groups, versions, resources.
//!
//! Discovery has two forms: one document for everything (aggregated, requested by kubectl) and one
//! document per group and version (legacy). Both are built from [`Kinds`], so they list exactly
//! what is served.
//!
//! [`Kinds`]: kopf_sandbox_schema::kind::Kinds

mod aggregated;
mod groups;
mod legacy;
mod negotiation;
mod version;

pub use aggregated::{aggregated_api, aggregated_apis};
pub use legacy::{api_group, api_group_list, api_resource_list, api_versions};
pub use negotiation::Form;
pub use version::version;
