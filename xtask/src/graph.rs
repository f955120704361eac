//! The packages of the workspace and their dependencies, from `cargo metadata`. Includes optional
//! dependencies.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// The part of `cargo metadata`'s output that the checks need.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Graph {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: BTreeSet<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    /// An empty list means `publish = false`.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) optional: bool,
}

impl Package {
    pub(crate) fn is_published(&self) -> bool {
        self.publish
            .as_ref()
            .is_none_or(|registries| !registries.is_empty())
    }
}

impl Graph {
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let arguments = ["metadata", "--format-version", "1", "--no-deps"];
        // Cargo sets `CARGO` for programs that it runs; otherwise, the one in the search path is
        // used.
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let json = crate::output(root, &cargo, &arguments)?;
        serde_json::from_slice(&json).context("cannot understand the output of cargo metadata")
    }

    /// Returns the packages of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }
}
