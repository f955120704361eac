//! Assignment of names to the CRDs of a group.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::conditions::joined;

/// The names that a CRD gets, and the conflict over the others.
pub(super) struct Naming {
    pub(super) accepted: Value,
    /// Reason and message; of several conflicts, the last one.
    pub(super) conflict: Option<(&'static str, String)>,
}

impl Naming {
    pub(super) fn of<'a>(crd: &'a Value, others: impl Iterator<Item = &'a Value>) -> Self {
        let used = Used::of(crd, others);
        let mut claim = Claim {
            requested: crd.pointer("/spec/names"),
            held: crd.pointer("/status/acceptedNames"),
            accepted: Map::new(),
            conflict: None,
        };
        claim.single("plural", "PluralConflict", &used.resources);
        claim.single("singular", "SingularConflict", &used.resources);
        claim.short_names(&used.resources);
        claim.single("kind", "KindConflict", &used.kinds);
        claim.single("listKind", "ListKindConflict", &used.kinds);
        // Categories are shared by design.
        claim.keep_list("categories", texts(claim.requested, "categories"));
        Self {
            accepted: claim.accepted.into(),
            conflict: claim.conflict,
        }
    }
}

/// Names that are used in the group.
struct Used<'a> {
    resources: HashSet<&'a str>,
    kinds: HashSet<&'a str>,
}

impl<'a> Used<'a> {
    fn of(crd: &'a Value, others: impl Iterator<Item = &'a Value>) -> Self {
        let group = crd.pointer("/spec/group");
        let name = crd.pointer("/metadata/name");
        let rivals = others.filter(|other| {
            other.pointer("/spec/group") == group && other.pointer("/metadata/name") != name
        });
        let mut used = Self {
            resources: HashSet::new(),
            kinds: HashSet::new(),
        };
        for other in rivals.chain([crd]) {
            let names = other.pointer("/status/acceptedNames");
            used.resources
                .extend([text(names, "plural"), text(names, "singular")]);
            used.resources.extend(texts(names, "shortNames"));
            used.kinds
                .extend([text(names, "kind"), text(names, "listKind")]);
        }
        used
    }
}

struct Claim<'a> {
    requested: Option<&'a Value>,
    held: Option<&'a Value>,
    accepted: Map<String, Value>,
    conflict: Option<(&'static str, String)>,
}

impl Claim<'_> {
    fn single(&mut self, key: &str, reason: &'static str, used: &HashSet<&str>) {
        let (wanted, held) = (text(self.requested, key), text(self.held, key));
        let is_free = wanted == held || !used.contains(wanted);
        if !is_free {
            self.conflict = Some((reason, in_use(wanted)));
        }
        let name = if is_free { wanted } else { held };
        // Plural and kind are never omitted.
        if !name.is_empty() || matches!(key, "plural" | "kind") {
            self.accepted.insert(key.to_owned(), name.into());
        }
    }

    /// Accepts the short names all together or not at all.
    fn short_names(&mut self, used: &HashSet<&str>) {
        let (wanted, held) = (
            texts(self.requested, "shortNames"),
            texts(self.held, "shortNames"),
        );
        let taken: Vec<String> = wanted
            .iter()
            .filter(|name| !held.contains(name) && used.contains(**name))
            .map(|name| in_use(name))
            .collect();
        let names = match joined(taken) {
            None => wanted,
            Some(message) => {
                self.conflict = Some(("ShortNamesConflict", message));
                held
            }
        };
        self.keep_list("shortNames", names);
    }

    fn keep_list(&mut self, key: &str, names: Vec<&str>) {
        if !names.is_empty() {
            self.accepted.insert(key.to_owned(), names.into());
        }
    }
}

/// Returns `true` if all requested names are accepted, so that they need no evaluation.
pub fn has_its_names(crd: &Value) -> bool {
    let (wanted, held) = (
        crd.pointer("/spec/names"),
        crd.pointer("/status/acceptedNames"),
    );
    let single = ["plural", "singular", "kind", "listKind"];
    let lists = ["shortNames", "categories"];
    single
        .iter()
        .all(|key| text(wanted, key) == text(held, key))
        && lists
            .iter()
            .all(|key| texts(wanted, key) == texts(held, key))
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

fn text<'a>(names: Option<&'a Value>, key: &str) -> &'a str {
    let name = names
        .and_then(|names| names.get(key))
        .and_then(Value::as_str);
    name.unwrap_or_default()
}

fn texts<'a>(names: Option<&'a Value>, key: &str) -> Vec<&'a str> {
    let list = names
        .and_then(|names| names.get(key))
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
