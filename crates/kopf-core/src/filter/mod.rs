//! Which objects and which changes a handler is for, beyond their kind.
//!
//! Asked by the registry for each handler and each cause, so the cheap questions come first and
//! the users' functions last. A filter only looks; an error in a user's function is reported with
//! the handler's name and never taken for an answer.

mod callback;
mod criterion;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

pub use callback::{Combined, ValueFilter, WhenFilter};
pub use callback::{all_, any_, none_, not_, value_fn, when_fn};
pub use criterion::{MetaCriterion, ValueCriterion};

use crate::cause::{Cause, Change};
use crate::equality::equal;
use crate::field::{FieldPath, resolve_lenient};
use crate::handler::{Handler, HandlerId, HandlerKind, Param};
use crate::panicking::caught;
use crate::patch::BoxError;
use crate::secrets::{has_values, is_secret};

/// All filters of a handler; all of them have to match.
#[derive(Clone, Default)]
pub struct Filters {
    /// What labels have to be.
    pub labels: BTreeMap<String, MetaCriterion>,
    /// What annotations have to be.
    pub annotations: BTreeMap<String, MetaCriterion>,
    /// The field that has to be there, and whose changes are handled.
    pub field: Option<FieldPath>,
    /// What the field has to be, before or after the change.
    pub value: Option<ValueCriterion>,
    /// What the field has to be before the change.
    pub old: Option<ValueCriterion>,
    /// What the field has to be after the change.
    pub new: Option<ValueCriterion>,
    /// A function that has to accept the cause.
    pub when: Option<Arc<dyn WhenFilter>>,
}

impl Filters {
    /// Returns `true` if any filter is a function of the user.
    ///
    /// ```
    /// use kopf_core::filter::{Filters, when_fn};
    ///
    /// let mut filters = Filters::default();
    /// filters.labels.insert("app".to_owned(), "web".into());
    /// assert!(!filters.has_callbacks());
    /// filters.when = Some(when_fn(|_, _| Ok(true)));
    /// assert!(filters.has_callbacks());
    /// ```
    pub fn has_callbacks(&self) -> bool {
        let mut meta = self.labels.values().chain(self.annotations.values());
        let mut values = [&self.value, &self.old, &self.new].into_iter().flatten();
        self.when.is_some()
            || meta.any(|criterion| matches!(criterion, MetaCriterion::Callback(_)))
            || values.any(|criterion| matches!(criterion, ValueCriterion::Callback(_)))
    }
}

impl fmt::Debug for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filters")
            .field("labels", &self.labels)
            .field("annotations", &self.annotations)
            .field("field", &self.field.as_ref().map(ToString::to_string))
            .field("value", &self.value)
            .field("old", &self.old)
            .field("new", &self.new)
            .field("when", &self.when.as_ref().map(|_| "callback"))
            .finish()
    }
}

/// A user's function has failed to answer.
#[derive(Debug, thiserror::Error)]
#[error("the {filter} filter of the handler {handler:?} has failed")]
pub struct Error {
    /// The handler.
    pub handler: HandlerId,
    /// Which of its filters.
    pub filter: &'static str,
    /// What the function said.
    #[source]
    pub source: BoxError,
}

/// Whether the handler is for this cause in every respect but its reason.
pub fn matches<F>(handler: &Handler<F>, cause: &Cause, context: &dyn Any) -> Result<bool, Error> {
    let selected = handler
        .selector
        .as_ref()
        .is_none_or(|s| s.check(&cause.resource));
    Ok(selected && matches_object(handler, cause, context)?)
}

/// Whether the handler is for this object, whatever has changed on it.
///
/// Objects that no handler is for are left alone, and a finalizer is needed for those that a
/// handler of deletions is for.
pub fn prematches<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, Error> {
    let selected = handler
        .selector
        .as_ref()
        .is_none_or(|s| s.check(&cause.resource));
    Ok(selected && prematches_object(handler, cause, context)?)
}

/// The same as [`matches`] for an object of a kind that is known to be selected.
pub(crate) fn matches_object<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, Error> {
    Asked::new(handler, cause, context).all(true)
}

/// The same as [`prematches`] for an object of a kind that is known to be selected.
pub(crate) fn prematches_object<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, Error> {
    Asked::new(handler, cause, context).all(false)
}

/// A handler that is asked about a cause; free of the type of the function.
struct Asked<'a> {
    id: &'a HandlerId,
    kind: HandlerKind,
    filters: &'a Filters,
    /// Only for handlers of changes: others look at the object as it is.
    change: Option<&'a Change>,
    cause: &'a Cause,
    context: &'a dyn Any,
    param: Option<&'a Param>,
}

impl<'a> Asked<'a> {
    fn new<F>(handler: &'a Handler<F>, cause: &'a Cause, context: &'a dyn Any) -> Self {
        Self {
            id: &handler.id,
            kind: handler.kind,
            filters: &handler.filters,
            change: cause.change.as_ref().filter(|_| handler.kind.is_change()),
            cause,
            context,
            param: handler.param.as_ref(),
        }
    }

    fn all(&self, with_changes: bool) -> Result<bool, Error> {
        let Filters {
            labels,
            annotations,
            ..
        } = self.filters;
        Ok(
            self.metadata("labels", labels, || self.cause.body.labels())?
                && self.metadata("annotations", annotations, || self.cause.body.annotations())?
                && self.values()?
                && (!with_changes || self.changes()?)
                && self.when()?,
        )
    }

    fn metadata<'m>(
        &self,
        filter: &'static str,
        criteria: &BTreeMap<String, MetaCriterion>,
        present: impl Fn() -> &'m Map<String, Value>,
    ) -> Result<bool, Error> {
        for (key, criterion) in criteria {
            let fits = || criterion.fits(present().get(key), self.cause, self.context, self.param);
            if !self.ask(filter, fits)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The value of the field, before or after the change. The new one is asked about first.
    fn values(&self) -> Result<bool, Error> {
        let Some(field) = self.field() else {
            return Ok(true);
        };
        let criterion = self
            .filters
            .value
            .as_ref()
            .unwrap_or(&ValueCriterion::Present);
        let fits = |value: Option<&Value>| {
            self.ask("value", || {
                criterion.fits(value, self.cause, self.context, self.param)
            })
        };
        match self.change {
            Some(change) => {
                Ok(fits(self.current(change, field))? || fits(at(change.old.as_deref(), field))?)
            }
            None => fits(at(Some(self.cause.body.value()), field)),
        }
    }

    /// The change of the field.
    fn changes(&self) -> Result<bool, Error> {
        let (Some(field), Some(change)) = (self.field(), self.change) else {
            return Ok(true);
        };
        let old = at(change.old.as_deref(), field);
        let new = at(change.new.as_deref(), field);
        let is_same = match (old, new) {
            (Some(old), Some(new)) => equal(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if self.kind.needs_field_change() && is_same {
            return Ok(false);
        }
        let sides = [
            ("old", &self.filters.old, old),
            ("new", &self.filters.new, self.current(change, field)),
        ];
        for (filter, criterion, value) in sides {
            if let Some(criterion) = criterion {
                let fits = || criterion.fits(value, self.cause, self.context, self.param);
                if !self.ask(filter, fits)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns the value of the field after the change. Essences of Secrets can have digests instead of
    /// values, which filters cannot match.
    fn current(&self, change: &'a Change, field: &FieldPath) -> Option<&'a Value> {
        let tracked = at(change.new.as_deref(), field)?;
        let has_values = field.steps().first().is_some_and(|step| has_values(step));
        if has_values && is_secret(&self.cause.resource) {
            at(Some(self.cause.body.value()), field).or(Some(tracked))
        } else {
            Some(tracked)
        }
    }

    fn when(&self) -> Result<bool, Error> {
        match &self.filters.when {
            Some(when) => self.ask("when", || {
                when.matches_for(self.cause, self.context, self.param)
            }),
            None => Ok(true),
        }
    }

    fn field(&self) -> Option<&'a FieldPath> {
        self.filters.field.as_ref().filter(|field| !field.is_root())
    }

    /// Asks a criterion or a function; a function that panics has failed.
    fn ask(
        &self,
        filter: &'static str,
        fits: impl FnOnce() -> Result<bool, BoxError>,
    ) -> Result<bool, Error> {
        let answer = caught(fits).unwrap_or_else(|panicked| Err(panicked.into()));
        answer.map_err(|source| Error {
            handler: Arc::clone(self.id),
            filter,
            source,
        })
    }
}

/// What leads through something that is not an object is absent.
fn at<'v>(value: Option<&'v Value>, field: &FieldPath) -> Option<&'v Value> {
    resolve_lenient(value?, field)
}

#[cfg(test)]
mod tests;
