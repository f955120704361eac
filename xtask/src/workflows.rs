//! Checks that workflows use actions by the hashes of commits: tags of other repositories can be moved.

use std::path::Path;

use anyhow::Result;

const FOLDER: &str = ".github/workflows";

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(root.join(FOLDER))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        problems.extend(find(&format!("{FOLDER}/{name}"), &crate::read(&path)?));
    }
    Ok(problems)
}

fn find(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let uses = lines.filter_map(|(number, line)| Some((number, line.split_once("uses: ")?.1)));
    let loose = uses.filter(|(_, action)| !is_pinned(action));
    let report = |(number, action): (usize, &str)| {
        format!(
            "{name}:{}: {action:?} is not pinned: use the hash of a commit, and the version as a comment",
            number + 1
        )
    };
    loose.map(report).collect()
}

/// Returns `true` for `owner/name@HASH # vX.Y.Z`.
fn is_pinned(action: &str) -> bool {
    let Some((reference, version)) = action.split_once(" # v") else {
        return false;
    };
    let hash = reference.split_once('@').map_or("", |(_, hash)| hash);
    let is_hash = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash && !version.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_short_hashes_are_reported() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        let text = format!(
            "steps:\n  - uses: a/b@{hash} # v1.2.3\n  - uses: a/b@v1\n  - uses: a/b@0123abc # v1.2.3\n  \
             - uses: a/b@{hash}\n  - run: make\n"
        );
        let found = find("x.yml", &text);
        let places: Vec<_> = found.iter().map(|line| &line[..7]).collect();
        assert_eq!(places, ["x.yml:3", "x.yml:4", "x.yml:5"]);
    }
}
