//! What the examples share with their tests.

pub mod greeter;
pub mod tenants;

/// The examples of docs/operators.md compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operators.md")]
struct OperatorsGuide;

/// So do those of docs/peering.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/peering.md")]
struct PeeringGuide;

/// So do those of docs/authentication.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/authentication.md")]
struct AuthenticationGuide;

/// So do those of docs/daemons.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/daemons.md")]
struct DaemonsGuide;

/// So do those of docs/indexing.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/indexing.md")]
struct IndexingGuide;

/// So do those of docs/children.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/children.md")]
struct ChildrenGuide;

/// So do those of docs/admission.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/admission.md")]
struct AdmissionGuide;

/// So do those of docs/webhook-servers.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/webhook-servers.md")]
struct ServersGuide;

/// So do those of docs/operation.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operation.md")]
struct OperationGuide;

/// So does that of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
