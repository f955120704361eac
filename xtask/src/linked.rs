//! The crates that are linked into a program, with the versions and checksums of `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Returns the platform whose crates are listed: artefacts are built on their own operating system.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "aarch64-apple-darwin",
        "windows" => "x86_64-pc-windows-msvc",
        _ => "x86_64-unknown-linux-gnu",
    }
}

/// A crate of a program.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) repository: Option<String>,
    /// Absent for our own crates.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
}

/// A program with everything that it links.
#[derive(Debug)]
pub(crate) struct Linked {
    /// The program itself.
    pub(crate) root: Package,
    /// The crates that it links, by name and version, without itself.
    pub(crate) packages: Vec<Package>,
    /// The indices of the crates that each crate links directly. The last entry is the program.
    pub(crate) dependencies: Vec<Vec<usize>>,
}

/// The required part of `cargo metadata`'s output.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// Absent for dependencies that are linked.
    kind: Option<String>,
}

impl Linked {
    /// Returns what one of our crates links, with its own features, as `cargo build --package` does.
    pub(crate) fn of(root: &Path, name: &str) -> Result<Self> {
        let arguments = [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            platform(),
        ];
        let json = crate::output(root, "cargo", &arguments)?;
        let metadata: Metadata = serde_json::from_slice(&json)
            .context("cannot understand the output of cargo metadata")?;
        // The metadata has the features of the whole workspace; the tree has those of the program.
        let tree = [
            "tree",
            "--locked",
            "--package",
            name,
            "--edges",
            "normal,no-proc-macro",
            "--target",
            platform(),
            "--prefix",
            "none",
            "--format",
            "{p}",
        ];
        let tree = String::from_utf8(crate::output(root, "cargo", &tree)?)?;
        let listed: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
        metadata.select(name, &listed)
    }
}

impl Metadata {
    fn select(self, name: &str, listed: &BTreeSet<(&str, &str)>) -> Result<Linked> {
        let (mut packages, mut roots) = (Vec::new(), Vec::new());
        for package in self.packages {
            if package.name == name && package.source.is_none() {
                roots.push(package);
            } else if listed.contains(&(&*package.name, &*package.version)) {
                packages.push(package);
            }
        }
        let root = roots
            .pop()
            .with_context(|| format!("there is no crate {name}"))?;
        packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        let positions: HashMap<&str, usize> = packages
            .iter()
            .enumerate()
            .map(|(position, package)| (&*package.id, position))
            .collect();
        let nodes: HashMap<&str, &Node> = self
            .resolve
            .nodes
            .iter()
            .map(|node| (&*node.id, node))
            .collect();
        let direct = |package: &Package| {
            let dependencies = nodes
                .get(&*package.id)
                .into_iter()
                .flat_map(|node| &node.deps);
            let linked =
                dependencies.filter(|one| one.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            let found: BTreeSet<usize> = linked
                .filter_map(|one| positions.get(&*one.pkg).copied())
                .collect();
            found.into_iter().collect()
        };
        let dependencies = packages.iter().chain([&root]).map(direct).collect();
        Ok(Linked {
            root,
            packages,
            dependencies,
        })
    }
}

/// Parses a line of `cargo tree`, such as `bytes v1.12.0` or `kopf v0.1.0 (/path)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// Returns the checksums of `Cargo.lock` by name and version. Our own crates have none.
pub(crate) fn checksums(root: &Path) -> Result<BTreeMap<(String, String), String>> {
    Ok(parse_lock(&crate::read(&root.join("Cargo.lock"))?))
}

fn parse_lock(text: &str) -> BTreeMap<(String, String), String> {
    let value = |entry: &str, key: &str| {
        let mut lines = entry.lines();
        let found = lines.find_map(|line| line.strip_prefix(&format!("{key} = \"")));
        found
            .and_then(|rest| rest.strip_suffix('"'))
            .map(str::to_owned)
    };
    let entries = text.split("[[package]]").skip(1);
    let entries = entries.filter_map(|entry| {
        let key = (value(entry, "name")?, value(entry, "version")?);
        Some((key, value(entry, "checksum")?))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_found_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\
                    source = \"registry\"\nchecksum = \"12ab\"\n\n[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let found = parse_lock(lock);
        let key = ("a".to_owned(), "1.0.0".to_owned());
        assert_eq!(found, BTreeMap::from([(key, "12ab".to_owned())]));
    }

    #[test]
    fn lines_of_the_tree_have_names_and_versions() {
        assert_eq!(
            name_and_version("kopf v0.1.0 (/src/kopf) (*)"),
            Some(("kopf", "0.1.0"))
        );
        assert_eq!(name_and_version(""), None);
    }

    #[test]
    fn build_dependencies_and_unlisted_crates_are_left_out() {
        let package = |name: &str, source: Option<&str>| {
            serde_json::json!({"id": name, "name": name, "version": "1.0.0", "description": null,
                "license": null, "repository": null, "source": source, "manifest_path": "/x"})
        };
        let dependency = |name: &str, kind: Option<&str>| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata: Metadata = serde_json::from_value(serde_json::json!({
            "packages": [package("app", None), package("b", Some("r")), package("a", Some("r")),
                         package("builder", Some("r"))],
            "resolve": {"nodes": [
                {"id": "app", "deps": [dependency("b", None), dependency("builder", Some("build"))]},
                {"id": "b", "deps": [dependency("a", None)]},
                {"id": "a", "deps": []}, {"id": "builder", "deps": []}]},
        }))
        .unwrap();
        let listed = BTreeSet::from([("app", "1.0.0"), ("a", "1.0.0"), ("b", "1.0.0")]);
        let linked = metadata.select("app", &listed).unwrap();
        let names: Vec<_> = linked
            .packages
            .iter()
            .map(|package| &*package.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(linked.dependencies, [vec![], vec![0], vec![1]]);
        assert_eq!(linked.root.name, "app");
    }
}
