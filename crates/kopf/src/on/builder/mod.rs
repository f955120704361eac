//! The builder of handlers.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kopf_core::filter::Filters;
use kopf_core::handler::{
    Conversion, ErrorsMode, HandlerKind, HandlerSpec, InitialDelay, Param, Retrying, Webhook,
};
use kopf_core::resource::Resource;
use kopf_core::selector::{self, Selector};
use kopf_engine::invocation::Handler;

use super::kinds::{Delete, ForObjects, ForUpdates, Index, Kind, Resume, Retried};
use crate::definitions::Definition;
use crate::extract::{Declared, Front, Rejection};
use crate::fields::IntoFieldPath;
use crate::filters::{IntoMetaCriterion, IntoValueCriterion, When};
use crate::handler::HandlerFunction;
use crate::indices::{IndexTypes, Listing};
use crate::seconds::IntoDuration;

/// A handler with its options, to be added to an operator.
///
/// The functions of [`on`](super) create it. Invalid options are reported when the operator is
/// built.
///
/// ```
/// use kopf::PRESENT;
/// use kopf::prelude::*;
///
/// async fn make(Spec(spec): Spec) -> kopf::Result<Value> {
///     Ok(spec["size"].clone())
/// }
///
/// let handler = on::create("kopfexamples", make)
///     .id("make-it")
///     .label("app", PRESENT)
///     .when(|Spec(spec): Spec| spec["ready"] == true)
///     .retries(5)
///     .backoff(30);
/// let operator = Operator::builder().handler(handler).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct HandlerBuilder<K> {
    pub(crate) inner: AnyHandler,
    kind: PhantomData<K>,
}

/// A handler of any kind, to be added to an operator.
///
/// ```
/// use kopf::on::AnyHandler;
/// use kopf::prelude::*;
///
/// # fn f() {}
/// let handlers: [AnyHandler; 2] =
///     [on::create("kopfexamples", f).into(), on::delete("kopfexamples", f).into()];
/// let operator = Operator::builder().handlers(handlers).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct AnyHandler {
    id: Option<String>,
    function: HandlerFunction,
    pub(crate) kind: HandlerKind,
    pub(crate) selector: Option<Result<Selector, selector::Error>>,
    pub(crate) owns: Vec<Result<Selector, selector::Error>>,
    filters: Filters,
    retrying: Retrying,
    pub(crate) initial_delay: Option<InitialDelay>,
    pub(crate) webhook: Webhook,
    pub(crate) conversion: Option<Conversion>,
    param: Option<Param>,
    registry: Option<String>,
    /// The function and the position of the attribute that declares the handler.
    pub(crate) attribute: Option<(TypeId, usize)>,
    pub(crate) problems: Vec<String>,
    /// Checks of the functions in options.
    checks: Vec<(String, Check)>,
    /// The CRD of its resource, if declared by a type.
    definition: Option<Definition>,
}

/// A check that all arguments of a function are available.
pub(crate) type Check = fn(&Declared<'_>) -> Result<(), Rejection>;

fn of_when<M, W: When<M>>(_: &W) -> Check {
    W::check
}

fn of_meta<M, C: IntoMetaCriterion<M>>(_: &C) -> Check {
    C::check
}

fn of_value<M, C: IntoValueCriterion<M>>(_: &C) -> Check {
    C::check
}

impl<K: Kind> HandlerBuilder<K> {
    pub(crate) fn declare(
        selector: Option<Result<Selector, selector::Error>>,
        function: HandlerFunction,
    ) -> Self {
        let inner = AnyHandler {
            id: None,
            function,
            kind: K::KIND,
            selector,
            owns: Vec::new(),
            filters: Filters::default(),
            retrying: Retrying::default(),
            initial_delay: None,
            webhook: Webhook::default(),
            conversion: None,
            param: None,
            registry: None,
            attribute: None,
            problems: Vec::new(),
            checks: Vec::new(),
            definition: None,
        };
        Self {
            inner,
            kind: PhantomData,
        }
    }

    pub(crate) fn defined_by(mut self, definition: Option<Definition>) -> Self {
        self.inner.definition = definition;
        self
    }

    /// Sets the id, under which progress and results are stored. Default: the name of the function.
    /// With a field, the field is appended.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f).id("make-it");
    /// ```
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.inner.id = Some(id.into());
        self
    }

    /// Sets a value for the function's [`Param`](crate::Param) argument, such as to distinguish
    /// handlers with the same function.
    ///
    /// ```
    /// use kopf::Param;
    /// use kopf::prelude::*;
    ///
    /// fn resize(Param(size): Param<u32>, logger: Logger) {
    ///     logger.info(format_args!("up to {size} GiB"));
    /// }
    ///
    /// let small = on::create("kopfexamples", resize).id("small").label("size", "s").param(10_u32);
    /// let large = on::create("kopfexamples", resize).id("large").label("size", "l").param(500_u32);
    /// # assert!(Operator::builder().handler(small).handler(large).build().is_ok());
    /// ```
    pub fn param<T: Send + Sync + 'static>(mut self, param: T) -> Self {
        self.inner.param = Some(Arc::new(param));
        self
    }

    /// Sets the registry, for handlers declared by attribute macros: see
    /// [`OperatorBuilder::registry`](crate::OperatorBuilder::registry).
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// #[kopf::on::create("kopfexamples", registry = "backup")]
    /// fn create_fn() {}
    ///
    /// let operator = Operator::builder().registry("backup").build()?;
    /// # assert!(format!("{operator:?}").contains("create_fn"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn registry(mut self, registry: impl Into<String>) -> Self {
        self.inner.registry = Some(registry.into());
        self
    }

    pub(crate) fn duration(
        &mut self,
        option: &str,
        duration: impl IntoDuration,
    ) -> Option<std::time::Duration> {
        match duration.into_duration() {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.inner.problems.push(format!("{option}: {error}"));
                None
            }
        }
    }
}

impl<K: ForObjects> HandlerBuilder<K> {
    /// Adds a criterion for a label: a string, [`PRESENT`](crate::PRESENT),
    /// [`ABSENT`](crate::ABSENT), or a function of its value.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f)
    ///     .label("app", "web")
    ///     .label("tier", kopf::PRESENT)
    ///     .label("size", |value: &Value| value != "small");
    /// ```
    pub fn label<M>(
        mut self,
        key: impl Into<String>,
        criterion: impl IntoMetaCriterion<M>,
    ) -> Self {
        let key = key.into();
        let check = of_meta(&criterion);
        self.inner.check(format!("label {key:?}"), check);
        let criterion = criterion.into_meta_criterion();
        self.inner.filters.labels.insert(key, criterion);
        self
    }

    /// Adds criteria for several labels.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f).labels([("app", "web"), ("tier", "front")]);
    /// ```
    pub fn labels<M, T: Into<String>, C: IntoMetaCriterion<M>>(
        self,
        criteria: impl IntoIterator<Item = (T, C)>,
    ) -> Self {
        criteria
            .into_iter()
            .fold(self, |this, (key, criterion)| this.label(key, criterion))
    }

    /// Adds a criterion for an annotation: a string, [`PRESENT`](crate::PRESENT),
    /// [`ABSENT`](crate::ABSENT), or a function of its value.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f)
    ///     .annotation("example.com/team", "blue")
    ///     .annotation("example.com/paused", kopf::ABSENT);
    /// ```
    pub fn annotation<M>(
        mut self,
        key: impl Into<String>,
        criterion: impl IntoMetaCriterion<M>,
    ) -> Self {
        let key = key.into();
        let check = of_meta(&criterion);
        self.inner.check(format!("annotation {key:?}"), check);
        let criterion = criterion.into_meta_criterion();
        self.inner.filters.annotations.insert(key, criterion);
        self
    }

    /// Adds criteria for several annotations.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f)
    ///     .annotations([("example.com/team", "blue"), ("example.com/tier", "front")]);
    /// ```
    pub fn annotations<M, T: Into<String>, C: IntoMetaCriterion<M>>(
        self,
        criteria: impl IntoIterator<Item = (T, C)>,
    ) -> Self {
        criteria.into_iter().fold(self, |this, (key, criterion)| {
            this.annotation(key, criterion)
        })
    }

    /// Sets a filter function, which is called after the other filters.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f)
    ///     .when(|Spec(spec): Spec| spec["ready"] == true);
    /// ```
    pub fn when<M>(mut self, filter: impl When<M>) -> Self {
        self.inner.check("when", of_when(&filter));
        self.inner.filters.when = Some(filter.into_when());
        self
    }

    /// Sets the field that must exist, or whose changes are handled. Old, new and diff are those of
    /// the field.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::update("kopfexamples", f).field("spec.size");
    /// ```
    pub fn field(mut self, field: impl IntoFieldPath) -> Self {
        self.inner.filters.field = Some(field.into_field_path());
        self
    }

    /// Sets a criterion for the value of the field, before or after the change.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::update("kopfexamples", f)
    ///     .field("spec.size")
    ///     .value(|value: &Value| value.as_u64() > Some(10));
    /// ```
    pub fn value<M>(mut self, criterion: impl IntoValueCriterion<M>) -> Self {
        self.inner.check("value", of_value(&criterion));
        self.inner.filters.value = Some(criterion.into_value_criterion());
        self
    }
}

impl<K: Retried> HandlerBuilder<K> {
    /// Sets the treatment of errors other than [`temporary`](crate::temporary) and
    /// [`permanent`](crate::permanent) ones. Default: they are retried.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f).errors(kopf::ErrorsMode::Permanent);
    /// ```
    pub fn errors(mut self, errors: ErrorsMode) -> Self {
        self.inner.retrying.errors = Some(errors);
        self
    }

    /// Sets the time limit for all attempts together, in seconds or as a `Duration`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f).timeout(3600);
    /// ```
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.inner.retrying.timeout = self.duration("timeout", timeout);
        self
    }

    /// Sets the maximum number of attempts.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f).retries(5);
    /// ```
    pub fn retries(mut self, retries: u32) -> Self {
        self.inner.retrying.retries = Some(retries);
        self
    }

    /// Sets the delay after an error without its own delay, in seconds or as a `Duration`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::create("kopfexamples", f)
    ///     .backoff(std::time::Duration::from_millis(500));
    /// ```
    pub fn backoff(mut self, backoff: impl IntoDuration) -> Self {
        self.inner.retrying.backoff = self.duration("backoff", backoff);
        self
    }
}

impl<K: ForUpdates> HandlerBuilder<K> {
    /// Sets a criterion for the old value of the field.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::update("kopfexamples", f).field("spec.size").old(kopf::ABSENT);
    /// ```
    pub fn old<M>(mut self, criterion: impl IntoValueCriterion<M>) -> Self {
        self.inner.check("old", of_value(&criterion));
        self.inner.filters.old = Some(criterion.into_value_criterion());
        self
    }

    /// Sets a criterion for the new value of the field.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::update("kopfexamples", f).field("spec.phase").new("done");
    /// ```
    pub fn new<M>(mut self, criterion: impl IntoValueCriterion<M>) -> Self {
        self.inner.check("new", of_value(&criterion));
        self.inner.filters.new = Some(criterion.into_value_criterion());
        self
    }
}

impl HandlerBuilder<Delete> {
    /// Permits the deletion of objects without a call of this handler: it requires no finalizer.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::delete("kopfexamples", f).optional(true);
    /// ```
    pub fn optional(mut self, optional: bool) -> Self {
        self.inner.kind = HandlerKind::Delete { optional };
        self
    }
}

impl HandlerBuilder<Resume> {
    /// Sets whether the handler is also called for objects that are being deleted.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # fn f() {}
    /// let handler = on::resume("kopfexamples", f).deleted(true);
    /// ```
    pub fn deleted(mut self, deleted: bool) -> Self {
        self.inner.kind = HandlerKind::Resume { deleted };
        self
    }
}

impl<K> From<HandlerBuilder<K>> for AnyHandler {
    fn from(builder: HandlerBuilder<K>) -> Self {
        builder.inner
    }
}

impl<K> fmt::Debug for HandlerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for AnyHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyHandler")
            .field("id", &self.name())
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// The function that fills the index of a kind.
impl From<Listing> for AnyHandler {
    fn from(listing: Listing) -> Self {
        let function = HandlerFunction {
            name: None,
            id: listing.function,
            arguments: Vec::new(),
            run: listing.run,
            index_types: Some(listing.types),
        };
        let selector = Some(listing.select.build());
        let builder = HandlerBuilder::<Index>::declare(selector, function);
        builder.id(listing.id).into()
    }
}

impl AnyHandler {
    /// Returns the registry.
    pub(crate) fn group(&self) -> Option<&str> {
        self.registry.as_deref()
    }

    /// Returns `true` for handlers of admission and conversion.
    pub(crate) fn is_webhook(&self) -> bool {
        matches!(self.kind, HandlerKind::Admission(_) | HandlerKind::Convert)
    }

    /// Returns the name for messages.
    pub(crate) fn name(&self) -> &str {
        self.id
            .as_deref()
            .or(self.function.name)
            .unwrap_or("<closure>")
    }

    /// Returns the CRD of its resource, if declared by a type.
    pub(crate) fn definition(&self) -> Option<Definition> {
        self.definition
    }

    /// Returns the name and the types of its index, for index functions.
    pub(crate) fn index_types(&self) -> Option<(&str, IndexTypes)> {
        Some((self.name(), self.function.index_types?))
    }

    /// Returns the arguments that list the objects of a kind, with their names.
    pub(crate) fn listings(&self) -> impl Iterator<Item = (&'static str, Listing)> {
        self.function.listings()
    }

    /// Returns `true` if the operator has a stream of this resource because of this handler.
    pub(crate) fn watches(&self, resource: &Resource) -> bool {
        let selectors = self.selector.iter().chain(&self.owns);
        let mut selectors = selectors.filter_map(|selector| selector.as_ref().ok());
        self.kind.is_watching() && selectors.any(|selector| selector.check(resource))
    }

    /// Adds a check of the function in an option.
    pub(crate) fn check(&mut self, option: impl Into<String>, check: Check) {
        self.checks.push((option.into(), check));
    }

    /// Checks the options and creates a handler of the engine.
    pub(crate) fn build(&self, front: &Front) -> Result<Handler, String> {
        if let Some(problem) = self.problems.first() {
            return Err(problem.clone());
        }
        let id = self.id.as_deref().or(self.function.name).ok_or(
            "a closure has no name to use as the id of the handler: set one with .id(\"…\")",
        )?;
        let declared = Declared {
            kind: self.kind,
            param: self.param.as_ref(),
            front,
        };
        self.function.check(&declared)?;
        for (option, check) in &self.checks {
            check(&declared).map_err(|rejection| format!("{option}: {rejection}"))?;
        }
        self.assemble(id)
    }

    /// Creates a sub-handler, which is declared while the operator is running.
    pub(super) fn build_sub(&self) -> Result<Handler, String> {
        if let Some(problem) = self.problems.first() {
            return Err(problem.clone());
        }
        self.assemble(self.name())
    }

    fn assemble(&self, id: &str) -> Result<Handler, String> {
        let selector = self.selector.clone().transpose();
        let mut spec = HandlerSpec::new(id, self.function.id, self.kind);
        spec.selector = selector.map_err(|error| error.to_string())?;
        let owns: Result<Vec<_>, _> = self.owns.iter().cloned().collect();
        spec.owns = owns.map_err(|error| error.to_string())?;
        spec.filters = self.filters.clone();
        spec.retrying = self.retrying;
        spec.initial_delay.clone_from(&self.initial_delay);
        spec.webhook.clone_from(&self.webhook);
        spec.conversion.clone_from(&self.conversion);
        spec.param.clone_from(&self.param);
        spec.build(Arc::clone(&self.function.run))
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
