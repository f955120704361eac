//! Admission webhooks: which of them a request concerns, how they are asked, and what their answers
//! do to the request.
//!
//! `configuration`, `matching`, `question` and `decision` do nothing but think; `calling` alone talks
//! to the network; `chain` brings both together. What a webhook says is never trusted further than
//! its answer: patches are applied and checked by the caller of this module.

mod calling;
mod chain;
mod conditions;
mod configuration;
mod decision;
mod denial;
mod endpoint;
mod matching;
mod mutations;
mod policies;
mod policy_validation;
mod question;
mod trust;
mod validation;
mod warnings;

#[cfg(test)]
mod tests;

pub(crate) use self::calling::{CallFailure, Caller, Remote};
pub(crate) use self::chain::Chain;
pub(crate) use self::configuration::Webhooks;
pub(crate) use self::decision::{Answer, ReviewKind, parsed};
pub(crate) use self::matching::{Attributes, Operation};
pub(crate) use self::policies::{Facts, ParamKind, ParamRef, Policies};
pub(crate) use self::validation::configuration_problems;
pub(crate) use self::warnings::limited;
