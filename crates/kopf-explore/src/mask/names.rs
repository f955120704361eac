//! Names with random parts.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::object::ObjectKey;

// The patterns are constants and compile; if one did not, nothing would be replaced.
pub(super) static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok()
});
static RANDOM: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("[-.]?[a-z0-9]{4,64}$").ok());

/// The prefixes of names with random ends, by resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamePatterns {
    prefixes: BTreeSet<(String, String)>,
}

impl NamePatterns {
    /// Returns the key with a pattern instead of a name with a random end.
    pub fn pattern(&self, key: &ObjectKey, object: Option<&Value>) -> ObjectKey {
        let generated = object
            .and_then(|object| object.pointer("/metadata/generateName"))
            .and_then(Value::as_str)
            .filter(|prefix| key.name.starts_with(prefix));
        if let Some(prefix) = generated {
            return key.named(format!("{prefix}*"));
        }
        if let Some(uuid) = UUID.as_ref().filter(|uuid| uuid.is_match(&key.name)) {
            return key.named(uuid.replace_all(&key.name, "*"));
        }
        let known = self.prefixes.iter().find(|(resource, prefix)| {
            *resource == key.resource
                && key
                    .name
                    .strip_prefix(prefix.as_str())
                    .is_some_and(|rest| !rest.is_empty() && !rest.contains('*'))
        });
        match known {
            Some((_, prefix)) => key.named(format!("{prefix}*")),
            None => key.clone(),
        }
    }

    /// Learns prefixes from the names of several runs: names that are not in all of them.
    pub fn learn<'a>(runs: &[impl IntoIterator<Item = &'a ObjectKey> + Clone]) -> Self {
        let runs: Vec<BTreeSet<&ObjectKey>> = runs
            .iter()
            .map(|run| run.clone().into_iter().collect())
            .collect();
        let all: BTreeSet<&ObjectKey> = runs.iter().flatten().copied().collect();
        let mut patterns = Self::default();
        for key in all {
            if runs.iter().all(|run| run.contains(key)) {
                continue;
            }
            let Some(prefix) = stem(&key.name) else {
                continue;
            };
            let is_common = runs.iter().all(|run| {
                run.iter().any(|other| {
                    other.resource == key.resource
                        && other.namespace == key.namespace
                        && stem(&other.name) == Some(prefix)
                })
            });
            if is_common {
                patterns
                    .prefixes
                    .insert((key.resource.clone(), prefix.to_owned()));
            }
        }
        patterns
    }
}

/// Returns a name without its last part, if the rest has enough letters to be recognised.
fn stem(name: &str) -> Option<&str> {
    let cut = RANDOM.as_ref()?.find(name)?.start();
    let separator = name.get(..=cut)?;
    (separator.ends_with(['-', '.']) && cut >= 1).then_some(separator)
}
