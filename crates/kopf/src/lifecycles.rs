//! Which of the handlers that are due for an object run in one cycle, and in which order.

#[doc(inline)]
pub use kopf_core::lifecycle::{
    AllAtOnce, Asap, Candidate, Lifecycle, OneByOne, Randomized, Shuffled, lifecycle_fn,
};
