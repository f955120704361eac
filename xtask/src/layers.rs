//! Allowed dependencies between our crates: checks the manifests against the table in
//! docs/architecture.md.
//!
//! Dependencies of tests and builds count: tests that need a higher layer belong in `tests/`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use crate::graph::Graph;

/// The heading above the table in docs/architecture.md.
const HEADING: &str = "## Allowed directions";

/// The allowed dependencies of each crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    crates: BTreeMap<String, Allowed>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Allowed {
    always: BTreeSet<String>,
    optionally: BTreeSet<String>,
}

impl Rules {
    /// Parses the table `| crate | may depend on | only behind a feature |` under the heading.
    /// Names are those in backquotes; the cells can contain other words.
    pub(crate) fn parse(markdown: &str) -> Result<Self> {
        let mut crates = BTreeMap::new();
        let section = markdown
            .lines()
            .skip_while(|line| line.trim() != HEADING)
            .skip(1);
        for line in section.take_while(|line| !line.starts_with("## ")) {
            let Some(cells) = line
                .trim()
                .strip_prefix('|')
                .and_then(|line| line.strip_suffix('|'))
            else {
                continue;
            };
            let cells: Vec<_> = cells.split('|').map(names).collect();
            let [subjects, always, optionally] = cells.as_slice() else {
                bail!("docs/architecture.md: a row of the table has not 3 cells: {line}");
            };
            for subject in subjects {
                let allowed = Allowed {
                    always: always.clone(),
                    optionally: optionally.clone(),
                };
                if crates.insert(subject.clone(), allowed).is_some() {
                    bail!("docs/architecture.md: the table has two rows for {subject}");
                }
            }
        }
        if crates.is_empty() {
            bail!("docs/architecture.md has no table of crates under {HEADING:?}");
        }
        Ok(Self { crates })
    }

    /// Returns one line per violation.
    pub(crate) fn check(&self, graph: &Graph) -> Vec<String> {
        let ours: BTreeSet<_> = graph
            .members()
            .map(|package| package.name.as_str())
            .collect();
        let mut problems = Vec::new();
        for package in graph.members() {
            let name = &package.name;
            let Some(allowed) = self.crates.get(name) else {
                // Unpublished packages have no restrictions, because they cannot be dependencies of
                // published ones.
                if package.is_published() {
                    problems.push(format!(
                        "{name} is not in the table of docs/architecture.md: add a row which says \
                         what it may depend on, or set publish = false"
                    ));
                }
                continue;
            };
            for dependency in &package.dependencies {
                let other = &dependency.name;
                // Tests enable features of their own crate by a dependency on it.
                if other == name || !ours.contains(other.as_str()) || allowed.always.contains(other)
                {
                    continue;
                }
                if !allowed.optionally.contains(other) {
                    problems.push(format!(
                        "{name} depends on {other}: docs/architecture.md does not allow it"
                    ));
                } else if !dependency.optional {
                    problems.push(format!(
                        "{name} depends on {other} always: docs/architecture.md allows it only \
                         behind an optional feature"
                    ));
                }
            }
        }
        problems
    }
}

/// Returns the names in backquotes within a cell.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TABLE: &str = "\
# Title
| `ignored` | before | the heading |

## Allowed directions

Some words.

| crate | may depend on | only behind a feature |
|---|---|---|
| `low` | nothing of ours | – |
| `middle` | `low` | – |
| `top` | `low`, `middle` | `judge` |
| `judge` | nothing of ours | – |

## Another section

| `ignored` | after | it |
";

    /// A member of the workspace: `(name, published, [(dependency, optional)])`.
    type Member<'a> = (&'a str, bool, &'a [(&'a str, bool)]);

    fn graph(packages: &[Member<'_>]) -> Graph {
        let ids: Vec<_> = packages
            .iter()
            .map(|(name, _, _)| (*name).to_owned())
            .collect();
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, published, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(|(name, optional)| json!({"name": name, "optional": optional}))
                    .collect();
                json!({
                    "id": name, "name": name, "dependencies": dependencies,
                    "publish": if *published { Value::Null } else { json!([]) },
                })
            })
            .collect();
        serde_json::from_value(json!({"packages": packages, "workspace_members": ids})).unwrap()
    }

    fn problems(packages: &[Member<'_>]) -> Vec<String> {
        Rules::parse(TABLE).unwrap().check(&graph(packages))
    }

    #[test]
    fn allowed_edges_pass() {
        let good: &[Member<'_>] = &[
            ("low", true, &[("serde", false)]),
            ("middle", true, &[("low", false), ("middle", false)]),
            (
                "top",
                true,
                &[("middle", false), ("low", true), ("judge", true)],
            ),
            ("judge", true, &[]),
            ("tests", false, &[("top", false), ("judge", false)]),
        ];
        assert_eq!(problems(good), Vec::<String>::new());
    }

    #[test]
    fn an_edge_upwards_fails() {
        let found = problems(&[("low", true, &[("middle", false)]), ("middle", true, &[])]);
        assert_eq!(
            found,
            ["low depends on middle: docs/architecture.md does not allow it"]
        );
    }

    #[test]
    fn an_optional_edge_upwards_fails_too() {
        let found = problems(&[("judge", true, &[("low", true)]), ("low", true, &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn an_edge_that_must_be_optional_fails_when_it_is_not() {
        let found = problems(&[("top", true, &[("judge", false)]), ("judge", true, &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("only behind an optional feature"),
            "{found:?}"
        );
    }

    #[test]
    fn an_unknown_published_crate_fails() {
        let found = problems(&[("newcomer", true, &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("newcomer is not in the table"),
            "{found:?}"
        );
    }

    #[test]
    fn a_document_without_the_table_is_an_error() {
        assert!(Rules::parse("# Title\n\n| `low` | - | - |\n").is_err());
        assert!(Rules::parse("## Allowed directions\n| `low` | - |\n").is_err());
        assert!(Rules::parse("## Allowed directions\n| `a` | - | - |\n| `a` | - | - |\n").is_err());
    }

    #[test]
    fn this_workspace_follows_its_own_table() {
        let root = crate::root().unwrap();
        let rules =
            Rules::parse(&crate::read(&root.join("docs/architecture.md")).unwrap()).unwrap();
        assert_eq!(
            rules.check(&Graph::of(&root).unwrap()),
            Vec::<String>::new()
        );
    }
}
