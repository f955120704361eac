//! Objects in the hands of functions: the arguments of a call, bodies, patches, children.

pub(crate) mod bodies;
pub(crate) mod call;
pub(crate) mod children;
pub(crate) mod conditions;
pub(crate) mod memos;
pub(crate) mod patching;
pub(crate) mod posting;
pub(crate) mod stopping;
