//! Filters that are functions of users, and their combinations.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use crate::cause::Cause;
use crate::patch::BoxError;

/// A value that the user attached to a handler.
pub type Param = Arc<dyn Any + Send + Sync>;

/// A function of the whole cause.
///
/// The context is agreed between the engine and the frontend. An error stops the cycle of the object;
/// it counts neither as a match nor as a mismatch.
pub trait WhenFilter: Send + Sync {
    /// Returns `true` if the handler matches this cause.
    fn matches(&self, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError>;

    /// Returns `true` if the handler with this `param` matches. Ignores the `param` by default.
    fn matches_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        _param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        self.matches(cause, context)
    }
}

/// A function of one value: of a label, of an annotation, of a field.
pub trait ValueFilter: Send + Sync {
    /// Returns `true` if the handler matches this value; absent ones are null.
    fn matches(&self, value: &Value, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError>;

    /// Returns `true` if the handler with this `param` matches. Ignores the `param` by default.
    fn matches_for(
        &self,
        value: &Value,
        cause: &Cause,
        context: &dyn Any,
        _param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        self.matches(value, cause, context)
    }
}

/// Creates a filter from a function.
///
/// ```
/// use kopf_core::filter::when_fn;
///
/// let ready = when_fn(|cause, _context| Ok(cause.body.spec()["ready"] == true));
/// ```
pub fn when_fn<F>(function: F) -> Arc<dyn WhenFilter>
where
    F: Fn(&Cause, &dyn Any) -> Result<bool, BoxError> + Send + Sync + 'static,
{
    Arc::new(Function(function))
}

/// Creates a value filter from a function.
///
/// ```
/// use kopf_core::filter::value_fn;
///
/// let long = value_fn(|value, _cause, _context| Ok(value.as_str().is_some_and(|s| s.len() > 9)));
/// ```
pub fn value_fn<F>(function: F) -> Arc<dyn ValueFilter>
where
    F: Fn(&Value, &Cause, &dyn Any) -> Result<bool, BoxError> + Send + Sync + 'static,
{
    Arc::new(Function(function))
}

struct Function<F>(F);

impl<F> WhenFilter for Function<F>
where
    F: Fn(&Cause, &dyn Any) -> Result<bool, BoxError> + Send + Sync,
{
    fn matches(&self, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
        (self.0)(cause, context)
    }
}

impl<F> ValueFilter for Function<F>
where
    F: Fn(&Value, &Cause, &dyn Any) -> Result<bool, BoxError> + Send + Sync,
{
    fn matches(&self, value: &Value, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
        (self.0)(value, cause, context)
    }
}

/// Several filters combined into one of the same type.
#[derive(Debug)]
pub struct Combined<F: ?Sized> {
    filters: Vec<Arc<F>>,
    /// The result of one part that decides, without evaluating the others.
    decisive: bool,
    /// The result in that case; otherwise, the opposite.
    answer: bool,
}

/// Negates a filter.
pub fn not_<F: ?Sized>(filter: Arc<F>) -> Arc<Combined<F>> {
    none_([filter])
}

/// Combines filters by "and"; `true` if there are none.
///
/// ```
/// use std::sync::Arc;
/// use kopf_core::filter::{WhenFilter, all_, not_, when_fn};
///
/// let named = when_fn(|cause, _| Ok(cause.body.name() == Some("x")));
/// let labelled = when_fn(|cause, _| Ok(cause.body.label("x").is_some()));
/// let both: Arc<dyn WhenFilter> = all_([named, not_(labelled)]);
/// ```
pub fn all_<F: ?Sized>(filters: impl IntoIterator<Item = Arc<F>>) -> Arc<Combined<F>> {
    combined(filters, false, false)
}

/// Combines filters by "or"; `false` if there are none.
pub fn any_<F: ?Sized>(filters: impl IntoIterator<Item = Arc<F>>) -> Arc<Combined<F>> {
    combined(filters, true, true)
}

/// Combines filters by "nor"; `true` if there are none.
pub fn none_<F: ?Sized>(filters: impl IntoIterator<Item = Arc<F>>) -> Arc<Combined<F>> {
    combined(filters, true, false)
}

fn combined<F: ?Sized>(
    filters: impl IntoIterator<Item = Arc<F>>,
    decisive: bool,
    answer: bool,
) -> Arc<Combined<F>> {
    Arc::new(Combined {
        filters: filters.into_iter().collect(),
        decisive,
        answer,
    })
}

impl<F: ?Sized> Combined<F> {
    fn ask(&self, ask: impl Fn(&F) -> Result<bool, BoxError>) -> Result<bool, BoxError> {
        for filter in &self.filters {
            if ask(filter)? == self.decisive {
                return Ok(self.answer);
            }
        }
        Ok(!self.answer)
    }
}

impl<F: WhenFilter + ?Sized> WhenFilter for Combined<F> {
    fn matches(&self, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
        self.ask(|filter| filter.matches(cause, context))
    }

    fn matches_for(
        &self,
        cause: &Cause,
        context: &dyn Any,
        param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        self.ask(|filter| filter.matches_for(cause, context, param))
    }
}

impl<F: ValueFilter + ?Sized> ValueFilter for Combined<F> {
    fn matches(&self, value: &Value, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
        self.ask(|filter| filter.matches(value, cause, context))
    }

    fn matches_for(
        &self,
        value: &Value,
        cause: &Cause,
        context: &dyn Any,
        param: Option<&Param>,
    ) -> Result<bool, BoxError> {
        self.ask(|filter| filter.matches_for(value, cause, context, param))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::body::Body;
    use crate::resource::Resource;

    fn cause() -> Cause {
        Cause {
            resource: Arc::new(Resource::default()),
            body: Body::new(json!({"spec": {"a": 1}})),
            event: None,
            change: None,
        }
    }

    fn always(answer: bool) -> Arc<dyn WhenFilter> {
        when_fn(move |_, _| Ok(answer))
    }

    fn asked(filter: &Arc<dyn WhenFilter>) -> bool {
        filter.matches(&cause(), &()).unwrap()
    }

    #[test]
    fn truth_table_of_combinations() {
        let cases: [(&[bool], bool, bool, bool); 5] = [
            // parts, all, any, none
            (&[], true, false, true),
            (&[true], true, true, false),
            (&[false], false, false, true),
            (&[true, false], false, true, false),
            (&[false, false], false, false, true),
        ];
        for (parts, all, any, none) in cases {
            let parts = || parts.iter().map(|&part| always(part));
            let filters: [Arc<dyn WhenFilter>; 3] = [all_(parts()), any_(parts()), none_(parts())];
            assert_eq!(filters.each_ref().map(asked), [all, any, none]);
        }
        let opposite: Arc<dyn WhenFilter> = not_(always(true));
        assert!(!asked(&opposite));
    }

    #[test]
    fn combinations_stop_at_the_first_decisive_result() {
        let failing = when_fn(|_, _| Err("not to be asked".into()));
        let any: Arc<dyn WhenFilter> = any_([always(true), Arc::clone(&failing)]);
        assert!(asked(&any));
        let all: Arc<dyn WhenFilter> = all_([always(true), failing]);
        assert!(all.matches(&cause(), &()).is_err());
    }

    #[test]
    fn values_and_contexts_reach_the_functions() {
        let filter: Arc<dyn ValueFilter> = not_(value_fn(|value, cause, context| {
            let limit = context
                .downcast_ref::<u64>()
                .ok_or("another context is expected")?;
            Ok(value.as_u64() > Some(*limit) && cause.body.spec()["a"] == 1)
        }));
        assert!(!filter.matches(&json!(5), &cause(), &3_u64).unwrap());
        assert!(filter.matches(&json!(2), &cause(), &3_u64).unwrap());
        assert!(filter.matches(&json!(2), &cause(), &()).is_err());
    }
}
