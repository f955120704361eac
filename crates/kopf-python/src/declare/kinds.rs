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
