//! Kinds of handlers: conversion to those of the engine, and the parts that several kinds have.

use kopf_core::admission::{Operation, UnknownOperation, WebhookType};
use kopf_core::field::FieldPath;
use kopf_core::handler::{
    Activity, Cancellation, Conversion, HandlerKind, Reconciliation, Timing, Webhook,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::declare::description::{
    ChangeDescription, Kind, SelectorDescription, TargetDescription,
};
use crate::front::reading::Seconds;

impl Kind {
    /// Returns the kind of the engine.
    pub(crate) fn handled(&self) -> PyResult<HandlerKind> {
        let seconds = |given: Option<Seconds>| given.map(|given| given.0);
        Ok(match self {
            Self::Activity(kind) => HandlerKind::Activity(activity(&kind.activity)?),
            Self::Event(_) => HandlerKind::Event,
            Self::Index(_) => HandlerKind::Index,
            Self::Child(_) => HandlerKind::Child,
            Self::Create(_) => HandlerKind::Create,
            Self::Update(_) => HandlerKind::Update,
            Self::Delete(kind) => HandlerKind::Delete {
                optional: kind.optional,
            },
            Self::Resume(kind) => HandlerKind::Resume {
                deleted: kind.deleted,
            },
            Self::Field(_) => HandlerKind::Field,
            Self::Sub(kind) => HandlerKind::Sub {
                needs_change: kind.needs_change,
            },
            Self::Daemon(kind) => HandlerKind::Daemon(Cancellation {
                backoff: seconds(kind.cancellation_backoff),
                timeout: seconds(kind.cancellation_timeout),
                polling: seconds(kind.cancellation_polling),
            }),
            Self::Timer(kind) => HandlerKind::Timer(Timing {
                interval: seconds(kind.interval),
                sharp: kind.sharp,
                idle: seconds(kind.idle),
            }),
            Self::Reconcile(kind) => HandlerKind::Reconcile(Reconciliation {
                every: seconds(kind.every),
                finalizer: kind.finalizer,
            }),
            Self::Convert(_) => HandlerKind::Convert,
            Self::Webhook(kind) => HandlerKind::Admission(webhook_type(&kind.review)?),
        })
    }

    /// Returns the objects of the handler; `None` for activities.
    pub(crate) fn target(&self) -> Option<&TargetDescription> {
        match self {
            Self::Activity(_) => None,
            Self::Event(kind) => Some(&kind.target),
            Self::Index(kind) => Some(&kind.target),
            Self::Child(kind) => Some(&kind.target),
            Self::Daemon(kind) => Some(&kind.target),
            Self::Timer(kind) => Some(&kind.target),
            Self::Reconcile(kind) => Some(&kind.target),
            Self::Convert(kind) => Some(&kind.target),
            Self::Webhook(kind) => Some(&kind.target),
            Self::Create(_)
            | Self::Update(_)
            | Self::Delete(_)
            | Self::Resume(_)
            | Self::Field(_)
            | Self::Sub(_) => self.change().map(|change| &change.target),
        }
    }

    /// Returns the properties of a change handler; `None` for other kinds.
    pub(crate) fn change(&self) -> Option<&ChangeDescription> {
        match self {
            Self::Create(kind) => Some(&kind.change),
            Self::Update(kind) => Some(&kind.change),
            Self::Delete(kind) => Some(&kind.change),
            Self::Resume(kind) => Some(&kind.change),
            Self::Field(kind) => Some(&kind.change),
            Self::Sub(kind) => Some(&kind.change),
            _ => None,
        }
    }

    /// Returns the selectors of owned objects.
    pub(crate) fn owns(&self) -> &[SelectorDescription] {
        match self {
            Self::Child(kind) => &kind.owns,
            Self::Reconcile(kind) => &kind.owns,
            _ => self.change().map_or(&[], |change| &change.owns),
        }
    }

    /// Returns the delay before the first call: a duration or a function.
    pub(crate) fn initial_delay(&self) -> Option<&Py<PyAny>> {
        match self {
            Self::Daemon(kind) => kind.initial_delay.as_ref(),
            Self::Timer(kind) => kind.initial_delay.as_ref(),
            _ => None,
        }
    }

    /// Returns the versions of a conversion handler; `None` for other kinds.
    pub(crate) fn conversion(&self) -> Option<Conversion> {
        let Self::Convert(kind) = self else {
            return None;
        };
        Some(Conversion {
            source: kind.source.clone(),
            target: kind.destination.clone(),
        })
    }

    /// Returns the properties of the webhook of a handler; the defaults without one.
    pub(crate) fn webhook(&self) -> PyResult<Webhook> {
        let mut webhook = Webhook::default();
        match self {
            Self::Convert(kind) => webhook.persistent = kind.persistent,
            Self::Webhook(kind) => {
                if let Some(operations) = &kind.operations {
                    let operations = operations.iter().map(|name| name.parse::<Operation>());
                    let operations = operations.collect::<Result<Vec<_>, _>>();
                    let wrong = |error: UnknownOperation| PyValueError::new_err(error.to_string());
                    webhook.add_operations(operations.map_err(wrong)?);
                }
                webhook.subresource.clone_from(&kind.subresource);
                webhook.persistent = kind.persistent;
                webhook.side_effects = kind.side_effects;
                webhook.ignore_failures = kind.ignore_failures;
            }
            _ => {}
        }
        Ok(webhook)
    }
}

impl TargetDescription {
    /// Returns the path of the field, if there is one.
    pub(crate) fn field_path(&self) -> Option<FieldPath> {
        let steps = self.field.as_ref()?;
        Some(steps.iter().map(String::as_str).collect())
    }
}

fn activity(name: &str) -> PyResult<Activity> {
    Ok(match name {
        "startup" => Activity::Startup,
        "cleanup" => Activity::Cleanup,
        "authentication" => Activity::Authentication,
        "probe" => Activity::Probe,
        other => return Err(unknown(other)),
    })
}

fn webhook_type(name: &str) -> PyResult<WebhookType> {
    Ok(match name {
        "validating" => WebhookType::Validating,
        "mutating" => WebhookType::Mutating,
        other => return Err(unknown(other)),
    })
}

fn unknown(kind: &str) -> PyErr {
    PyValueError::new_err(format!("unknown kind of handlers {kind:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::description::{
        ActivityKind, ChildKind, ConvertKind, CreateKind, DaemonKind, DeleteKind, WebhookKind,
    };

    fn target() -> TargetDescription {
        TargetDescription {
            selector: None,
            labels: Vec::new(),
            annotations: Vec::new(),
            field: Some(vec!["spec".to_owned(), "a.b".to_owned()]),
            value: None,
            when: None,
        }
    }

    fn owned() -> SelectorDescription {
        SelectorDescription {
            group: None,
            version: None,
            kind: None,
            plural: None,
            singular: None,
            shortcut: None,
            category: None,
            any_name: Some("pods".to_owned()),
            everything: false,
            callable: None,
        }
    }

    fn change() -> ChangeDescription {
        ChangeDescription {
            target: target(),
            owns: vec![owned()],
            old: None,
            new: None,
        }
    }

    fn webhook(review: &str, operations: Option<&[&str]>) -> Kind {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Kind::Webhook(WebhookKind {
            target: target(),
            review: review.to_owned(),
            operations: operations.map(names),
            subresource: Some("status".to_owned()),
            persistent: true,
            side_effects: false,
            ignore_failures: true,
        })
    }

    #[test]
    fn activities_have_no_objects() {
        let kind = Kind::Activity(ActivityKind {
            activity: "probe".to_owned(),
        });
        assert_eq!(
            kind.handled().unwrap(),
            HandlerKind::Activity(Activity::Probe)
        );
        assert!(kind.target().is_none() && kind.change().is_none());
        assert!(kind.owns().is_empty());
    }

    #[test]
    fn change_handlers_have_the_parts_of_all_changes() {
        for (kind, expected) in [
            (
                Kind::Create(CreateKind { change: change() }),
                HandlerKind::Create,
            ),
            (
                Kind::Delete(DeleteKind {
                    change: change(),
                    optional: true,
                }),
                HandlerKind::Delete { optional: true },
            ),
        ] {
            assert_eq!(kind.handled().unwrap(), expected);
            assert_eq!(kind.owns().len(), 1);
            let path = kind.target().and_then(TargetDescription::field_path);
            assert_eq!(path.unwrap(), FieldPath::from_iter(["spec", "a.b"]));
        }
    }

    #[test]
    fn children_are_owned_and_daemons_own_nothing() {
        let child = Kind::Child(ChildKind {
            target: target(),
            owns: vec![owned(), owned()],
        });
        assert_eq!(child.owns().len(), 2);
        let daemon = Kind::Daemon(DaemonKind {
            target: target(),
            initial_delay: None,
            cancellation_backoff: None,
            cancellation_timeout: Some(Seconds(std::time::Duration::from_secs(3))),
            cancellation_polling: None,
        });
        assert!(daemon.owns().is_empty() && daemon.initial_delay().is_none());
        let HandlerKind::Daemon(cancellation) = daemon.handled().unwrap() else {
            panic!("not a daemon")
        };
        assert_eq!(cancellation.timeout.unwrap().as_secs(), 3);
    }

    #[test]
    fn webhooks_belong_to_admission_and_conversion() {
        let admission = webhook("mutating", Some(&["CREATE", "UPDATE"]));
        assert_eq!(
            admission.handled().unwrap(),
            HandlerKind::Admission(WebhookType::Mutating)
        );
        let properties = admission.webhook().unwrap();
        assert_eq!(properties.subresource.as_deref(), Some("status"));
        assert!(properties.persistent && properties.ignore_failures && !properties.side_effects);
        assert!(admission.conversion().is_none());
        let conversion = Kind::Convert(ConvertKind {
            target: target(),
            source: "v1".to_owned(),
            destination: "v2".to_owned(),
            persistent: true,
        });
        assert!(conversion.webhook().unwrap().persistent);
        let versions = conversion.conversion().unwrap();
        assert_eq!((&*versions.source, &*versions.target), ("v1", "v2"));
    }

    #[test]
    fn unknown_names_are_shown() {
        let wrong = |result: PyResult<()>| {
            let error = result.unwrap_err();
            crate::interpreter::attached(|py| Ok(error.value(py).to_string()))
        };
        let kind = webhook("approving", None);
        assert_eq!(
            wrong(kind.handled().map(drop)),
            "unknown kind of handlers \"approving\""
        );
        let kind = webhook("validating", Some(&["PATCH"]));
        assert!(wrong(kind.webhook().map(drop)).contains("PATCH"));
    }
}
