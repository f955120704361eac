//! Checks that public enums of errors and reasons can grow: they are `#[non_exhaustive]`, or
//! `#[doc(hidden)]` as interfaces between our crates.

use std::path::Path;

use anyhow::Result;

/// The crates whose types users can reach.
const CRATES: &[&str] = &[
    "kopf",
    "kopf-client",
    "kopf-core",
    "kopf-engine",
    "kopf-sandbox",
    "kopf-sandbox-api",
    "kopf-sandbox-simulation",
    "kopf-sandbox-store",
    "kopf-testing",
    "kopf-webhooks",
];

/// The ends of the names of enums that grow with the features.
const GROWING: &[&str] = &["Error", "Reason"];

/// Returns one line per enum that users can match exhaustively.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        crate::collect(&crate::sources(root, name), &mut files)?;
        for file in files {
            let place = file.strip_prefix(root).unwrap_or(&file).display();
            problems.extend(find(&place.to_string(), &crate::read(&file)?));
        }
    }
    Ok(problems)
}

fn find(place: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_marked = false;
    for (number, line) in text.lines().map(str::trim_start).enumerate() {
        is_marked |= line.starts_with("#[non_exhaustive]") || line.starts_with("#[doc(hidden)]");
        let Some(declared) = line.strip_prefix("pub enum ") else {
            // The attributes of an item end with the item, or before an empty line.
            let is_item = line.is_empty() || line.ends_with(['{', '}', ';', ',']);
            is_marked &= !is_item;
            continue;
        };
        let end = |character: char| !character.is_alphanumeric();
        let name = declared.split(end).next().unwrap_or_default();
        if !is_marked && GROWING.iter().any(|suffix| name.ends_with(suffix)) {
            problems.push(format!(
                "{place}:{}: `{name}` is neither #[non_exhaustive] nor #[doc(hidden)]: new \
                 variants would break users",
                number + 1
            ));
        }
        is_marked = false;
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> usize {
        find("a.rs", text).len()
    }

    #[test]
    fn exhaustive_errors_and_reasons_are_reported() {
        let text = "/// An error.\n#[derive(Debug)]\npub enum ParseError {\n    Empty,\n}\n";
        let expected = "a.rs:3: `ParseError` is neither #[non_exhaustive] nor #[doc(hidden)]: new \
                        variants would break users";
        assert_eq!(find("a.rs", text), [expected]);
        assert_eq!(lines("pub enum Reason<T> {"), 1);
    }

    #[test]
    fn marked_and_other_enums_are_accepted() {
        assert_eq!(
            lines("#[non_exhaustive]\n#[derive(Debug)]\npub enum Error {"),
            0
        );
        assert_eq!(lines("#[doc(hidden)] // Internal.\npub enum Reason {"), 0);
        assert_eq!(
            lines("pub enum Verb {\npub(crate) enum Error {\nenum Reason {"),
            0
        );
    }

    #[test]
    fn attributes_of_other_items_do_not_count() {
        assert_eq!(
            lines("#[non_exhaustive]\npub struct One {}\n\npub enum Error {"),
            1
        );
        assert_eq!(lines("#[doc(hidden)]\npub mod one;\npub enum Error {"), 1);
    }
}
