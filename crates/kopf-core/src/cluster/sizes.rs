//! Sizes of the state that handlers leave on their objects, and the limits of Kubernetes.

use serde_json::{Map, Value};

use crate::body::Body;
use crate::patch::Patch;

/// The limit of Kubernetes for the keys and values of all annotations of an object, in bytes.
pub const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The limit for the message of an error in a progress record, in bytes.
pub const MESSAGE_LIMIT: usize = 16 * 1024;

/// Shorter messages say nothing, so they are dropped instead.
const SHORTEST_MESSAGE: usize = 64;

/// Cuts a text at this limit in bytes and appends a mark with the number of missing bytes.
///
/// ```
/// let cut = kopf_core::sizes::cut(&"x".repeat(100), 40);
/// assert_eq!(cut, format!("{}... (86 of 100 bytes cut)", "x".repeat(14)));
/// ```
pub fn cut(text: &str, limit: usize) -> String {
    let size = text.len();
    if size <= limit {
        return text.to_owned();
    }
    let mark = |kept: usize| format!("... ({} of {size} bytes cut)", size - kept);
    // The mark is longest if nothing is kept.
    let room = limit.saturating_sub(mark(0).len());
    let is_boundary = |&position: &usize| text.is_char_boundary(position);
    let kept = (0..=room).rev().find(is_boundary).unwrap_or_default();
    let (head, mark) = (text.get(..kept).unwrap_or_default(), mark(kept));
    format!("{head}{mark}")
}

/// Returns the message as short as the limit requires; `None` if too little would be left of it.
pub fn cut_or_drop(message: &str, limit: usize) -> Option<String> {
    (message.len() <= limit || limit >= SHORTEST_MESSAGE).then(|| cut(message, limit))
}

/// Returns the highest limit for which `fits` holds, between zero and the maximum; `None` if it
/// holds for none. What fits a limit must fit the lower ones as well.
pub fn highest_limit(maximum: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
    if !fits(0) {
        return None;
    }
    let (mut fitting, mut beyond) = (0, maximum.saturating_add(1));
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    Some(fitting)
}

/// Returns the annotations of an object after the patch, without its functions.
pub fn annotations_after(body: &Body, patch: &Patch) -> Map<String, Value> {
    let mut all = body.annotations().clone();
    all.extend(patched_annotations(patch).cloned().into_iter().flatten());
    all.retain(|_, value| value.is_string());
    all
}

/// Returns the size of the annotations of an object after patches, without their functions, as the API
/// server counts it.
pub fn annotations_size(body: &Body, patches: &[&Patch]) -> usize {
    let patched = patches
        .iter()
        .filter_map(|patch| patched_annotations(patch));
    let mut layers = std::iter::once(body.annotations()).chain(patched);
    let mut size = 0;
    while let Some(layer) = layers.next() {
        let is_replaced = |key: &str| layers.clone().any(|later| later.contains_key(key));
        let kept = layer.iter().filter(|(key, _)| !is_replaced(key));
        size += kept.map(size_of_annotation).sum::<usize>();
    }
    size
}

/// Returns the size of annotations, as the API server counts it.
pub fn size_of_annotations(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(size_of_annotation).sum()
}

/// Returns the size of an annotation; zero if it is removed.
fn size_of_annotation((key, value): (&String, &Value)) -> usize {
    value.as_str().map_or(0, |text| key.len() + text.len())
}

/// Returns the annotations in a patch.
pub fn patched_annotations(patch: &Patch) -> Option<&Map<String, Value>> {
    patch.merge.get("metadata")?.get("annotations")?.as_object()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_keep_the_limit() {
        assert_eq!(cut("short", 5), "short");
        let long = "ä".repeat(10_000);
        for limit in [30, 31, 100, 1_000, 19_999] {
            let cut = cut(&long, limit);
            assert!(cut.len() <= limit, "{limit}: {}", cut.len());
            assert!(cut.ends_with(" of 20000 bytes cut)"), "{cut}");
        }
    }

    #[test]
    fn messages_that_would_only_have_a_mark_are_dropped() {
        assert_eq!(cut_or_drop("short", 5).as_deref(), Some("short"));
        assert_eq!(cut_or_drop("long enough", 5), None);
        assert!(
            cut_or_drop(&"x".repeat(100), 64)
                .unwrap()
                .starts_with("xxx")
        );
    }

    #[test]
    fn highest_limit_is_found() {
        for expected in [0, 1, 7, 99, 100] {
            let found = highest_limit(100, |limit| limit <= expected);
            assert_eq!(found, Some(expected));
        }
        assert_eq!(highest_limit(100, |_| false), None);
    }

    #[test]
    fn annotations_are_counted_as_they_will_be() {
        let body = Body::new(json!({"metadata": {"annotations": {"a": "123", "b": "4"}}}));
        let mut patch = Patch::default();
        assert_eq!(annotations_size(&body, &[&patch]), 6);
        patch.annotations_mut().insert("b".to_owned(), json!(null));
        patch.annotations_mut().insert("c".to_owned(), json!("56"));
        assert_eq!(annotations_size(&body, &[&patch]), 4 + 3);
        let mut later = Patch::default();
        later.annotations_mut().insert("c".to_owned(), json!("7"));
        assert_eq!(annotations_size(&body, &[&patch, &later]), 4 + 2);
        let after = annotations_after(&body, &patch);
        assert_eq!(size_of_annotations(&after), 4 + 3);
    }
}
