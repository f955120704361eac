//! Declarations of users: handlers, filters, the causes they react to, and their outcomes.

#[doc(hidden)]
pub mod background;
pub mod cause;
#[doc(hidden)]
pub mod filter;
#[doc(hidden)]
pub mod handler;
#[doc(hidden)]
pub mod indexing;
pub mod lifecycle;
#[doc(hidden)]
pub mod matching;
#[doc(hidden)]
pub mod outcome;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod wording;
