//! Licence texts of the crates that are linked into a program, for its distribution.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::linked::{Linked, Package};

/// Returns the notices for everything that one of our crates links.
pub(crate) fn notices(root: &Path, name: &str) -> Result<String> {
    let linked = Linked::of(root, name)?;
    // Equal texts are printed once, with the names of all crates that have them.
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in &linked.packages {
        if package.source.is_some() {
            let licence = package.license.as_deref().unwrap_or("see the text");
            let title = format!("{} {} ({licence})", package.name, package.version);
            for text in licence_files(package)? {
                texts.entry(text).or_default().insert(title.clone());
            }
        } else {
            for (name, text) in embedded_licences(package)? {
                let title = format!("data of {name} in {}", package.name);
                texts.entry(text).or_default().insert(title);
            }
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
