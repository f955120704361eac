//! Filters of handlers by objects and changes, beyond the resource.
//!
//! [`matching`](crate::matching) evaluates them.

mod callback;
mod criterion;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use callback::{Combined, Param, ValueFilter, WhenFilter};
pub use callback::{all_, any_, none_, not_, value_fn, when_fn};
pub use criterion::{MetaCriterion, ValueCriterion};

use crate::field::FieldPath;

/// All filters of a handler; all of them must match.
#[derive(Clone, Default)]
pub struct Filters {
    /// Criteria for labels.
    pub labels: BTreeMap<String, MetaCriterion>,
    /// Criteria for annotations.
    pub annotations: BTreeMap<String, MetaCriterion>,
    /// The field that must be present, and whose changes are handled.
    pub field: Option<FieldPath>,
    /// The criterion for the field, before or after the change.
    pub value: Option<ValueCriterion>,
    /// The criterion for the field before the change.
    pub old: Option<ValueCriterion>,
    /// The criterion for the field after the change.
    pub new: Option<ValueCriterion>,
    /// A function that must accept the cause.
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

    /// Returns `true` if any filter is by a field or its value.
    pub(crate) fn has_field(&self) -> bool {
        let mut values = [&self.value, &self.old, &self.new].into_iter();
        let field = self.field.as_ref();
        field.is_some_and(|field| !field.is_root()) || values.any(Option::is_some)
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
