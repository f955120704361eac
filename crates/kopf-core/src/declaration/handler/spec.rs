//! Declarations of handlers by frontends, their validation, and the handlers built from them.

use std::fmt;

use super::{
    Conversion, FunctionId, Handler, HandlerId, HandlerKind, InitialDelay, Param, Retrying, Webhook,
};
use crate::filter::Filters;
use crate::selector::Selector;

/// The declaration of a handler.
#[derive(Clone)]
pub struct HandlerSpec {
    /// The id; in sub-handlers, with the prefix of the parent (see [`sub_id`](super::sub_id)).
    /// [`build`](Self::build) appends the field.
    pub id: HandlerId,
    /// The identity of the function.
    pub function: FunctionId,
    /// The type, by the causes that it reacts to.
    pub kind: HandlerKind,
    /// The resources of its objects; `None` for sub-handlers, which are for the object of the
    /// parent.
    pub selector: Option<Selector>,
    /// The resources of owned objects. Their changes wake change handlers that wait for another
    /// attempt; handlers of children are called with them.
    pub owns: Vec<Selector>,
    /// The filters by objects and changes.
    pub filters: Filters,
    /// Its limits.
    pub retrying: Retrying,
    /// The delay before the first call; for daemons and timers.
    pub initial_delay: Option<InitialDelay>,
    /// The requests that it reviews; for admission.
    pub webhook: Webhook,
    /// The versions that it converts between; for conversions.
    pub conversion: Option<Conversion>,
    /// The value that the user attaches to it.
    pub param: Option<Param>,
}

/// The error of an invalid declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id is empty.
    #[error("a handler has an empty id")]
    EmptyId,
    /// The selector is missing.
    #[error("handler {id:?}: the kind of objects is not specified")]
    SelectorMissing {
        /// The handler.
        id: String,
    },
    /// A field handler has no field.
    #[error("handler {id:?}: the field is not specified")]
    FieldMissing {
        /// The handler.
        id: String,
    },
    /// Filters by the value of a field, without a field.
    #[error("handler {id:?}: value/old/new filters are specified without a mandatory field")]
    FiltersWithoutField {
        /// The handler.
        id: String,
    },
    /// `value` cannot be combined with `old` or `new`, which it already covers.
    #[error("handler {id:?}: either value= or old=/new= can be defined, not both")]
    ValueWithOldNew {
        /// The handler.
        id: String,
    },
    /// The list of operations is empty.
    #[error("handler {id:?}: operations must not be empty; leave them out for all of them")]
    NoOperations {
        /// The handler.
        id: String,
    },
    /// A handler of children has no resources of children.
    #[error("handler {id:?}: the kind of children is not specified")]
    ChildrenMissing {
        /// The handler.
        id: String,
    },
    /// A conversion handler has no two versions.
    #[error(
        "handler {id:?}: source and target must be two different versions, such as v1beta1 and v1"
    )]
    Versions {
        /// The handler.
        id: String,
    },
    /// Only change handlers can be woken by owned objects.
    #[error("handler {id:?}: owns= can only be used in handlers of changes")]
    OwnsWithoutRetries {
        /// The handler.
        id: String,
    },
    /// Reconcile handlers look at the whole object.
    #[error(
        "handler {id:?}: reconcile handlers have no field= and no filters by its value: they are called for \
         every change; compare the field in the function, or select objects with when="
    )]
    FieldOfReconciliation {
        /// The handler.
        id: String,
    },
    /// The period of a reconcile handler is zero.
    #[error(
        "handler {id:?}: every= must be greater than 0; leave it out to be called for changes only"
    )]
    NoPeriod {
        /// The handler.
        id: String,
    },
    /// Only change handlers have `old` and `new`.
    #[error("handler {id:?}: filters old=/new= can only be used in update and field handlers")]
    OldNewWithoutChange {
        /// The handler.
        id: String,
    },
}

impl HandlerSpec {
    /// Creates a declaration with the mandatory parts.
    pub fn new(id: impl Into<HandlerId>, function: FunctionId, kind: HandlerKind) -> Self {
        Self {
            id: id.into(),
            function,
            kind,
            selector: None,
            owns: Vec::new(),
            filters: Filters::default(),
            retrying: Retrying::default(),
            initial_delay: None,
            webhook: Webhook::default(),
            conversion: None,
            param: None,
        }
    }

    /// Validates the declaration and adds the function.
    pub fn build<F>(mut self, run: F) -> Result<Handler<F>, Error> {
        let is_sub = matches!(self.kind, HandlerKind::Sub { .. });
        let (id, filters) = (self.id.to_string(), &self.filters);
        if id.is_empty() {
            return Err(Error::EmptyId);
        }
        let is_child = self.kind == HandlerKind::Child;
        if is_child && self.owns.is_empty() {
            return Err(Error::ChildrenMissing { id });
        }
        if !is_child && !self.kind.is_change() && !self.owns.is_empty() {
            return Err(Error::OwnsWithoutRetries { id });
        }
        if self.kind == HandlerKind::Convert && !is_conversion(self.conversion.as_ref()) {
            return Err(Error::Versions { id });
        }
        // The parents of children are all objects of the operator by default.
        let needs_selector = self.kind.is_for_objects() && !is_sub && !is_child;
        if self.selector.is_none() && needs_selector {
            return Err(Error::SelectorMissing { id });
        }

        self.check_reconciliation()?;
        let field = filters.field.as_ref().filter(|field| !field.is_root());
        if field.is_none() && self.kind == HandlerKind::Field {
            return Err(Error::FieldMissing { id });
        }
        let has_old_new = filters.old.is_some() || filters.new.is_some();
        if field.is_none() && (filters.value.is_some() || has_old_new) {
            return Err(Error::FiltersWithoutField { id });
        }
        if filters.value.is_some() && has_old_new {
            return Err(Error::ValueWithOldNew { id });
        }
        if has_old_new && !self.kind.needs_field_change() {
            return Err(Error::OldNewWithoutChange { id });
        }

        let operations = self.webhook.operations.as_ref();
        if operations.is_some_and(Vec::is_empty) {
            return Err(Error::NoOperations { id });
        }

        // Users refer to an index by its id.
        if let Some(field) = field
            && !is_sub
            && self.kind != HandlerKind::Index
        {
            self.id = format!("{id}/{field}").into();
        }
        Ok(Handler { spec: self, run })
    }

    fn check_reconciliation(&self) -> Result<(), Error> {
        let Some(reconciliation) = self.kind.reconciliation() else {
            return Ok(());
        };
        let id = self.id.to_string();
        if self.filters.has_field() {
            return Err(Error::FieldOfReconciliation { id });
        }
        if reconciliation.every.is_some_and(|every| every.is_zero()) {
            return Err(Error::NoPeriod { id });
        }
        Ok(())
    }
}

fn is_conversion(conversion: Option<&Conversion>) -> bool {
    conversion.is_some_and(|Conversion { source, target }| {
        let is_version = |text: &str| !text.is_empty() && !text.contains('/');
        source != target && is_version(source) && is_version(target)
    })
}

impl fmt::Debug for HandlerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerSpec")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("selector", &self.selector)
            .field("filters", &self.filters)
            .field("retrying", &self.retrying)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::KINDS;
    use super::super::{Activity, Reconciliation};
    use super::*;
    use crate::field::FieldPath;
    use crate::filter::ValueCriterion;

    fn spec(kind: HandlerKind, field: Option<&str>) -> HandlerSpec {
        let mut spec = HandlerSpec::new("fn", FunctionId::Number(1), kind);
        spec.selector = Some(Selector::everything());
        spec.filters.field = field.map(FieldPath::parse);
        if kind == HandlerKind::Child {
            spec.owns = vec![Selector::everything()];
        }
        if kind == HandlerKind::Convert {
            spec.conversion = Some(versions("v1", "v2"));
        }
        spec
    }

    /// Returns the kinds that can have a field.
    fn fielded() -> impl Iterator<Item = HandlerKind> {
        let kinds = KINDS.into_iter();
        kinds.filter(|kind| kind.reconciliation().is_none())
    }

    #[test]
    fn reconcile_handlers_have_a_period_and_no_field() {
        let kind = |every: Option<u64>| {
            HandlerKind::Reconcile(Reconciliation {
                every: every.map(Duration::from_secs),
                finalizer: false,
            })
        };
        assert!(spec(kind(None), None).build(()).is_ok());
        assert!(spec(kind(Some(5)), Some("")).build(()).is_ok());
        assert_eq!(
            error(spec(kind(Some(0)), None)),
            Error::NoPeriod { id: id() }
        );
        let fielded = error(spec(kind(None), Some("spec")));
        assert_eq!(fielded, Error::FieldOfReconciliation { id: id() });
        for side in 0..3 {
            let mut spec = spec(kind(None), None);
            let present = Some(ValueCriterion::Present);
            match side {
                0 => spec.filters.value = present,
                1 => spec.filters.old = present,
                _ => spec.filters.new = present,
            }
            assert_eq!(error(spec), Error::FieldOfReconciliation { id: id() });
        }
    }

    fn versions(source: &str, target: &str) -> Conversion {
        Conversion {
            source: source.to_owned(),
            target: target.to_owned(),
        }
    }

    #[test]
    fn conversions_are_between_two_versions() {
        let mut convert = spec(HandlerKind::Convert, None);
        assert!(convert.clone().build(()).is_ok());
        for (source, target) in [("v1", "v1"), ("", "v1"), ("v1", ""), ("g/v1", "v2")] {
            convert.conversion = Some(versions(source, target));
            assert_eq!(error(convert.clone()), Error::Versions { id: id() });
        }
        convert.conversion = None;
        assert_eq!(error(convert), Error::Versions { id: id() });
    }

    #[test]
    fn owned_objects_are_for_handlers_of_changes_and_of_children() {
        let mut child = spec(HandlerKind::Child, None);
        child.selector = None;
        assert!(child.clone().build(()).is_ok());
        child.owns.clear();
        assert_eq!(error(child), Error::ChildrenMissing { id: id() });
        for kind in KINDS {
            let field = kind.reconciliation().is_none().then_some("spec");
            let mut spec = spec(kind, field);
            spec.owns = vec![Selector::everything()];
            let is_accepted = kind.is_change() || kind == HandlerKind::Child;
            match spec.build(()) {
                Ok(_) => assert!(is_accepted, "{kind:?}"),
                Err(error) => {
                    assert!(!is_accepted, "{kind:?}");
                    assert_eq!(error, Error::OwnsWithoutRetries { id: id() });
                }
            }
        }
    }

    #[test]
    fn field_is_appended_to_the_id_except_in_sub_handlers_and_indices() {
        for kind in fielded() {
            let handler = spec(kind, Some("spec.field")).build(()).unwrap();
            let is_bare = matches!(kind, HandlerKind::Sub { .. } | HandlerKind::Index);
            let expected = if is_bare { "fn" } else { "fn/spec.field" };
            assert_eq!(&*handler.id, expected, "{kind:?}");
        }
        assert_eq!(
            &*spec(HandlerKind::Create, None).build(()).unwrap().id,
            "fn"
        );
        assert_eq!(
            &*spec(HandlerKind::Create, Some("")).build(()).unwrap().id,
            "fn"
        );
    }

    fn error(spec: HandlerSpec) -> Error {
        spec.build(()).unwrap_err()
    }

    fn id() -> String {
        "fn".to_owned()
    }

    #[test]
    fn filters_of_values_need_a_field() {
        for side in 0..3 {
            let mut spec = spec(HandlerKind::Update, None);
            let present = Some(ValueCriterion::Present);
            match side {
                0 => spec.filters.value = present,
                1 => spec.filters.old = present,
                _ => spec.filters.new = present,
            }
            assert_eq!(error(spec), Error::FiltersWithoutField { id: id() });
        }
    }

    #[test]
    fn value_excludes_old_and_new() {
        let mut spec = spec(HandlerKind::Update, Some("spec"));
        spec.filters.value = Some(ValueCriterion::Present);
        spec.filters.new = Some(ValueCriterion::Absent);
        assert_eq!(error(spec), Error::ValueWithOldNew { id: id() });
    }

    #[test]
    fn old_and_new_are_for_changes_only() {
        for kind in fielded() {
            let mut spec = spec(kind, Some("spec"));
            spec.filters.old = Some(ValueCriterion::Present);
            match spec.build(()) {
                Ok(_) => assert!(kind.needs_field_change(), "{kind:?}"),
                Err(error) => {
                    assert!(!kind.needs_field_change(), "{kind:?}");
                    assert_eq!(error, Error::OldNewWithoutChange { id: id() });
                }
            }
        }
    }

    #[test]
    fn missing_mandatory_parts_are_rejected() {
        assert_eq!(
            error(spec(HandlerKind::Field, None)),
            Error::FieldMissing { id: id() }
        );
        let mut unselective = spec(HandlerKind::Create, None);
        unselective.selector = None;
        assert_eq!(
            error(unselective.clone()),
            Error::SelectorMissing { id: id() }
        );
        unselective.kind = HandlerKind::Sub {
            needs_change: false,
        };
        assert!(unselective.clone().build(()).is_ok());
        unselective.kind = HandlerKind::Activity(Activity::Startup);
        assert!(unselective.build(()).is_ok());
        let mut nameless = spec(HandlerKind::Create, None);
        nameless.id = "".into();
        assert_eq!(error(nameless), Error::EmptyId);
    }

    #[test]
    fn webhooks_are_for_all_operations_or_for_some() {
        use crate::admission::{Operation, WebhookType};
        let kind = HandlerKind::Admission(WebhookType::Validating);
        let mut webhook = spec(kind, None);
        assert!(webhook.clone().build(()).is_ok());
        webhook.webhook.operations = Some(vec![Operation::Create]);
        assert!(webhook.clone().build(()).is_ok());
        webhook.webhook.operations = Some(Vec::new());
        assert_eq!(error(webhook.clone()), Error::NoOperations { id: id() });
        webhook.webhook.operations = None;
        webhook.selector = None;
        assert_eq!(error(webhook), Error::SelectorMissing { id: id() });
    }

    #[test]
    fn errors_name_the_handler() {
        let text = error(spec(HandlerKind::Field, None)).to_string();
        assert_eq!(text, "handler \"fn\": the field is not specified");
    }
}
