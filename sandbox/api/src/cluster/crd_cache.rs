//! The CRDs as last read. They are parsed once; conditions and kinds are recomputed on changes
//! only.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kopf_sandbox_schema::crd;
use kopf_sandbox_schema::kind::{Kind, Kinds};
use serde_json::Value;

use crate::store::Stored;

/// All CRDs, by name.
#[derive(Debug)]
pub(super) struct CrdCache {
    known: BTreeMap<Arc<str>, Definition>,
    /// Kinds that a CRD cannot replace.
    built_in: Kinds,
}

#[derive(Debug)]
struct Definition {
    stored: Arc<Stored>,
    crd: Arc<Value>,
    /// The served kind.
    served: Option<Served>,
    /// The revision that was last evaluated for serving.
    considered: u64,
}

/// A served kind and the CRD from which it was built.
#[derive(Debug, Clone)]
pub(super) struct Served {
    pub(super) kind: Arc<Kind>,
    crd: Arc<Value>,
}

/// The served kind before and after a change.
type Change = (Option<Served>, Option<Served>);

impl Served {
    /// Returns `true` if discovery differs. A terminating CRD alone makes no difference.
    pub(super) fn looks_different_from(&self, other: &Self) -> bool {
        !same_definition(&self.crd, &other.crd)
    }
}

fn same_definition(a: &Value, b: &Value) -> bool {
    // The generation is not compared: deletion increments it.
    a.get("spec") == b.get("spec") && accepted_names(a) == accepted_names(b)
}

fn accepted_names(crd: &Value) -> Option<&Value> {
    crd.pointer("/status/acceptedNames")
}

fn group(crd: &Value) -> &str {
    crd.pointer("/spec/group")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

impl CrdCache {
    pub(super) fn new(built_in: Kinds) -> Self {
        Self {
            known: BTreeMap::new(),
            built_in,
        }
    }

    /// Replaces the CRDs by the stored ones. Returns the removed kinds, and the CRDs to evaluate.
    pub(super) fn read(&mut self, stored: &[Arc<Stored>]) -> (Vec<Served>, VecDeque<Arc<str>>) {
        let mut gone = Vec::new();
        let mut groups = BTreeSet::new();
        let present: BTreeMap<&str, u64> = stored
            .iter()
            .map(|stored| (&*stored.key.name, stored.born))
            .collect();
        self.known.retain(|name, definition| {
            let stays = present.get(&**name) == Some(&definition.stored.born);
            if !stays {
                groups.insert(group(&definition.crd).to_owned());
                gone.extend(definition.served.take());
            }
            stays
        });
        let mut changed = Vec::new();
        for stored in stored {
            let name = &stored.key.name;
            if let Some(definition) = self.known.get_mut(name) {
                if definition.stored.revision == stored.revision {
                    continue;
                }
                definition.crd = Arc::new(stored.value());
                definition.stored = Arc::clone(stored);
            } else {
                let definition = Definition {
                    stored: Arc::clone(stored),
                    crd: Arc::new(stored.value()),
                    served: None,
                    considered: 0,
                };
                self.known.insert(Arc::clone(name), definition);
            }
            changed.push((stored.revision, Arc::clone(name)));
        }
        changed.sort(); // names are assigned in the order of creation
        let mut to_judge: VecDeque<Arc<str>> = changed.into_iter().map(|(_, name)| name).collect();
        for group in groups {
            to_judge.extend(self.waiting_for_names(&group));
        }
        (gone, to_judge)
    }

    /// Returns the CRDs of a group whose requested names differ from the accepted ones.
    fn waiting_for_names(&self, of: &str) -> Vec<Arc<str>> {
        self.known
            .iter()
            .filter(|(_, definition)| {
                group(&definition.crd) == of && !crd::has_its_names(&definition.crd)
            })
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// Returns the CRD with its new status, or `None` if the status is up to date.
    pub(super) fn judge(&self, name: &str, now: &str) -> Option<(Arc<Stored>, Value)> {
        let definition = self.known.get(name)?;
        let of = group(&definition.crd);
        let rivals = self.known.values().map(|other| &*other.crd);
        let rivals = rivals.filter(|other| group(other) == of);
        let status = crd::conditions(&definition.crd, rivals, now);
        if definition.crd.get("status") == Some(&status) {
            return None;
        }
        let mut crd = Value::clone(&definition.crd);
        crd["status"] = status;
        Some((Arc::clone(&definition.stored), crd))
    }

    /// Replaces a CRD after a change of its status. Returns the CRDs whose conditions may depend on
    /// it.
    pub(super) fn replace(&mut self, stored: Arc<Stored>, crd: Value) -> Vec<Arc<str>> {
        let name = Arc::clone(&stored.key.name);
        let Some(definition) = self.known.get_mut(&name) else {
            return Vec::new();
        };
        let same_names = accepted_names(&crd) == accepted_names(&definition.crd);
        let crd = Arc::new(crd);
        definition.stored = stored;
        definition.crd = Arc::clone(&crd);
        if same_names {
            return Vec::new();
        }
        let mut others = self.waiting_for_names(group(&crd));
        others.retain(|other| *other != name);
        others
    }

    /// Rebuilds the kinds of changed CRDs. Returns the served kinds before and after.
    pub(super) fn renew_kinds(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, definition) in &mut self.known {
            if definition.considered == definition.stored.revision {
                continue;
            }
            definition.considered = definition.stored.revision;
            let now = definition.serve(name, &self.built_in);
            let same = match (&definition.served, &now) {
                (Some(before), Some(now)) => Arc::ptr_eq(&before.kind, &now.kind),
                (before, now) => before.is_none() && now.is_none(),
            };
            if !same {
                let before = std::mem::replace(&mut definition.served, now.clone());
                changes.push((before, now));
            }
        }
        changes
    }
}

impl Definition {
    /// Returns the kind to serve: the current one if nothing of it has changed.
    fn serve(&self, name: &str, built_in: &Kinds) -> Option<Served> {
        let crd = &self.crd;
        if !crd::is_established(crd) {
            return None;
        }
        let former = self.served.as_ref();
        if let Some(former) = former
            && same_definition(&former.crd, crd)
            && former.kind.terminating == crd::is_terminating(crd)
        {
            return Some(former.clone());
        }
        let former = former.map(|former| (&*former.crd, &*former.kind));
        let kind = match crd::kind(crd, self.stored.born, former) {
            Ok(kind) => kind,
            Err(errors) => {
                tracing::warn!(crd = name, ?errors, "the CRD can't be served");
                return None;
            }
        };
        if built_in.by_plural(&kind.group, &kind.plural).is_some() {
            return None; // a built-in kind has this name
        }
        Some(Served {
            kind: Arc::new(kind),
            crd: Arc::clone(crd),
        })
    }
}
