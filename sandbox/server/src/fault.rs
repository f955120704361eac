//! Fault injection: failures of networks, overloaded servers and busy clusters, on demand.
//!
//! A [`Faults`] handle belongs to one sandbox; its clones share the same rules. Rules can be added
//! and removed while the sandbox runs, and cost nothing when there are none. A rule strikes
//! depending only on the seed, the number of the rule and the number of requests it has matched:
//! the same seed and the same requests give the same faults.
//!
//! ```
//! use kopf_sandbox::fault::{Fault, Faults, Verb};
//!
//! let faults = Faults::new(42);
//! let busy = faults.inject(
//!     Fault::error(429).retry_after(1).verb(Verb::Patch).kind("configmaps").probability(0.3).times(5),
//! );
//! // ... the code under test runs here ...
//! println!("{} patches were rejected", faults.count(busy));
//! faults.clear();
//! ```
//!
//! # Broken connections without a socket
//!
//! Reset and half-open connections are expressed in the same way for both transports: the service
//! returns a response with a mark, and the owner of the transport acts on it. The listener aborts
//! the TCP connection or stops serving it. In process, a reset makes the call fail with
//! [`ConnectionBroken`] instead of a response, and a half-open connection makes the call wait
//! forever (drop the call or add a timeout, as with a real one). A stream that has already begun,
//! such as a watch, fails with [`ConnectionBroken`] as its next item, or stalls.

#[doc(inline)]
pub use kopf_sandbox_api::fault::{
    ConnectionBroken, Fault, FaultId, Faults, Injected, RuleError, Verb,
};
