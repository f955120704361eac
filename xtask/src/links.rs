//! Checks links in Markdown files: every relative link and anchor leads to a file or a heading of
//! the tree, and every page of `docs/` is in the table of contents of the guide.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};

/// The table of contents of the guide. mdBook renders no other pages.
const CONTENTS: &str = "docs/SUMMARY.md";

/// A link in a Markdown file.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    line: usize,
    target: &'a str,
}

/// Checks all Markdown files that git tracks or would track.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let pages = pages(root)?;
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(name, text)| (name.as_str(), anchors(text)))
        .collect();
    let mut problems = Vec::new();
    for (name, text) in &pages {
        for link in links(text) {
            if let Some(problem) = judge(root, &anchors, name, link.target) {
                problems.push(format!("{name}:{}: {problem}", link.line));
            }
        }
    }
    problems.extend(unlisted(&pages));
    Ok(problems)
}

/// Returns the content of all Markdown files by their paths from the root.
pub(crate) fn pages(root: &Path) -> Result<BTreeMap<String, String>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.md",
    ];
    let names = crate::output(root, "git", &arguments)?;
    let names = std::str::from_utf8(&names).context("a file name is not UTF-8")?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        // Removed files are listed until the removal is committed.
        .filter_map(|name| {
            Some((
                name.to_owned(),
                std::fs::read_to_string(root.join(name)).ok()?,
            ))
        })
        .collect())
}

/// Returns the problem of a link, or `None` if its target exists.
fn judge(
    root: &Path,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
    page: &str,
    target: &str,
) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target
        .split_once('#')
        .map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() {
        page.to_owned()
    } else {
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        let Some(file) = normalized(&folder.join(path)) else {
            return Some(format!("the link {target:?} leads out of the tree"));
        };
        file
    };
    if !root.join(&file).exists() {
        return Some(format!(
            "the link {target:?} leads to no file: {file} does not exist"
        ));
    }
    let anchor = anchor?;
    // Anchors of other files, such as line numbers of sources, are up to the forge.
    let known = anchors.get(file.as_str())?;
    (!known.contains(anchor)).then(|| {
        format!("the link {target:?} leads to no heading: {file} has none with this anchor")
    })
}

/// Resolves `.` and `..`. Returns `None` for a path that leaves the tree.
fn normalized(path: &Path) -> Option<String> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            Component::ParentDir if parts.pop() => {}
            _ => return None,
        }
    }
    parts.to_str().map(str::to_owned)
}

/// Returns a problem for each page of the guide that is not in its table of contents.
fn unlisted(pages: &BTreeMap<String, String>) -> Vec<String> {
    let Some(contents) = pages.get(CONTENTS) else {
        return vec![format!("{CONTENTS} does not exist")];
    };
    let listed: BTreeSet<&str> = links(contents).iter().map(|link| link.target).collect();
    pages
        .keys()
        .filter(|name| name.as_str() != CONTENTS)
        .filter_map(|name| name.strip_prefix("docs/"))
        .filter(|name| !listed.contains(name))
        .map(|name| format!("docs/{name} is not in {CONTENTS}: add it, or the guide omits it"))
        .collect()
}

/// Returns the lines outside of fenced code blocks, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((index + 1, line)),
            (Some(_), _) => {}
        }
        None
    })
}

fn links(text: &str) -> Vec<Link<'_>> {
    prose(text)
        .flat_map(|(line, content)| targets(content).map(move |target| Link { line, target }))
        .collect()
}

/// Returns the targets of the inline links of a line, except those in code spans.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, mark)| {
        let is_code = line[..at].matches('`').count() % 2 == 1;
        let rest = &line[at + mark.len()..];
        let target = rest[..rest.find(')')?].split_whitespace().next()?;
        (!is_code).then_some(target)
    })
}

/// Returns the anchors of all headings. Forges and mdBook agree on them: repeated ones are numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title.trim());
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(match *count {
            0 => anchor,
            number => format!("{anchor}-{number}"),
        });
        *count += 1;
    }
    anchors
}

/// Returns the anchor of a heading: lower case, dashes for spaces, no punctuation.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ => character.is_alphanumeric().then_some(character),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# The `first` one, really
[a](b.md#c), [d](https://example.com) and `[no](link)`
```text
[no](link)
# not a heading
```
## Twice
## Twice
[e](../f)";

    #[test]
    fn links_in_code_are_ignored() {
        let expected = [(2, "b.md#c"), (2, "https://example.com"), (9, "../f")];
        let expected = expected.map(|(line, target)| Link { line, target });
        assert_eq!(links(PAGE), expected);
    }

    #[test]
    fn anchors_are_those_of_forges() {
        let expected = ["the-first-one-really", "twice", "twice-1"].map(str::to_owned);
        assert_eq!(anchors(PAGE), BTreeSet::from(expected));
    }

    #[test]
    fn dead_links_are_reported() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let anchors = BTreeMap::from([("Cargo.toml", BTreeSet::from(["known".to_owned()]))]);
        let judge = |target: &str| judge(root, &anchors, "src/main.rs", target);
        assert_eq!(judge("../Cargo.toml#known"), None);
        assert_eq!(judge("https://example.com/#x"), None);
        assert!(judge("../Cargo.toml#other").unwrap().contains("no heading"));
        assert!(
            judge("absent.rs")
                .unwrap()
                .contains("src/absent.rs does not exist")
        );
        assert!(judge("../../../x").unwrap().contains("out of the tree"));
    }

    #[test]
    fn pages_missing_in_the_contents_are_reported() {
        let pages = [
            ("docs/SUMMARY.md", "- [a](part/a.md)"),
            ("docs/part/a.md", ""),
            ("docs/part/b.md", ""),
        ];
        let pages = pages
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        assert_eq!(
            unlisted(&pages),
            ["docs/part/b.md is not in docs/SUMMARY.md: add it, or the guide omits it"]
        );
    }
}
