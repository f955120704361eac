//! Changes that come with own writes: an admission webhook that sets a field of the spec in each
//! request makes every write of the operator an update to be handled.

use std::sync::Arc;

use serde_json::Value;

use super::moment::Moment;
use super::policy::Policy;
use super::progressing::Backoff;
use super::rules::Rules;
use crate::body::Body;
use crate::diff::Diff;
use crate::field::FieldPath;
use crate::managers::manager_of;
use crate::patch::{Patch, PatchFn};

/// A change that came with an own write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The version that the write has created.
    version: Box<str>,
    /// The changed field.
    pub field: FieldPath,
    /// The field manager that has changed it, if known.
    pub manager: Option<String>,
    is_confirmed: bool,
}

/// The fields that a write changes, except those that are not tracked.
#[derive(Clone, Debug)]
pub(super) struct Intent(Value);

impl Intent {
    /// Returns the intent of a patch; `None` if it cannot be known, because of functions of users.
    pub(super) fn of(patch: &Patch) -> Option<Self> {
        let mut fns = patch.fns.iter();
        if fns.any(PatchFn::is_repeated_after_conflict) {
            return None;
        }
        let fields = patch.merge.iter();
        let tracked = fields.filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status"));
        let tracked = tracked.map(|(key, value)| (key.clone(), value.clone()));
        Some(Self(Value::Object(tracked.collect())))
    }
}

impl Stamp {
    /// Looks for a change in the response to a write that the write did not contain.
    pub(super) fn detect<F>(
        policy: &Policy<F>,
        intent: &Intent,
        before: &Body,
        after: &Body,
        whole: impl FnOnce() -> Option<Body>,
    ) -> Option<Self> {
        let generation = |body: &Body| body.metadata().get("generation")?.as_i64();
        // Most writes change metadata and the status only, and need no comparison.
        if generation(before)? == generation(after)? {
            return None;
        }
        let after = whole()?;
        let expected = Patch {
            merge: intent.0.as_object()?.clone(),
            fns: Vec::new(),
        };
        let expected = Body::new(expected.merged_into(before.value().clone()));
        let essence = |body: &Body| policy.essence(body).ok().map(Arc::new);
        let diff = Diff::between(essence(&expected), essence(&after));
        let is_metadata = |path: &FieldPath| {
            let first = path.steps().first();
            first.is_some_and(|step| &**step == "metadata")
        };
        let mut paths = diff.iter().map(|item| &item.field);
        let field = paths.find(|path| !is_metadata(path))?.clone();
        let managed = after.metadata().get("managedFields");
        let manager = managed.and_then(|managed| manager_of(managed, &field));
        Some(Self {
            version: after.resource_version()?.into(),
            manager: manager.map(str::to_owned),
            field,
            is_confirmed: false,
        })
    }
}

#[cfg(test)]
impl Stamp {
    /// Returns the stamp of the write that has created this version.
    pub(super) fn of(version: &str) -> Self {
        Self {
            version: version.into(),
            field: "spec.stamp".into(),
            manager: None,
            is_confirmed: false,
        }
    }
}

/// Own writes in a row that came with changes to be handled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stamps {
    backoff: Backoff,
    /// Boxed, because it is rare.
    last: Option<Box<Stamp>>,
}

impl Stamps {
    /// Notes the response to a write.
    pub(super) fn note(&mut self, stamp: Option<Stamp>) {
        if stamp.is_none() {
            self.backoff.reset();
        }
        self.last = stamp.map(Box::new);
    }

    /// Compares an arriving version with that of the last write. If another one arrives first,
    /// another client has made the change.
    pub(super) fn see(&mut self, version: &str, now: Moment) {
        match &mut self.last {
            Some(stamp) if stamp.is_confirmed => {}
            Some(stamp) if *stamp.version == *version => {
                stamp.is_confirmed = true;
                self.backoff.count(now);
            }
            Some(_) => *self = Self::default(),
            None => {}
        }
    }

    /// Returns the moment until which an update must wait, because each own write causes another
    /// one.
    pub(super) fn blocked_until(&self, rules: &impl Rules, now: Moment) -> Option<Moment> {
        let blocked = self.backoff.blocked_until(rules, now);
        blocked.filter(|_| !self.backoff.is_first())
    }

    /// Returns the change that came with the last write.
    pub(super) fn last(&self) -> Option<&Stamp> {
        self.last.as_deref()
    }
}
