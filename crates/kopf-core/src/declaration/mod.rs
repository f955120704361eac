//! What users declare: handlers, filters, the causes they react to, and their outcomes.

pub mod background;
pub mod cause;
pub mod filter;
pub mod handler;
pub mod indexing;
pub mod lifecycle;
pub mod matching;
pub mod outcome;
pub mod registry;
pub mod wording;
