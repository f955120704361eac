//! Selection and order of the due handlers of an object in one cycle.

#[doc(inline)]
pub use kopf_core::cause::{Cause, Change};
#[doc(inline)]
pub use kopf_core::lifecycle::{
    AllAtOnce, Asap, Candidate, Lifecycle, OneByOne, Randomized, Shuffled, lifecycle_fn,
};
