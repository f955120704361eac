//! Checks the wording of comments, messages, names and Markdown in the folders of [`FOLDERS`].
//!
//! The list of phrases is not a style guide. It contains wordings that were common in this project
//! and hide the subject or the contract of a sentence. Phrases with frequent legitimate uses are
//! not listed.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Folders and files that follow the rules. Add the others as they are rewritten.
const FOLDERS: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "benches/",
    "crates/kopf-cli/",
    "crates/kopf-client/",
    "crates/kopf-core/",
    "crates/kopf-engine/",
    "crates/kopf-inspect/",
    "crates/kopf-macros/",
    "crates/kopf-python/",
    "crates/kopf-sandbox/",
    "crates/kopf-shipping/",
    "crates/kopf-testing/",
    "crates/kopf-webhooks/",
    "crates/kopf/",
    "deploy/",
    "docs/SUMMARY.md",
    "docs/admission.md",
    "docs/architecture.md",
    "docs/authentication.md",
    "docs/children.md",
    "docs/command-line.md",
    "docs/continuity.md",
    "docs/daemons.md",
    "docs/deployment.md",
    "docs/events.md",
    "docs/figures.md",
    "docs/getting-started.md",
    "docs/hierarchies.md",
    "docs/indexing.md",
    "docs/inspecting.md",
    "docs/introduction.md",
    "docs/metrics.md",
    "docs/operation.md",
    "docs/operators.md",
    "docs/patching.md",
    "docs/peering.md",
    "docs/python.md",
    "docs/replicas.md",
    "docs/sandbox-conformance.md",
    "docs/sandbox-differences.md",
    "docs/sandbox.md",
    "docs/testing.md",
    "docs/troubleshooting.md",
    "docs/walkthrough.md",
    "docs/webhook-servers.md",
    "examples/",
    "fuzz/",
    "python/kopf/",
    "python/tests/",
    "tests/api/",
    "tests/browser/",
    "tests/chaos/",
    "tests/conformance/",
    "tests/control-plane/*.py",
    "tests/control-plane/README.md",
    "tests/control-plane/run.sh",
    "tests/e2e/",
    "tests/guide/",
    "tests/handling/",
    "tests/outside/",
    "tests/release/",
    "tests/src/",
    "xtask/",
];

/// Files that quote rejected phrases: this one.
const EXEMPT: &[&str] = &["xtask/src/voice.rs"];

/// First words that turn a clause into a name. Rejected at the start of doc comments and Markdown
/// headings.
const OPENINGS: &[&str] = &[
    "Everything",
    "How",
    "Nobody",
    "Somebody",
    "That",
    "What",
    "Whatever",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
];

/// Advice for all openings.
const OPENING_ADVICE: &str =
    "a verb for functions (\"Returns\"), a noun for types and headings (\"A queue of\")";

/// Phrases that are rejected everywhere, in lower case, with the advice.
const PHRASES: &[(&str, &str)] = &[
    ("also if", "\"even if\", or state both cases"),
    ("anew", "\"again\""),
    ("anybody", "name the client, caller or task"),
    ("as good as", "state the fact or the number"),
    ("come to know", "\"receive\" or \"read\""),
    ("comes to know", "\"receives\" or \"reads\""),
    ("does not know", "\"has no\", \"ignores\" or \"rejects\""),
    ("everybody", "name the clients, callers or tasks"),
    ("for nothing", "\"without effect\" or \"unnecessarily\""),
    ("for the sake of", "\"for\" or \"because of\""),
    ("if nothing is said", "\"by default\""),
    ("in vain", "\"without effect\", or name the failure"),
    ("is told", "\"receives\" or \"is notified of\""),
    ("are told", "\"receive\" or \"are notified of\""),
    ("be told", "\"receive\" or \"be notified of\""),
    ("knows nothing", "\"is independent of\" or \"has no\""),
    ("nobody", "name the client, caller or task"),
    ("nobody's", "name the client, caller or task"),
    ("some ten", "the number"),
    ("somebody", "name the client, caller or task"),
    ("somebody's", "name the client, caller or task"),
    ("takes offence", "\"rejects\""),
    ("the like", "list the items"),
    ("wants to", "\"requires\" or \"is about to\""),
    ("whoever", "name the client, caller or task"),
];

/// Starts of negated nouns ("that is no JSON"), which are rejected unless [`NEGATIONS`] follow.
const NEGATED_NOUNS: &[&str] = &[
    "it is no",
    "that are no",
    "that is no",
    "which are no",
    "which is no",
];

/// Words that make a negated noun an adverb: "that is no longer valid".
const NEGATIONS: &[&str] = &["later", "less", "longer", "more"];

/// A line of prose or code.
struct Line<'a> {
    number: usize,
    /// Without comment markers and indentation.
    text: &'a str,
    place: Place,
}

/// The part of a file to which a line belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A doc comment or a heading begins here.
    Opening,
    /// The rest of a comment, a paragraph.
    Prose,
    /// Code with its literals and names.
    Code,
}

/// Checks all files of [`FOLDERS`] that git tracks or would track.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    check_folders(root, FOLDERS)
}

/// Checks the files of other folders, which may not follow the rules yet.
pub(crate) fn check_folders(root: &Path, folders: &[&str]) -> Result<Vec<String>> {
    let mut arguments = vec![
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
    ];
    arguments.extend(folders);
    let names = crate::output(root, "git", &arguments)?;
    let names = std::str::from_utf8(&names).context("a file name is not UTF-8")?;
    let mut problems = Vec::new();
    for name in names.split('\0').filter(|name| !EXEMPT.contains(name)) {
        // Removed files are listed until the removal is committed; binary files have no prose.
        if let Ok(content) = std::fs::read_to_string(root.join(name)) {
            problems.extend(find(name, &content));
        }
    }
    Ok(problems)
}

/// Returns the problems of one file. Files of other types have none.
fn find(name: &str, content: &str) -> Vec<String> {
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    let lines = match extension {
        Some("rs") => rust_lines(content),
        Some("md") => markdown_lines(content),
        Some("sh" | "py") => script_lines(content),
        _ => return Vec::new(),
    };
    let mut problems = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut report = |phrase: &str, advice: &str| {
            problems.push(format!("{name}:{}: {phrase:?}: use {advice}", line.number));
        };
        let first = line.text.split(' ').next().unwrap_or_default();
        if line.place == Place::Opening && OPENINGS.contains(&first) {
            report(first, OPENING_ADVICE);
        }
        // Phrases in prose may continue on the next line.
        let next = lines
            .get(index + 1)
            .filter(|next| line.place != Place::Code && next.place == Place::Prose);
        for (phrase, advice) in phrases(line.text, next.map_or("", |next| next.text)) {
            report(phrase, advice);
        }
    }
    problems
}

/// Returns the rejected phrases that begin on a line.
fn phrases(line: &str, next: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let count = words.len();
    let words: Vec<String> = words.into_iter().chain(self::words(next)).collect();
    let begins = |start: usize, phrase: &str| {
        let mut rest = words[start..].iter();
        phrase
            .split(' ')
            .all(|word| rest.next().is_some_and(|known| known == word))
    };
    let mut found = Vec::new();
    for start in 0..count {
        found.extend(
            PHRASES
                .iter()
                .copied()
                .filter(|(phrase, _)| begins(start, phrase)),
        );
        found.extend(NEGATED_NOUNS.iter().filter_map(|phrase| {
            let follower = words.get(start + phrase.split(' ').count());
            let is_adverb = follower.is_some_and(|word| NEGATIONS.contains(&word.as_str()));
            (begins(start, phrase) && !is_adverb).then_some((*phrase, "\"not a\" or \"not\""))
        }));
    }
    found
}

/// Splits a line into words in lower case. Names are split at their underscores.
fn words(line: &str) -> Vec<String> {
    line.split(|character: char| !character.is_alphanumeric() && character != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn rust_lines(content: &str) -> Vec<Line<'_>> {
    let mut was_doc = false;
    let numbered = content.lines().enumerate();
    numbered
        .map(|(index, line)| {
            let line = line.trim();
            let doc = line
                .strip_prefix("///")
                .or_else(|| line.strip_prefix("//!"));
            let place = match (doc, line.strip_prefix("//")) {
                (Some(_), _) if !was_doc => Place::Opening,
                (None, None) => Place::Code,
                _ => Place::Prose,
            };
            was_doc = doc.is_some();
            let text = doc
                .or_else(|| line.strip_prefix("//"))
                .unwrap_or(line)
                .trim();
            Line {
                number: index + 1,
                text,
                place,
            }
        })
        .collect()
}

fn markdown_lines(content: &str) -> Vec<Line<'_>> {
    crate::links::prose(content)
        .map(|(number, line)| {
            let text = line.trim_start_matches('#');
            let place = if text.len() < line.len() {
                Place::Opening
            } else {
                Place::Prose
            };
            Line {
                number,
                text: text.trim(),
                place,
            }
        })
        .collect()
}

/// Returns the comments and code of shell and Python scripts.
fn script_lines(content: &str) -> Vec<Line<'_>> {
    let numbered = content.lines().enumerate();
    numbered
        .map(|(index, line)| {
            let line = line.trim();
            let comment = line.strip_prefix('#');
            let place = if comment.is_some() {
                Place::Prose
            } else {
                Place::Code
            };
            Line {
                number: index + 1,
                text: comment.unwrap_or(line).trim(),
                place,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_at_the_start_of_doc_comments_are_reported() {
        let content =
            "/// Whether it is over.\nfn a() {}\n/// Returns a.\n/// What follows is fine.\n";
        let problems = find("a.rs", content);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].starts_with("a.rs:1: \"Whether\""),
            "{problems:?}"
        );
    }

    #[test]
    fn phrases_are_found_across_lines_and_in_names() {
        let content = "// It is called in\n// vain.\nfn nobody_may_read() {}\n";
        let problems = find("a.rs", content);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].starts_with("a.rs:1: \"in vain\""),
            "{problems:?}"
        );
        assert!(
            problems[1].starts_with("a.rs:3: \"nobody\""),
            "{problems:?}"
        );
    }

    #[test]
    fn words_that_contain_a_phrase_are_not_reported() {
        assert_eq!(
            find("a.rs", "// The renewal of a manifest.\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn negated_nouns_are_reported_and_adverbs_are_not() {
        assert_eq!(
            find("a.sh", "# A body that is no longer valid.\n"),
            Vec::<String>::new()
        );
        assert_eq!(find("a.sh", "# A body that is no JSON.\n").len(), 1);
    }

    #[test]
    fn headings_are_checked_and_code_blocks_are_not() {
        let content = "## What to expect\n\n```text\nnobody\n```\n";
        let problems = find("a.md", content);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("a.md:1: \"What\""), "{problems:?}");
    }

    #[test]
    fn other_files_are_not_checked() {
        assert_eq!(find("a.json", "nobody"), Vec::<String>::new());
    }
}
