//! The policy for what we depend on, from deny.toml: licences, sources, banned crates, features.
//!
//! The file has the form that cargo-deny reads, so that whoever has that tool can use it. It is not
//! required: compiling it takes longer than all other checks together, and what is needed of it is
//! little: what cargo-deny calls `exact`, `wrappers`, exceptions and advisories is not known here.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::graph::{Graph, Package};
use crate::licence;

#[derive(Debug, Deserialize)]
pub(crate) struct Policy {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    #[serde(default)]
    deny: Vec<Ban>,
    #[serde(default)]
    features: Vec<FeatureBan>,
    /// Crates that must exist in one version only: their types cross our interfaces.
    #[serde(default)]
    skip: Vec<Skip>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FeatureBan {
    #[serde(rename = "crate")]
    name: String,
    deny: BTreeSet<String>,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Skip {
    #[serde(rename = "crate")]
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

impl Policy {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("cannot understand deny.toml")
    }

    /// One line per violation; none means that all is well.
    pub(crate) fn check(&self, graph: &Graph) -> Vec<String> {
        let mut problems = Vec::new();
        for package in &graph.packages {
            problems.extend(self.check_licence(package));
            problems.extend(self.check_ban(package));
        }
        for package in graph.foreign() {
            problems.extend(self.check_source(package));
        }
        problems.extend(self.check_features(graph));
        problems.extend(self.check_versions(graph));
        problems
    }

    fn check_licence(&self, package: &Package) -> Option<String> {
        let Package { name, version, .. } = package;
        match &package.license {
            Some(licence) if licence::satisfied(licence, &self.licenses.allow) => None,
            Some(licence) => Some(format!(
                "{name} {version}: its licence is not allowed: {licence}"
            )),
            None => Some(format!("{name} {version}: it names no licence")),
        }
    }

    fn check_ban(&self, package: &Package) -> Option<String> {
        let ban = self.bans.deny.iter().find(|ban| ban.name == package.name)?;
        Some(format!(
            "{} {} is banned: {}",
            package.name, package.version, ban.reason
        ))
    }

    fn check_source(&self, package: &Package) -> Option<String> {
        let Package { name, version, .. } = package;
        let source = package
            .source
            .as_deref()
            .unwrap_or("a folder outside of the workspace");
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        if self.sources.allow_registry.contains(registry) {
            return None;
        }
        Some(format!(
            "{name} {version}: its source is not allowed: {source}"
        ))
    }

    fn check_features(&self, graph: &Graph) -> Vec<String> {
        let features = graph.features();
        let mut problems = Vec::new();
        for ban in &self.bans.features {
            for package in graph
                .packages
                .iter()
                .filter(|package| package.name == ban.name)
            {
                let Some(on) = features.get(package.id.as_str()) else {
                    continue;
                };
                for feature in on.intersection(&ban.deny) {
                    problems.push(format!(
                        "{} {}: some dependency switches on its feature {feature}: {} (find it \
                         with: cargo tree -e features -i {})",
                        package.name, package.version, ban.reason, package.name,
                    ));
                }
            }
        }
        problems
    }

    fn check_versions(&self, graph: &Graph) -> Vec<String> {
        let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
        for package in &graph.packages {
            versions
                .entry(&package.name)
                .or_default()
                .insert(&package.version);
        }
        versions
            .into_iter()
            .filter(|(name, versions)| {
                versions.len() > 1 && !self.bans.skip.iter().any(|skip| skip.name == *name)
            })
            .map(|(name, versions)| {
                let versions: Vec<_> = versions.into_iter().collect();
                format!(
                    "{name} is there in several versions ({}): align them, or add it to `skip` in \
                     deny.toml with the reason",
                    versions.join(", ")
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLICY: &str = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        deny = [{ crate = "bad", reason = "it is bad" }]
        features = [{ crate = "json", deny = ["ordered"], reason = "keys are sorted" }]
        skip = [{ crate = "twice", reason = "one day" }]
        [sources]
        allow-registry = ["https://registry.example"]
    "#;

    /// What is found about one foreign package that is fine except for what `change` changes.
    fn problems(change: &serde_json::Value) -> Vec<String> {
        let mut package = json!({
            "id": "p", "name": "fine", "version": "1.0.0", "license": "MIT",
            "source": "registry+https://registry.example",
        });
        for (key, value) in change.as_object().unwrap() {
            package[key] = value.clone();
        }
        let graph = json!({
            "packages": [package], "workspace_members": [],
            "resolve": {"nodes": [{"id": "p", "features": package["features"].as_array()
                .cloned().unwrap_or_default()}]},
        });
        Policy::parse(POLICY)
            .unwrap()
            .check(&serde_json::from_value(graph).unwrap())
    }

    #[test]
    fn a_fine_package_passes() {
        assert_eq!(problems(&json!({})), Vec::<String>::new());
    }

    #[test]
    fn each_rule_can_fail() {
        for (change, expected) in [
            (
                json!({"license": "GPL-3.0"}),
                "licence is not allowed: GPL-3.0",
            ),
            (json!({"license": null}), "names no licence"),
            (json!({"name": "bad"}), "is banned: it is bad"),
            (
                json!({"source": "git+https://example.com/x"}),
                "source is not allowed: git+https",
            ),
            (json!({"source": null}), "source is not allowed: a folder"),
            (
                json!({"name": "json", "features": ["std", "ordered"]}),
                "its feature ordered",
            ),
        ] {
            let found = problems(&change);
            assert_eq!(found.len(), 1, "{change}: {found:?}");
            assert!(found[0].contains(expected), "{change}: {found:?}");
        }
        assert_eq!(
            problems(&json!({"name": "json", "features": ["std"]})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn two_versions_fail_unless_skipped() {
        let graph = |name: &str| {
            let package = |version: &str| {
                json!({"id": version, "name": name, "version": version, "license": "MIT",
                       "source": "registry+https://registry.example"})
            };
            serde_json::from_value(json!({
                "packages": [package("1.0.0"), package("2.0.0")], "workspace_members": [],
                "resolve": {"nodes": []},
            }))
            .unwrap()
        };
        let policy = Policy::parse(POLICY).unwrap();
        assert_eq!(policy.check(&graph("once")).len(), 1);
        assert_eq!(policy.check(&graph("twice")), Vec::<String>::new());
    }

    #[test]
    fn the_features_that_change_all_objects_are_banned_here() {
        let root = crate::root().unwrap();
        let policy = Policy::parse(&crate::read(&root.join("deny.toml")).unwrap()).unwrap();
        let ban = policy
            .bans
            .features
            .iter()
            .find(|ban| ban.name == "serde_json")
            .unwrap();
        assert!(ban.deny.contains("preserve_order"));
        assert!(ban.deny.contains("arbitrary_precision"));
    }
}
