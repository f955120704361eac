//! Declarations: handlers, their filters, selectors, indices and sub-handlers.

pub(crate) mod declaring;
pub(crate) mod description;
pub(crate) mod executing;
pub(crate) mod filters;
pub(crate) mod indexing;
mod kinds;
pub(crate) mod selecting;
