//! CertificateSigningRequests.

use super::{NameRule, Selectable, Strategy};

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::PathSegment,
    selectable: Selectable::of(&["spec.signerName"], false),
    ..Strategy::DEFAULT
};
