//! Admission webhooks: matching, calls, and the effect of their responses on the request.
//!
//! `configuration`, `matching`, `review_request` and `decision` are pure; only `calling` uses the
//! network; `chain` combines both. Patches are applied and validated by the caller of this module.

mod binding_validation;
mod calling;
mod chain;
mod conditions;
mod configuration;
mod constraints;
mod decision;
mod denial;
mod endpoint;
mod invocation;
mod matching;
mod mutations;
mod policies;
mod policy_types;
mod policy_validation;
mod resolving;
mod review_request;
mod trust;
mod validation;
mod warnings;

#[cfg(test)]
mod tests;

pub use self::calling::{CallFailure, Caller, Remote};
pub use self::chain::Chain;
pub use self::configuration::Webhooks;
pub use self::decision::{RawResponse, ReviewKind, parsed};
pub use self::matching::{Attributes, Operation};
pub use self::policies::{Facts, ParamKind, ParamRef, Policies};
pub use self::resolving::FindService;
pub use self::resolving::{InvalidServiceUrl, ServiceUrl};
pub use self::validation::configuration_problems;
pub use self::warnings::limited;
