//! What the server says it can do: groups, versions, resources.
//!
//! Two forms of the same facts: one document for everything (aggregated, what kubectl asks for)
//! and one document per group and version (legacy). Both are made from [`Kinds`], so they never
//! tell of anything that is not served.
//!
//! [`Kinds`]: crate::kinds::Kinds

mod aggregated;
mod groups;
mod legacy;
mod negotiation;
mod version;

pub(crate) use aggregated::{aggregated_api, aggregated_apis};
pub(crate) use legacy::{api_group, api_group_list, api_resource_list, api_versions};
pub(crate) use negotiation::Form;
pub(crate) use version::version;
