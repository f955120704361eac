//! Descriptions of handlers by `kopf._front.bridge.descriptions`.
//!
//! Every struct has the fields of the dataclass with the same name, and every enum has a variant
//! for each dataclass of the union.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::front::reading::{Seconds, extract, field};

/// Declares structs that are extracted from the dataclasses with their names.
///
/// Errors name the field. Fields with `@` are descriptions themselves: the fields inside of them are
/// named alone, as users know them from the decorators.
macro_rules! described {
    ($(
        $(#[$about:meta])*
        struct $name:ident {
            $(@$part:ident: $whole:ty,)*
            $($(#[$note:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$about])*
        pub(crate) struct $name {
            $(pub(crate) $part: $whole,)*
            $($(#[$note])* pub(crate) $field: $type,)*
        }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            #[allow(unused_variables, reason = "some dataclasses have no fields")]
            fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let py = given.py();
                Ok(Self {
                    $($part: extract(&given.getattr(intern!(py, stringify!($part)))?)?,)*
                    $($field: field(&given, intern!(py, stringify!($field)))?,)*
                })
            }
        }
    )*

        /// Names of the structs with their fields.
        #[cfg(test)]
        pub(crate) const STRUCTS: &[(&str, &[&str])] =
            &[$((stringify!($name), &[$(stringify!($part),)* $(stringify!($field),)*])),*];
    };
}

/// Declares an enum that is extracted from one of several dataclasses, by the name of its class.
macro_rules! united {
    ($(#[$about:meta])* enum $name:ident { $($variant:ident($type:ident),)* }) => {
        $(#[$about])*
        pub(crate) enum $name { $($variant($type),)* }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                let class = given.get_type().name()?;
                match class.to_str()? {
                    $(stringify!($type) => given.extract().map(Self::$variant),)*
                    other => Err(PyTypeError::new_err(format!(
                        "unexpected {other}: must be one of {}", Self::CLASSES.join(", ")
                    ))),
                }
            }
        }

        impl $name {
            /// Names of the dataclasses.
            pub(crate) const CLASSES: &[&str] = &[$(stringify!($type)),*];
        }
    };
}

described! {
    /// A handler.
    struct HandlerDescription {
        @kind: Kind,
        handler: Py<PyAny>,
        id: String,
        /// The same number for the same function.
        function: u64,
        is_async: bool,
        /// The name of the mode; `None` for the default of the kind.
        errors: Option<String>,
        timeout: Option<Seconds>,
        retries: Option<u32>,
        backoff: Option<Seconds>,
    }

    /// A selector of resources.
    struct SelectorDescription {
        group: Option<String>,
        version: Option<String>,
        kind: Option<String>,
        plural: Option<String>,
        singular: Option<String>,
        shortcut: Option<String>,
        category: Option<String>,
        any_name: Option<String>,
        everything: bool,
        callable: Option<Py<PyAny>>,
    }

    /// A value that must exist.
    struct Present {}

    /// A value that must not exist.
    struct Absent {}

    /// A value for which the function must return a true value.
    struct Callback {
        function: Py<PyAny>,
    }

    /// A value that must be equal.
    struct Literal {
        value: Py<PyAny>,
    }

    /// The objects of a handler. Sub-handlers have no selector.
    struct TargetDescription {
        @selector: Option<SelectorDescription>,
        labels: Vec<(String, Criterion)>,
        annotations: Vec<(String, Criterion)>,
        field: Option<Vec<String>>,
        value: Option<Criterion>,
        when: Option<Py<PyAny>>,
    }

    /// The properties that all change handlers have.
    struct ChangeDescription {
        @target: TargetDescription,
        @owns: Vec<SelectorDescription>,
        old: Option<Criterion>,
        new: Option<Criterion>,
    }

    /// A handler of an activity.
    struct ActivityKind {
        activity: String,
    }

    /// An event handler.
    struct EventKind {
        @target: TargetDescription,
    }

    /// An index handler.
    struct IndexKind {
        @target: TargetDescription,
    }

    /// A child handler.
    struct ChildKind {
        @target: TargetDescription,
        @owns: Vec<SelectorDescription>,
    }

    /// A handler of creations.
    struct CreateKind {
        @change: ChangeDescription,
    }

    /// A handler of updates.
    struct UpdateKind {
        @change: ChangeDescription,
    }

    /// A handler of deletions.
    struct DeleteKind {
        @change: ChangeDescription,
        optional: bool,
    }

    /// A handler of objects that exist when the operator starts.
    struct ResumeKind {
        @change: ChangeDescription,
        deleted: bool,
    }

    /// A handler of a field.
    struct FieldKind {
        @change: ChangeDescription,
    }

    /// A sub-handler.
    struct SubKind {
        @change: ChangeDescription,
        needs_change: bool,
    }

    /// A daemon.
    struct DaemonKind {
        @target: TargetDescription,
        /// A duration or a function.
        initial_delay: Option<Py<PyAny>>,
        cancellation_backoff: Option<Seconds>,
        cancellation_timeout: Option<Seconds>,
        cancellation_polling: Option<Seconds>,
    }

    /// A timer.
    struct TimerKind {
        @target: TargetDescription,
        /// A duration or a function.
        initial_delay: Option<Py<PyAny>>,
        interval: Option<Seconds>,
        sharp: bool,
        idle: Option<Seconds>,
    }

    /// A reconcile handler.
    struct ReconcileKind {
        @target: TargetDescription,
        @owns: Vec<SelectorDescription>,
        every: Option<Seconds>,
        finalizer: bool,
    }

    /// A conversion handler.
    struct ConvertKind {
        @target: TargetDescription,
        source: String,
        destination: String,
        persistent: bool,
    }

    /// An admission handler.
    struct WebhookKind {
        @target: TargetDescription,
        /// `validating` or `mutating`.
        review: String,
        operations: Option<Vec<String>>,
        subresource: Option<String>,
        persistent: bool,
        side_effects: bool,
        ignore_failures: bool,
    }
}

united! {
    /// A filter of a value.
    enum Criterion {
        Present(Present),
        Absent(Absent),
        Callback(Callback),
        Literal(Literal),
    }
}

united! {
    /// The kind of a handler, with the properties that only this kind has.
    enum Kind {
        Activity(ActivityKind),
        Event(EventKind),
        Index(IndexKind),
        Child(ChildKind),
        Create(CreateKind),
        Update(UpdateKind),
        Delete(DeleteKind),
        Resume(ResumeKind),
        Field(FieldKind),
        Sub(SubKind),
        Daemon(DaemonKind),
        Timer(TimerKind),
        Reconcile(ReconcileKind),
        Convert(ConvertKind),
        Webhook(WebhookKind),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::CString;

    use super::*;
    use crate::interpreter::{attached, evaluate};

    const SOURCE: &str = include_str!("../../../../python/kopf/_front/bridge/descriptions.py");

    /// Returns the module of the dataclasses, without the rest of the package.
    fn dataclasses(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
        PyModule::from_code(
            py,
            &CString::new(SOURCE)?,
            c"descriptions.py",
            c"descriptions",
        )
    }

    fn names(structs: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |fields: &[&str]| fields.iter().map(|&field| field.to_owned()).collect();
        let structs = structs.iter();
        structs
            .map(|(name, fields)| ((*name).to_owned(), owned(fields)))
            .collect()
    }

    #[test]
    fn fields_are_those_of_the_dataclasses() {
        let declared = attached(|py| {
            let module = dataclasses(py)?;
            let fields_of = py.import("dataclasses")?.getattr("fields")?;
            let mut declared = BTreeMap::new();
            for (name, class) in module.dict().iter() {
                if class.getattr_opt("__dataclass_fields__")?.is_none() {
                    continue;
                }
                let mut fields: Vec<String> = Vec::new();
                for field in fields_of.call1((class,))?.try_iter()? {
                    fields.push(field?.getattr("name")?.extract()?);
                }
                declared.insert(name.extract::<String>()?, fields);
            }
            Ok(declared)
        });
        assert_eq!(names(STRUCTS), declared);
    }

    #[test]
    fn variants_are_those_of_the_unions() {
        for (union, classes) in [("Kind", Kind::CLASSES), ("Criterion", Criterion::CLASSES)] {
            let members: Vec<String> = attached(|py| {
                let members = dataclasses(py)?.getattr(union)?.getattr("__args__")?;
                let names = members.try_iter()?.map(|member| {
                    let name = member?.getattr("__name__")?;
                    name.extract::<String>()
                });
                names.collect()
            });
            assert_eq!(members, classes, "{union}");
        }
    }

    const TARGET: &str = "TargetDescription(None, [('a', Absent()), ('b', Literal('c'))], [], \
                          ['spec', 'x'], Callback(print), None)";

    /// Extracts the description of a handler with this kind and limit of retries.
    fn extracted(kind: &str, retries: &str) -> Result<HandlerDescription, String> {
        attached(|py| {
            let given = format!(
                "HandlerDescription({kind}, object(), 'fn', 7, True, None, 1.5, {retries}, None)"
            );
            let given = evaluate(py, SOURCE, &given)?;
            Ok(given.extract().map_err(|error: PyErr| error.to_string()))
        })
    }

    #[test]
    fn a_handler_is_read_with_its_kind() {
        let given = extracted(&format!("TimerKind({TARGET}, 3, 60, True, None)"), "None");
        let given = given.unwrap();
        assert_eq!(
            (&*given.id, given.function, given.is_async),
            ("fn", 7, true)
        );
        assert_eq!(given.timeout.unwrap().0.as_millis(), 1500);
        assert!(given.retries.is_none() && given.backoff.is_none());
        let Kind::Timer(kind) = given.kind else {
            panic!("not a timer")
        };
        assert_eq!(kind.interval.unwrap().0.as_secs(), 60);
        assert!(kind.sharp && kind.idle.is_none() && kind.initial_delay.is_some());
        let target = kind.target;
        assert!(target.selector.is_none() && target.when.is_none());
        assert_eq!(target.field.unwrap(), ["spec", "x"]);
        assert!(matches!(target.value, Some(Criterion::Callback(_))));
        let labels = target.labels.iter().map(|(key, filter)| (&**key, filter));
        let labels: Vec<_> = labels.collect();
        assert!(matches!(
            labels[..],
            [("a", Criterion::Absent(_)), ("b", Criterion::Literal(_))]
        ));
    }

    #[test]
    fn a_wrong_field_is_named_alone_also_inside_of_a_kind() {
        let wrong = |kind: &str, retries: &str| extracted(kind, retries).err();
        assert_eq!(
            wrong(&format!("TimerKind({TARGET}, None, -1, True, None)"), "1").as_deref(),
            Some(
                "ValueError: interval: ValueError: invalid duration -1: must be a non-negative \
                 number of seconds"
            )
        );
        let text = wrong(&format!("EventKind({TARGET})"), "'many'").unwrap();
        assert!(
            text.starts_with("ValueError: retries: TypeError: "),
            "{text}"
        );
    }

    #[test]
    fn an_unexpected_kind_is_rejected_with_the_expected_ones() {
        let text = extracted("Present()", "1").err().unwrap();
        assert!(
            text.starts_with("TypeError: unexpected Present: must be one of ActivityKind, "),
            "{text}"
        );
    }
}
