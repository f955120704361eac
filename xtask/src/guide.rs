//! Checks the pages of the guide: their length, the reasons of blocks that are not run, the doc
//! tests of Rust blocks, and the map from the chapters of the original's documentation.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

/// The maximum number of lines of a page.
const LENGTH: usize = 250;

/// Pages about the implementation, for contributors: they have no commands for users, and may be
/// longer.
const INTERNAL: &[&str] = &["docs/architecture.md"];

/// The line above a block that shows what the Python block above it prints.
const OUTPUT: &str = "<!-- output of the block above -->";

/// Files that include pages as doc tests.
const DOC_TESTS: &[&str] = &["examples/rust/src/lib.rs", "tests/src/lib.rs"];

/// The page with a row for each chapter of the original's documentation.
const MAP: &str = "docs/migrate/chapters.md";

/// The alerts, and the page with a section for each of them.
const ALERTS: &str = "deploy/prometheus/alerts.yaml";
const RUNBOOK: &str = "docs/operate/runbook.md";

/// The chapters of the original's documentation, in its order.
const CHAPTERS: &[&str] = &[
    "Installation",
    "Concepts",
    "Sample Problem",
    "Environment Setup",
    "Custom Resources",
    "Starting the operator",
    "Creating the objects",
    "Updating the objects",
    "Diffing the fields",
    "Cascaded deletion",
    "Cleanup",
    "Handlers",
    "Daemons",
    "Timers",
    "Arguments",
    "Async/Await",
    "Loading and importing",
    "Resource specification",
    "Filtering",
    "Results delivery",
    "Error handling",
    "Scopes",
    "In-memory containers",
    "In-memory indexing",
    "Admission control",
    "Startup",
    "Shutdown",
    "Health-checks",
    "Authentication",
    "Configuration",
    "Peering",
    "Command-line options",
    "Events",
    "Hierarchies",
    "Operator testing",
    "Embedding",
    "Deployment",
    "Continuity",
    "Idempotence",
    "Reconciliation",
    "Tips & Tricks",
    "Troubleshooting",
    "Minikube",
    "Contributing",
    "Architecture",
    "kopf package",
    "kopf.on module",
    "kopf.testing module",
    "Vision",
    "Naming",
    "Alternatives",
];

/// The treatment of a block by the tests.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    /// Executed, or compared with the output of a command.
    Run,
    /// Data: files of following commands, examples of formats.
    Data,
    /// Shown only: needs a reason.
    Shown,
    /// A language that no test knows.
    Unknown,
}

/// Checks all pages of the guide. Links are checked by [`crate::links`].
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let pages = crate::links::pages(root)?;
    let pages: BTreeMap<&str, &str> = pages
        .iter()
        .filter(|(name, _)| name.starts_with("docs/"))
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let mut tests = String::new();
    for file in DOC_TESTS {
        tests += &crate::read(&root.join(file))?;
    }
    let mut problems = Vec::new();
    for (name, text) in pages.iter().filter(|(name, _)| !INTERNAL.contains(name)) {
        problems.extend(length(name, text));
        problems.extend(blocks(name, text));
        problems.extend(doc_tests(name, text, &tests));
    }
    problems.extend(chapters(pages.get(MAP).copied().unwrap_or_default()));
    let alerts = crate::read(&root.join(ALERTS))?;
    problems.extend(runbook(
        &alerts,
        pages.get(RUNBOOK).copied().unwrap_or_default(),
    ));
    Ok(problems)
}

fn length(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > LENGTH).then(|| {
        format!("{name} has {lines} lines, more than {LENGTH}: divide it into pages with one topic")
    })
}

/// Returns a problem for each block that is not run and does not say why.
fn blocks(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut open = false;
    let mut above = "";
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if let Some(info) = start.strip_prefix("```") {
            if !open {
                let place = format!("{name}:{}", index + 1);
                match usage(info) {
                    Use::Run | Use::Data => {}
                    Use::Shown if above.starts_with("<!-- not run: ") => {}
                    // Compared with what the Python block above prints.
                    Use::Shown if above == OUTPUT && info == "text" => {}
                    Use::Shown => problems.push(format!(
                        "{place}: the block is not run: say why in the line above, as in \
                         `<!-- not run: needs a cluster -->`, or let it run"
                    )),
                    Use::Unknown => problems.push(format!(
                        "{place}: blocks of the kind {info:?} are unknown to the tests"
                    )),
                }
            }
            open = !open;
        } else if !open && !start.is_empty() {
            above = start;
        }
        if open || start.starts_with("```") {
            above = "";
        }
    }
    problems
}

/// Returns the blocks that are not run, with their places and reasons.
pub(crate) fn unrun(root: &Path) -> Result<Vec<String>> {
    let pages = crate::links::pages(root)?;
    let guide = pages
        .iter()
        .filter(|(name, _)| name.starts_with("docs/") || *name == "README.md");
    Ok(guide.flat_map(|(name, text)| reasons(name, text)).collect())
}

fn reasons(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.iter().zip(lines.iter().skip(1)).enumerate();
    pairs
        .filter_map(|(index, (line, below))| {
            let reason = line.trim_start().strip_prefix("<!-- not run: ")?;
            let reason = reason.strip_suffix(" -->")?;
            let info = below.trim_start().strip_prefix("```")?;
            let language = info.split(',').next()?;
            Some(format!("{name}:{}: {language}: {reason}", index + 2))
        })
        .collect()
}

/// Returns what the tests do with a block with this info string.
fn usage(info: &str) -> Use {
    let mut parts = info.trim().split(',');
    let language = parts.next().unwrap_or_default();
    let is_shown = parts.clone().any(|mark| mark == "ignore")
        || (language != "rust" && parts.clone().any(|mark| mark == "no_run"));
    match language {
        "python" | "rust" | "console" | "log" if !is_shown => Use::Run,
        "python" | "rust" | "console" | "text" => Use::Shown,
        "yaml" | "json" | "toml" | "dockerfile" => Use::Data,
        _ => Use::Unknown,
    }
}

/// Returns a problem for a page with Rust blocks that no doc test includes.
fn doc_tests(name: &str, text: &str, tests: &str) -> Option<String> {
    let has_rust = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("```rust"))
        .any(|marks| !marks.contains("ignore"));
    (has_rust && !tests.contains(&format!("{name}\""))).then(|| {
        format!(
            "{name} has Rust blocks that are not compiled: add it to {}",
            DOC_TESTS[0]
        )
    })
}

/// Returns a problem for each chapter without a row or a link in the map.
fn chapters(map: &str) -> Vec<String> {
    let rows: BTreeMap<&str, &str> = map
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .collect();
    CHAPTERS
        .iter()
        .filter(|chapter| !rows.get(*chapter).is_some_and(|row| row.contains("](")))
        .map(|chapter| format!("{MAP} has no row with a link for the chapter {chapter:?}"))
        .collect()
}

/// Returns a problem for each alert without a section, or without a link to it, and for each section
/// without an alert.
fn runbook(alerts: &str, page: &str) -> Vec<String> {
    let names: Vec<&str> = alerts
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- alert: "))
        .collect();
    let sections: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let mut problems = Vec::new();
    for name in &names {
        let link = format!("runbook: {RUNBOOK}#{}", name.to_lowercase());
        if !sections.contains(name) || !alerts.contains(&link) {
            problems.push(format!(
                "{ALERTS}: the alert {name} needs a section in {RUNBOOK}, and `{link}`"
            ));
        }
    }
    let unknown = sections.iter().filter(|section| !names.contains(section));
    problems.extend(unknown.map(|section| format!("{RUNBOOK}: {section:?} is no alert")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_not_run_need_a_reason() {
        let text = "```console,no_run\n$ x\n```\n\n<!-- not run: needs y -->\n```console,no_run\n$ y\n```\n";
        let problems = blocks("page.md", text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("page.md:1: "), "{problems:?}");
    }

    #[test]
    fn blocks_that_are_not_run_are_listed() {
        let text = "<!-- not run: needs y -->\n```console,no_run\n$ y\n```\n\n<!-- not run: of no block -->\n";
        assert_eq!(reasons("page.md", text), ["page.md:2: console: needs y"]);
    }

    #[test]
    fn outputs_need_no_reason() {
        let text = "<!-- output of the block above -->\n```text\nx\n```\n";
        assert_eq!(blocks("page.md", text), Vec::<String>::new());
        assert_eq!(
            blocks("page.md", &text.replace("text", "console,no_run")).len(),
            1
        );
    }

    #[test]
    fn reasons_count_for_one_block() {
        let text = "<!-- not run: x -->\n```text\nx\n```\n```text\ny\n```\n";
        assert_eq!(blocks("page.md", text).len(), 1);
    }

    #[test]
    fn usage_follows_language_and_marks() {
        assert_eq!(usage("python"), Use::Run);
        assert_eq!(usage("rust,no_run"), Use::Run); // compiled
        assert_eq!(usage("rust,ignore"), Use::Shown);
        assert_eq!(usage("python,no_run"), Use::Shown);
        assert_eq!(usage("text"), Use::Shown);
        assert_eq!(usage("yaml"), Use::Data);
        assert_eq!(usage(""), Use::Unknown);
    }

    #[test]
    fn long_pages_are_reported() {
        let text = "x\n".repeat(LENGTH + 1);
        assert!(length("docs/a.md", &text).is_some());
        assert!(length("docs/a.md", &text[2..]).is_none());
    }

    #[test]
    fn pages_with_rust_blocks_need_doc_tests() {
        let text = "```rust,no_run\nfn main() {}\n```\n";
        assert!(doc_tests("docs/a.md", text, "A: \"docs/a.md\"").is_none());
        assert!(doc_tests("docs/a.md", text, "B: \"docs/b.md\"").is_some());
        assert!(doc_tests("docs/a.md", "```rust,ignore\n```\n", "").is_none());
    }

    #[test]
    fn alerts_have_sections() {
        let alerts =
            "  - alert: KopfA\n    runbook: docs/operate/runbook.md#kopfa\n  - alert: KopfB\n";
        let problems = runbook(alerts, "# Runbook\n\n## KopfA\n\n## KopfC\n");
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("KopfB"), "{problems:?}");
        assert!(problems[1].contains("KopfC"), "{problems:?}");
    }

    #[test]
    fn missing_chapters_are_reported() {
        let map = "| Installation | [x](x.md) |\n| Concepts | nothing |\n";
        let problems = chapters(map);
        assert_eq!(problems.len(), CHAPTERS.len() - 1);
        assert!(problems[0].contains("\"Concepts\""));
    }
}
