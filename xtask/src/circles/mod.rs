//! Import circles between the top-level modules of a crate: a module and its children count as one.
//! Modules that the root re-exports from a folder are checked among each other as well.
//!
//! Paths in `use` items, expressions, types and macro arguments count. Code under `#[cfg(test)]`
//! does not.

mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

use self::references::Source;

/// The crates without circles.
pub(crate) const CRATES: &[&str] = &[
    "kopf",
    "kopf-cli",
    "kopf-client",
    "kopf-core",
    "kopf-engine",
    "kopf-explore",
    "kopf-inspect",
    "kopf-macros",
    "kopf-python",
    "kopf-sandbox",
    "kopf-sandbox-api",
    "kopf-sandbox-kinds",
    "kopf-sandbox-schema",
    "kopf-sandbox-simulation",
    "kopf-sandbox-store",
    "kopf-shipping",
    "kopf-testing",
    "kopf-webhooks",
];

/// The place of a reference: a file and its line.
type Place = String;

/// The references between top-level modules: from, to, and the places.
#[derive(Debug, Default)]
pub(crate) struct Modules(BTreeMap<String, BTreeMap<String, Vec<Place>>>);

/// Returns one line per circle of a crate, followed by the lines that make it.
pub(crate) fn check(root: &Path, name: &str) -> Result<Vec<String>> {
    let folder = crate::sources(root, name);
    let mut files = Vec::new();
    crate::collect(&folder, &mut files)?;
    let mut sources = Vec::new();
    for file in files {
        let path = file.strip_prefix(&folder).unwrap_or(&file);
        let place = file.strip_prefix(root).unwrap_or(&file).display();
        let text = crate::read(&file)?;
        let source = Source::parse(path, &text).with_context(|| format!("cannot parse {place}"))?;
        sources.push((place.to_string(), source));
    }
    let mut problems = Modules::of(&sources, Grain::Folders).circles(name);
    problems.extend(Modules::of(&sources, Grain::Rooms).circles(name));
    problems.dedup();
    Ok(problems)
}

/// The units between which circles are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Top-level modules with all of their children.
    Folders,
    /// The same, but modules that the root re-exports from a folder count on their own.
    Rooms,
}

impl Modules {
    fn of(sources: &[(String, Source)], grain: Grain) -> Self {
        let tests: BTreeSet<&str> = sources
            .iter()
            .flat_map(|(_, source)| source.test_modules())
            .collect();
        // Names that the root re-exports stand for their modules.
        let root = sources.iter().find(|(_, source)| source.module().is_none());
        let exported = root.map(|(_, source)| source.exports()).unwrap_or_default();
        let unit = |source: &Source| match source.room() {
            Some((folder, room)) if grain == Grain::Rooms => {
                let is_room = exported.get(room).is_some_and(|from| from == folder);
                Some(if is_room { room } else { folder }.to_owned())
            }
            _ => source.module().map(str::to_owned),
        };
        let names: BTreeSet<String> = sources.iter().filter_map(|(_, file)| unit(file)).collect();
        let mut modules = Self::default();
        for (place, source) in sources {
            let (Some(from), Some(module)) = (&unit(source), source.module()) else {
                continue;
            };
            if tests.contains(module) || source.is_test(&tests) {
                continue;
            }
            for reference in source.references() {
                let name = &reference.name;
                let is_room = grain == Grain::Rooms && names.contains(name);
                let to = exported.get(name).filter(|_| !is_room).unwrap_or(name);
                if names.contains(to.as_str()) && to != from {
                    let places = modules.0.entry(from.to_owned()).or_default();
                    let place = format!("{place}:{}: {}", reference.line, reference.name);
                    places.entry(to.clone()).or_default().push(place);
                }
            }
        }
        modules
    }

    /// Describes each circle once: a shortest one for every group of modules that reach each other.
    fn circles(&self, name: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut done = BTreeSet::new();
        for module in self.0.keys() {
            if done.contains(module.as_str()) {
                continue;
            }
            let Some(circle) = self.shortest_circle(module) else {
                continue;
            };
            done.extend(self.group(module));
            problems.push(self.describe(name, &circle));
        }
        problems
    }

    fn next(&self, module: &str) -> impl Iterator<Item = &str> {
        let next = self.0.get(module).into_iter().flat_map(BTreeMap::keys);
        next.map(String::as_str)
    }

    fn reachable<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open = vec![module];
        while let Some(module) = open.pop() {
            open.extend(self.next(module).filter(|next| found.insert(*next)));
        }
        found
    }

    /// Returns the modules that reach the given one and are reached by it.
    fn group<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut group = self.reachable(module);
        group.retain(|other| self.reachable(other).contains(module));
        group
    }

    /// Finds a shortest way from a module back to itself by a breadth-first search.
    fn shortest_circle<'a>(&'a self, module: &'a str) -> Option<Vec<&'a str>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = vec![module];
        let mut position = 0;
        while let Some(current) = open.get(position).copied() {
            position += 1;
            for next in self.next(current) {
                if next == module {
                    let mut circle = vec![module, current];
                    let mut step = current;
                    while let Some(previous) = before.get(step).filter(|_| step != module) {
                        step = previous;
                        circle.push(step);
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if !before.contains_key(next) {
                    before.insert(next, current);
                    open.push(next);
                }
            }
        }
        None
    }

    fn describe(&self, name: &str, circle: &[&str]) -> String {
        let mut lines = vec![format!("{name}: import circle {}", circle.join(" -> "))];
        let group = circle.first().map(|module| self.group(module));
        if let Some(group) = group.filter(|group| group.len() >= circle.len()) {
            let count = group.len();
            let group: Vec<_> = group.into_iter().collect();
            let group = group.join(", ");
            lines.push(format!("{count} modules reach each other: {group}"));
        }
        for (from, to) in circle.iter().zip(circle.iter().skip(1)) {
            let places = self.0.get(*from).and_then(|next| next.get(*to));
            lines.extend(places.into_iter().flatten().cloned());
        }
        lines.join("\n  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| {
                (
                    (*path).to_owned(),
                    Source::parse(Path::new(path), text).unwrap(),
                )
            })
            .collect();
        let mut found = Modules::of(&sources, Grain::Folders).circles("sample");
        found.extend(Modules::of(&sources, Grain::Rooms).circles("sample"));
        found.dedup();
        found
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; mod c; pub use self::c::Thing;");

    #[test]
    fn directions_without_a_circle_pass() {
        let files = [
            ROOT,
            ("a.rs", "use crate::b::X; use crate::c; use std::fmt;"),
            (
                "b/mod.rs",
                "mod inner; use self::inner::X; use super::c::Y;",
            ),
            ("b/inner.rs", "use super::Z; use super::super::c::{Y, Z};"),
            ("c.rs", "use serde::a; fn f() { other::b(); }"),
        ];
        assert_eq!(circles(&files), Vec::<String>::new());
    }

    #[test]
    fn a_circle_is_shown_with_its_lines() {
        let files = [
            ROOT,
            ("a.rs", "use std::fmt;\nuse crate::b::X;"),
            ("b/inner.rs", "\n\nfn f() { super::super::a::g(); }"),
            ("c.rs", "use crate::{b, c};"),
        ];
        assert_eq!(
            circles(&files),
            ["sample: import circle a -> b -> a\n  a.rs:2: b\n  b/inner.rs:3: a"]
        );
    }

    #[test]
    fn groups_and_reexports_and_macros_count() {
        let files = [
            ROOT,
            ("a.rs", "use crate::{Thing, fmt};"),
            ("b.rs", "fn f() { warn!(\"{}\", crate::a::X) }"),
            ("c.rs", "mod inner { use super::super::{d, b::{X, Y}}; }"),
        ];
        let found = circles(&files);
        assert_eq!(
            found,
            ["sample: import circle a -> c -> b -> a\n  a.rs:1: Thing\n  c.rs:1: b\n  b.rs:1: a"]
        );
    }

    #[test]
    fn modules_that_the_root_reexports_from_a_folder_count_on_their_own() {
        let root = ("lib.rs", "mod a; pub use self::a::{x, y};");
        let files = [
            root,
            ("a/mod.rs", "pub mod x; pub mod y; mod z;"),
            ("a/x.rs", "use crate::y::Y;"),
            ("a/y/mod.rs", "mod inner;"),
            ("a/y/inner.rs", "use crate::x::X;"),
        ];
        assert_eq!(
            circles(&files),
            ["sample: import circle x -> y -> x\n  a/x.rs:1: y\n  a/y/inner.rs:1: x"]
        );
        assert_eq!(circles(&files[..4]), Vec::<String>::new());
    }

    #[test]
    fn larger_groups_are_named() {
        let files = [
            ROOT,
            ("a.rs", "use crate::b; use crate::c;"),
            ("b.rs", "use crate::a;"),
            ("c.rs", "use crate::a;"),
        ];
        let found = circles(&files);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("3 modules reach each other: a, b, c"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod script;"),
            (
                "a.rs",
                "use crate::b; #[cfg(test)] mod tests { use crate::script; }",
            ),
            (
                "b/mod.rs",
                "#[cfg(test)]\nmod tests; #[cfg(test)] use crate::a;",
            ),
            ("b/tests/mod.rs", "use crate::a;"),
            ("b/tests/more.rs", "use crate::a;"),
            ("script.rs", "use crate::a;"),
        ];
        assert_eq!(circles(&files), Vec::<String>::new());
    }

    #[test]
    fn listed_crates_have_no_circles() {
        let root = crate::root().unwrap();
        for name in CRATES {
            assert_eq!(check(&root, name).unwrap(), Vec::<String>::new());
        }
    }
}
