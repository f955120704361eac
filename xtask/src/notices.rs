//! Licence texts of the crates that are linked into a program, for its distribution.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The required part of `cargo metadata`'s output.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
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

/// Returns the notices for everything that one of our crates links.
pub(crate) fn notices(root: &Path, name: &str) -> Result<String> {
    let arguments = ["metadata", "--format-version", "1", "--locked"];
    let json = crate::output(root, "cargo", &arguments)?;
    let metadata: Metadata =
        serde_json::from_slice(&json).context("cannot understand the output of cargo metadata")?;
    let packages: HashMap<&str, &Package> = metadata
        .packages
        .iter()
        .map(|package| (&*package.id, package))
        .collect();
    let start = metadata
        .packages
        .iter()
        .find(|package| package.name == name)
        .with_context(|| format!("there is no crate {name}"))?;
    // Equal texts are printed once, with the names of all crates that have them.
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for id in linked(&metadata.resolve, &start.id) {
        let Some(package) = packages.get(id).filter(|package| package.source.is_some()) else {
            continue;
        };
        let licence = package.license.as_deref().unwrap_or("see the text");
        let title = format!("{} {} ({licence})", package.name, package.version);
        for text in licence_files(package)? {
            texts.entry(text).or_default().insert(title.clone());
        }
    }
    for id in linked(&metadata.resolve, &start.id) {
        let Some(package) = packages.get(id).filter(|package| package.source.is_none()) else {
            continue;
        };
        for (name, text) in embedded_licences(package)? {
            let title = format!("data of {name} in {}", package.name);
            texts.entry(text).or_default().insert(title);
        }
    }
    let sections = texts.into_iter().map(|(text, titles)| {
        let titles: Vec<_> = titles.into_iter().collect();
        format!("{}\n\n{}\n", titles.join("\n"), text.trim_end())
    });
    let sections: Vec<_> = sections.collect();
    let line = "-".repeat(80);
    Ok(sections.join(&format!("\n{line}\n\n")))
}

/// Returns the packages that are linked with this one, without build and test dependencies.
fn linked<'m>(resolve: &'m Resolve, start: &'m str) -> BTreeSet<&'m str> {
    let nodes: HashMap<&str, &Node> = resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
    let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
    while let Some(id) = left.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
            let mut kinds = dependency.dep_kinds.iter();
            if kinds.any(|kind| kind.kind.is_none()) {
                left.push(&dependency.pkg);
            }
        }
    }
    seen
}

/// Returns the licences of data that one of our crates embeds, by the names of their owners: files such as
/// `data/LICENSE-kubernetes`.
fn embedded_licences(package: &Package) -> Result<Vec<(String, String)>> {
    let folder = package
        .manifest_path
        .parent()
        .context("a manifest has no folder")?;
    let folder = folder.join("data");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut licences = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(owner) = entry.file_name().to_string_lossy().strip_prefix("LICENSE-") {
            licences.push((owner.to_owned(), crate::read(&entry.path())?));
        }
    }
    Ok(licences)
}

/// Returns the licence files beside the manifest of a package. A package without any is covered by
/// the name of its licence.
fn licence_files(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent();
    let folder = folder.context("a manifest has no folder")?;
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "NOTICE"]
            .iter()
            .any(|beginning| name.starts_with(beginning));
        if is_licence && entry.file_type()?.is_file() {
            texts.push(crate::read(&entry.path())?);
        }
    }
    if texts.is_empty() {
        texts.push("The package contains no text of its licence.".to_owned());
    }
    Ok(texts)
}
