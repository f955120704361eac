//! Names and values of the annotations of operators.

use kopf_core::keys::MARKER;
use kopf_core::lenient;
use kopf_core::object::attempted;
use kopf_core::object::retriggering;
use kopf_core::progress::ProgressRecord;

/// The annotation of the diff-base, without its prefix.
pub(crate) const BASE: &str = "last-handled-configuration";

/// The annotation whose change triggers a watch event, without its prefix.
const TOUCH: &str = "touch-dummy";

/// The suffix of names on replica sets of deployments.
pub(crate) const COPIED: &str = "-ofDRS";

/// Returns `true` for annotations that are not progress records.
pub(crate) fn is_known(name: &str) -> bool {
    let known = [BASE, TOUCH, MARKER, attempted::KEY, retriggering::KEY];
    known.contains(&name)
}

/// Parses a progress record; `None` if the text is something else.
pub(crate) fn record(text: &str) -> Option<ProgressRecord> {
    let value = text
        .starts_with('{')
        .then(|| lenient::from_str(text).ok())??;
    value.get("retries")?;
    ProgressRecord::from_value(&value)
}
