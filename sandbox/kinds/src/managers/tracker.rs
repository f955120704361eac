//! Updates of the managers of an object by writes.

use std::collections::BTreeMap;

use kopf_sandbox_schema::fields::{
    self, Comparison, FieldSet, Typed, check, collect, compare, merge, reconcile,
};
use kopf_sandbox_schema::kind::{Kind, KindVersion};
use kopf_sandbox_schema::object::meta;
use serde_json::Value;

use super::managed::{Managed, Manager, Operation, Owned};
use super::reset::{STRIPPED, ignored};
use super::{Conflict, Conversions, cap, last_applied};
use crate::conversion;

/// The manager of fields that an object had before its managers were tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// A tracker of the managers of one kind, for one write.
#[derive(Debug)]
pub struct Tracker<'a> {
    kind: &'a Kind,
    version: &'a KindVersion,
    subresource: Option<&'a str>,
    ignored: FieldSet,
    now: String,
    conversions: &'a Conversions,
}

/// The reason why an apply is rejected.
#[derive(Debug)]
pub enum Rejection {
    Conflict(Conflict),
    /// The configuration does not fit the schema.
    Mistyped(String),
}

impl<'a> Tracker<'a> {
    pub fn new(
        kind: &'a Kind,
        version: &'a KindVersion,
        subresource: Option<&'a str>,
        now: String,
        conversions: &'a Conversions,
    ) -> Self {
        Self {
            kind,
            version,
            subresource,
            ignored: ignored(kind, version, subresource),
            now,
            conversions,
        }
    }

    pub(super) fn api_version(&self) -> String {
        self.kind.api_version(&self.version.name)
    }

    /// Returns the version of the kind for an `apiVersion`.
    fn version_of(&self, api_version: &str) -> Option<&'a KindVersion> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if group != &*self.kind.group {
            return None;
        }
        self.kind.version(version)
    }

    /// Returns the object with its type, or `None` if the version is no longer served.
    pub(super) fn typed<'v>(&'v self, value: &'v Value, api_version: &str) -> Option<Typed<'v>> {
        let version = self.version_of(api_version)?;
        let (schema, of) = if self.kind.is_custom() {
            let schema = version.schema.as_ref()?.fields();
            (schema, schema.root(""))
        } else {
            let schema = fields::builtin(api_version);
            (schema, schema.root(&self.kind.kind))
        };
        Some(Typed { schema, of, value })
    }

    /// Returns the object in another version, or `None` if that is no longer served.
    pub(super) fn converted(&self, object: &Value, api_version: &str) -> Option<Value> {
        let to = self.version_of(api_version)?;
        let from = object
            .get("apiVersion")
            .and_then(Value::as_str)
            .and_then(|version| self.version_of(version))
            .unwrap_or(self.version);
        if self.kind.conversion_webhook.is_some()
            && from.name != to.name
            && object.get("metadata").is_some()
        {
            return self.conversions.find(object, &to.name);
        }
        let mut object = object.clone();
        conversion::convert(&mut object, self.kind, &from.name, self.kind, &to.name);
        Some(object)
    }

    /// Records an update from `live` to `new` by a manager.
    ///
    /// `live` is `None` for a new object.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, name: &str) {
        let empty = self.empty();
        let managed = Managed::of_update(live.unwrap_or(&empty), new, self.subresource);
        meta::metadata(new).remove("managedFields");
        // An object whose managers were reset stays without them until an apply.
        if managed.is_empty() && live.is_some() {
            return;
        }
        let managed = self.updated(live.unwrap_or(&empty), new, managed, name);
        if let Some(entries) = managed.encode() {
            meta::metadata(new).insert("managedFields".to_owned(), entries);
        }
    }

    fn updated(&self, live: &Value, new: &Value, managed: Managed, name: &str) -> Managed {
        let api_version = self.api_version();
        let mut managed = self.reconciled(live, managed);
        let changes = self.changes(live, new, &api_version);
        self.dispossess(live, new, &mut managed, None, &changes);
        let taken = changes
            .modified
            .union(&changes.added)
            .recursive_difference(&self.ignored)
            .difference(&STRIPPED);
        if !taken.is_empty() {
            let manager = Manager::new(name, Operation::Update, &api_version, self.subresource);
            let before = managed.owners.remove(&manager);
            let set = match before {
                Some(before) => taken.union(&before.set),
                None => taken,
            };
            let time = self.time();
            let owned = Owned {
                set,
                api_version,
                time,
            };
            managed.owners.insert(manager, owned);
        }
        cap::cap(&mut managed);
        managed
    }

    /// Returns the time of an entry. A real server omits it for writes through `scale`.
    fn time(&self) -> Option<String> {
        (self.subresource != Some("scale")).then(|| self.now.clone())
    }

    /// Returns the differences between two objects in a version, without ignored fields.
    fn changes(&self, live: &Value, new: &Value, api_version: &str) -> Comparison {
        self.typed(live, api_version)
            .map(|typed| compare(typed.schema, typed.of, live, new).without(&self.ignored))
            .unwrap_or_default()
    }

    /// Removes changed and deleted fields from all managers but one. Returns the changed ones by
    /// manager.
    fn dispossess(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut Managed,
        except: Option<&Manager>,
        changes: &Comparison,
    ) -> Conflict {
        let mut by_version: BTreeMap<String, Option<Comparison>> =
            BTreeMap::from([(self.api_version(), Some(changes.clone()))]);
        let mut conflict = Conflict::default();
        managed.owners.retain(|manager, owned| {
            if Some(manager) == except {
                return true;
            }
            let changes = by_version
                .entry(owned.api_version.clone())
                .or_insert_with(|| {
                    let live = self.converted(live, &owned.api_version)?;
                    let new = self.converted(new, &owned.api_version)?;
                    Some(self.changes(&live, &new, &owned.api_version))
                });
            let Some(changes) = changes else {
                // Fields of a removed version are dropped; those of another group are kept.
                let group = owned
                    .api_version
                    .rsplit_once('/')
                    .map_or("", |(group, _)| group);
                return group != &*self.kind.group;
            };
            let touched = changes.modified.clone().union(&changes.added);
            let taken = owned.set.intersection(&touched);
            if !taken.is_empty() {
                owned.set = owned.set.difference(&taken);
                conflict.fields.insert(manager.clone(), taken);
            }
            owned.set = owned.set.difference(&changes.removed);
            !owned.set.is_empty()
        });
        conflict
    }

    /// Returns the managers with their sets under the current schemas.
    fn reconciled(&self, live: &Value, mut managed: Managed) -> Managed {
        if !self.kind.is_custom() {
            return managed;
        }
        for owned in managed.owners.values_mut() {
            let Some(live) = self.converted(live, &owned.api_version) else {
                continue;
            };
            if let Some(typed) = self.typed(&live, &owned.api_version) {
                owned.set = reconcile(typed, &owned.set);
            }
        }
        managed
    }

    /// Applies a configuration on top of `live`, or creates the object. Returns the object with its
    /// managers.
    ///
    /// # Errors
    ///
    /// Fields of other managers would change and `force` is not set, or the configuration does not
    /// fit the schema.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        name: &str,
        force: bool,
    ) -> Result<Value, Rejection> {
        self.check(config)?;
        let empty = self.empty();
        let mut live_object = live.unwrap_or(&empty).clone();
        let managed = live_object
            .pointer("/metadata/managedFields")
            .and_then(Managed::decode)
            .unwrap_or_default();
        if live.is_some() {
            meta::metadata(&mut live_object).remove("managedFields");
        }
        let managed = if managed.is_empty() && live.is_some() {
            self.updated(&empty, &live_object, managed, BEFORE_FIRST_APPLY)
        } else {
            managed
        };
        let applied = self.try_apply(&live_object, config, managed.clone(), name, force);
        let applied = match applied {
            Err(conflict) if name == last_applied::KUBECTL => {
                let allowed = self
                    .typed(&live_object, &self.api_version())
                    .and_then(last_applied::allowed);
                match allowed {
                    Some(allowed) if conflict.all().difference(&allowed).is_empty() => {
                        self.try_apply(&live_object, config, managed, name, true)
                    }
                    Some(allowed) => Err(conflict.without(&allowed)),
                    None => Err(conflict),
                }
            }
            other => other,
        };
        let mut object = applied.map_err(Rejection::Conflict)?;
        if name == last_applied::KUBECTL {
            last_applied::refresh(&mut object, config);
        }
        Ok(object)
    }

    /// Returns an object merged with a configuration, without recording its manager.
    ///
    /// # Errors
    ///
    /// The configuration has unknown fields or values of wrong types.
    pub fn merged(&self, object: &Value, config: &Value) -> Result<Value, String> {
        let Some(typed) = self.typed(config, &self.api_version()) else {
            return Ok(object.clone());
        };
        match check(typed).first() {
            Some(problem) => Err(problem.clone()),
            None => Ok(merge(typed.schema, typed.of, object, config)),
        }
    }

    fn check(&self, config: &Value) -> Result<(), Rejection> {
        let api_version = self.api_version();
        let problems = self
            .typed(config, &api_version)
            .map(check)
            .unwrap_or_default();
        if problems.is_empty() {
            return Ok(());
        }
        let name = match meta::namespace(config) {
            Some(namespace) => format!("{namespace}/{}", meta::name(config)),
            None => format!("/{}", meta::name(config)),
        };
        let kind = &self.kind.kind;
        let group = &self.kind.group;
        let version = &self.version.name;
        let problems = match problems.as_slice() {
            [only] => only.clone(),
            many => {
                let lines: Vec<String> = many.iter().map(|line| format!("  {line}")).collect();
                format!("errors:\n{}", lines.join("\n"))
            }
        };
        Err(Rejection::Mistyped(format!(
            "failed to create typed patch object ({name}; {group}/{version}, Kind={kind}): {problems}"
        )))
    }

    fn try_apply(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed,
        name: &str,
        force: bool,
    ) -> Result<Value, Conflict> {
        let api_version = self.api_version();
        let mut managed = self.reconciled(live, managed);
        let manager = Manager::new(name, Operation::Apply, &api_version, self.subresource);
        let Some(typed) = self.typed(config, &api_version) else {
            return Ok(live.clone());
        };
        let merged = merge(typed.schema, typed.of, live, config);
        let last = managed.owners.remove(&manager);
        // Names belong to no manager, but must not be pruned.
        let set = collect(typed).recursive_difference(&self.ignored);
        let owned = Owned {
            set,
            api_version: api_version.clone(),
            time: last.as_ref().and_then(|last| last.time.clone()),
        };
        managed.owners.insert(manager.clone(), owned);
        let mut object = self.pruned(merged, &managed, last.as_ref());
        let changes = self.changes(live, &object, &api_version);
        let conflict = self.dispossess(live, &object, &mut managed, Some(&manager), &changes);
        if !force && !conflict.is_empty() {
            return Err(conflict);
        }
        if object == *live {
            object = live.clone();
        } else if let Some(owned) = managed.owners.get_mut(&manager) {
            owned.time = self.time();
        }
        if let Some(owned) = managed.owners.get_mut(&manager) {
            owned.set = owned.set.difference(&STRIPPED);
        }
        managed.owners.retain(|_, owned| !owned.set.is_empty());
        cap::cap(&mut managed);
        if let Some(entries) = managed.encode() {
            meta::metadata(&mut object).insert("managedFields".to_owned(), entries);
        }
        Ok(object)
    }

    /// Returns the object before its creation. Objects of built-in kinds have all fields that are
    /// never omitted.
    fn empty(&self) -> Value {
        let api_version = self.api_version();
        let types = kopf_sandbox_schema::typing::built_in();
        let mut object = match types.root(&api_version, &self.kind.kind) {
            Some(root) if !self.kind.is_custom() => types.empty(root),
            _ => Value::Object(serde_json::Map::new()),
        };
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), Value::String(api_version));
            map.insert("kind".to_owned(), Value::String(self.kind.kind.to_string()));
        }
        object
    }
}
