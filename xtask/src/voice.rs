//! Checks comments, messages, names and Markdown for a short list of phrases that hide the subject
//! of a sentence. It judges neither headings nor the openings of sentences.

use std::path::Path;

use anyhow::{Context as _, Result};

/// This file quotes the phrases; a change of the other one rebuilds Kubernetes on every machine.
const EXEMPT: &[&str] = &["tests/control-plane/build.sh", "xtask/src/voice.rs"];

/// The rejected phrases, in lower case, with the advice.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "\"again\""),
    ("anybody", "name the client, caller or task"),
    ("as good as", "state the fact or the number"),
    ("everybody", "name the clients, callers or tasks"),
    ("for the sake of", "\"for\" or \"because of\""),
    ("in vain", "\"without effect\", or name the failure"),
    ("is told", "\"receives\" or \"is notified of\""),
    ("are told", "\"receive\" or \"are notified of\""),
    ("be told", "\"receive\" or \"be notified of\""),
    ("nobody", "name the client, caller or task"),
    ("nobody's", "name the client, caller or task"),
    ("somebody", "name the client, caller or task"),
    ("somebody's", "name the client, caller or task"),
    ("takes offence", "\"rejects\""),
    ("whoever", "name the client, caller or task"),
];

/// A line of prose or code, without comment markers and indentation.
struct Line<'a> {
    number: usize,
    text: &'a str,
    /// Phrases of prose can continue on the next line.
    is_prose: bool,
}

/// Checks all files that git tracks or would track.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
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
    let lines: Vec<Line<'_>> = match extension {
        Some("rs") => source_lines(content, "//").collect(),
        Some("sh" | "py") => source_lines(content, "#").collect(),
        Some("md") => crate::links::prose(content).map(markdown_line).collect(),
        _ => return Vec::new(),
    };
    let mut problems = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let next = lines
            .get(index + 1)
            .filter(|next| line.is_prose && next.is_prose);
        for (phrase, advice) in phrases(line.text, next.map_or("", |next| next.text)) {
            problems.push(format!("{name}:{}: {phrase:?}: use {advice}", line.number));
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
    (0..count)
        .flat_map(|start| {
            let phrases = PHRASES.iter().copied();
            phrases.filter(move |(phrase, _)| begins(start, phrase))
        })
        .collect()
}

/// Splits a line into words in lower case. Names are split at their underscores.
fn words(line: &str) -> Vec<String> {
    line.split(|character: char| !character.is_alphanumeric() && character != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Returns the comments and the code of a source file. `mark` begins a comment.
fn source_lines<'a>(content: &'a str, mark: &'static str) -> impl Iterator<Item = Line<'a>> {
    content.lines().enumerate().map(move |(index, line)| {
        let line = line.trim();
        let comment = line.strip_prefix(mark);
        let text = comment.unwrap_or(line);
        Line {
            number: index + 1,
            text: text.trim_start_matches(['/', '!', '#']).trim(),
            is_prose: comment.is_some(),
        }
    })
}

fn markdown_line((number, line): (usize, &str)) -> Line<'_> {
    Line {
        number,
        text: line.trim_start_matches('#').trim(),
        is_prose: !line.starts_with('#'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn headings_and_openings_are_not_judged() {
        assert_eq!(
            find("a.md", "## How retries work\n\nWhat you see:\n"),
            Vec::<String>::new()
        );
        assert_eq!(find("a.md", "## Nobody listens\n").len(), 1);
    }

    #[test]
    fn code_blocks_of_markdown_are_not_checked() {
        assert_eq!(find("a.md", "```text\nnobody\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn other_files_are_not_checked() {
        assert_eq!(find("a.json", "nobody"), Vec::<String>::new());
    }
}
