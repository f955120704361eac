//! Annotations of the operator on an object.

use kopf_core::body::Body;
use kopf_core::keys::{KeyNaming, MARKER};
use kopf_core::lenient;
use kopf_core::object::attempted;
use kopf_core::object::retriggering;
use kopf_core::progress::ProgressRecord;

use crate::storages::Storages;

/// The annotation of the diff-base, without its prefix.
pub(crate) const BASE: &str = "last-handled-configuration";

/// The annotation whose change triggers a watch event, without its prefix.
const TOUCH: &str = "touch-dummy";

/// The suffix of names on replica sets of deployments.
pub(crate) const COPIED: &str = "-ofDRS";

/// An annotation of the operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAnnotation<'a> {
    pub(crate) key: &'a str,
    /// The key without prefix and suffix.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

/// Returns the annotations of the operator.
pub(crate) fn own_annotations<'a>(
    storages: &'a Storages,
    body: &'a Body,
) -> impl Iterator<Item = OwnAnnotation<'a>> {
    let namings = std::iter::once(&storages.naming).chain(&storages.others);
    namings.flat_map(move |naming| annotations_of(naming, body))
}

fn annotations_of<'a>(
    naming: &'a KeyNaming,
    body: &'a Body,
) -> impl Iterator<Item = OwnAnnotation<'a>> {
    let prefix = naming.prefix();
    let is_copied = naming
        .keys(BASE, body)
        .iter()
        .any(|key| key.ends_with(COPIED));
    body.annotations().iter().filter_map(move |(key, value)| {
        let name = if prefix.is_empty() {
            key.as_str()
        } else {
            key.strip_prefix(prefix)?.strip_prefix('/')?
        };
        // Replica sets also have copies of their deployment's annotations, without the suffix.
        let name = if is_copied {
            name.strip_suffix(COPIED)?
        } else {
            name
        };
        let text = value.as_str()?;
        // Without a prefix, annotations are recognised by their names and values.
        let is_own = !prefix.is_empty() || is_known(name) || record(text).is_some();
        is_own.then_some(OwnAnnotation { key, name, text })
    })
}

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
