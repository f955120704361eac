//! Matching of handlers with causes.
//!
//! Filters are evaluated for each handler and each cause, so cheap checks come first and functions
//! of users last. An error in a function is reported with the handler's id and never counts as a
//! result.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::cause::{Cause, Change};
use crate::equality::equal;
use crate::field::{FieldPath, resolve_lenient};
use crate::filter::{Filters, MetaCriterion, ValueCriterion};
use crate::handler::{Handler, HandlerId, HandlerKind, Param};
use crate::panicking::caught;
use crate::patch::BoxError;
use crate::secrets::{has_values, is_secret};

/// The failure of a user's function.
#[derive(Debug, thiserror::Error)]
#[error("the {filter} filter of the handler {handler:?} has failed")]
pub struct FilterError {
    /// The handler.
    pub handler: HandlerId,
    /// The failed filter.
    pub filter: &'static str,
    /// The error of the function.
    #[source]
    pub source: BoxError,
}

/// Returns `true` if the handler matches this cause in all respects but its reason.
pub fn matches<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, FilterError> {
    Ok(selects(handler, cause) && matches_object(handler, cause, context)?)
}

/// Returns `true` if the handler matches this object, for any change.
///
/// Objects without matching handlers are ignored; those with matching deletion handlers need a
/// finalizer.
pub fn prematches<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, FilterError> {
    Ok(selects(handler, cause) && prematches_object(handler, cause, context)?)
}

/// Returns `true` if the handler is for the resource of this cause.
fn selects<F>(handler: &Handler<F>, cause: &Cause) -> bool {
    let selector = handler.selector.as_ref();
    selector.is_none_or(|selector| selector.check(&cause.resource))
}

/// Returns the result of [`matches`] for an object of a resource that is known to be selected.
pub(crate) fn matches_object<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, FilterError> {
    Matcher::new(handler, cause, context).all(true)
}

/// Returns the result of [`prematches`] for an object of a resource that is known to be selected.
pub(crate) fn prematches_object<F>(
    handler: &Handler<F>,
    cause: &Cause,
    context: &dyn Any,
) -> Result<bool, FilterError> {
    Matcher::new(handler, cause, context).all(false)
}

/// A handler and a cause, independent of the type of the function.
struct Matcher<'a> {
    id: &'a HandlerId,
    kind: HandlerKind,
    filters: &'a Filters,
    /// Only for change handlers: others match the current object.
    change: Option<&'a Change>,
    cause: &'a Cause,
    context: &'a dyn Any,
    param: Option<&'a Param>,
}

impl<'a> Matcher<'a> {
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

    fn all(&self, with_changes: bool) -> Result<bool, FilterError> {
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
    ) -> Result<bool, FilterError> {
        for (key, criterion) in criteria {
            let fits = || criterion.fits(present().get(key), self.cause, self.context, self.param);
            if !self.ask(filter, fits)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Matches the value of the field, before or after the change. The new one is checked first.
    fn values(&self) -> Result<bool, FilterError> {
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

    /// Matches the change of the field.
    fn changes(&self) -> Result<bool, FilterError> {
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

    fn when(&self) -> Result<bool, FilterError> {
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

    /// Evaluates a criterion or a function; a panic is a failure.
    fn ask(
        &self,
        filter: &'static str,
        fits: impl FnOnce() -> Result<bool, BoxError>,
    ) -> Result<bool, FilterError> {
        let answer = caught(fits).unwrap_or_else(|panicked| Err(panicked.into()));
        answer.map_err(|source| FilterError {
            handler: Arc::clone(self.id),
            filter,
            source,
        })
    }
}

/// Returns the value of a field. A field below a value that is not an object is absent.
fn at<'v>(value: Option<&'v Value>, field: &FieldPath) -> Option<&'v Value> {
    resolve_lenient(value?, field)
}

#[cfg(test)]
mod tests;
