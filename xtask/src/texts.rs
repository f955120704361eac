//! Checks for paths of a single machine and for private package registries in all files.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Forbidden strings, with the alternative. Each is in two pieces, so that this file passes its own
/// check.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    (
        "/wor",
        "k/main/",
        "a path of one machine: use a relative one",
    ),
    (
        "/wor",
        "k/scratch/",
        "a path of one machine: use a relative one",
    ),
    (
        "/wor",
        "k/shared/",
        "a path of one machine: use a relative one",
    ),
    ("/root", "/.", "a path of one machine: use $HOME"),
    (
        "artif",
        "actory",
        "a private registry: use the public names of packages",
    ),
    (
        "jfr",
        "og.io",
        "a private registry: use the public names of packages",
    ),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut forbidden: Vec<(String, &str)> = FORBIDDEN
        .iter()
        .map(|(first, second, advice)| (format!("{first}{second}"), *advice))
        .collect();
    // Paths of the current machine are not valid elsewhere.
    let here = root.to_str().context("the folder's name is not UTF-8")?;
    forbidden.push((
        format!("{here}/"),
        "a path of this machine: use a relative one",
    ));

    // Tracked files, and new ones that are not ignored.
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let names = crate::output(root, "git", &arguments)?;
    let mut problems = Vec::new();
    for name in names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = std::str::from_utf8(name).context("a file's name is not UTF-8")?;
        // Removed files are listed until the removal is committed; binary files are skipped.
        if let Ok(text) = std::fs::read_to_string(root.join(name)) {
            problems.extend(find(name, &text, &forbidden));
        }
    }
    Ok(problems)
}

fn find(name: &str, text: &str, forbidden: &[(String, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (part, advice) in forbidden {
            if line.contains(part.as_str()) {
                problems.push(format!("{name}:{}: {part:?} is {advice}", number + 1));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_text_is_found_with_its_place() {
        let forbidden = [("/opt/mine/".to_owned(), "mine")];
        let text = "fine\ncd /opt/mine/place\n";
        assert_eq!(
            find("a.md", text, &forbidden),
            ["a.md:2: \"/opt/mine/\" is mine"]
        );
        assert_eq!(find("a.md", "fine\n", &forbidden), Vec::<String>::new());
    }
}
