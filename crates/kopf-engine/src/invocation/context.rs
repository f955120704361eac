//! Context shared by all handlers of one operator.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kopf_client::Client;
use kopf_core::body::ManagedFields;
use kopf_core::settings::Settings;
use kopf_core::wording::Style;

use super::memos::MemoCell;
use super::owned::{FindChildren, NoChildren};
use super::{Heartbeat, Host, Leftovers, SettingsDraft};
use crate::clock::Clock;
use crate::indexing::Indices;
use crate::known_kinds::KnownKinds;
use crate::metrics::Metrics;

/// Context shared by all handlers of one operator.
#[derive(Clone)]
#[non_exhaustive]
pub struct OperatorContext {
    /// The operator's API client.
    pub client: Client,
    /// The operator's settings.
    pub settings: Arc<Settings>,
    /// The operator's clock.
    pub clock: Clock,
    /// A value of the frontend; opaque to the engine.
    pub front: Arc<dyn Any + Send + Sync>,
    /// The settings under change by startup handlers; `None` afterwards, when they are final.
    pub draft: Option<SettingsDraft>,
    /// The operator's indices.
    pub indices: Indices,
    /// The operator's own memo, from which memos of objects are created.
    pub memo: MemoCell,
    /// The treatment of `metadata.managedFields` of objects.
    pub(crate) managed_fields: ManagedFields,
    /// The host of the frontend that polls tasks with callbacks.
    pub(crate) host: Option<Arc<dyn Host>>,
    /// The heartbeat of the frontend, for health probes.
    pub(crate) heartbeat: Option<Arc<dyn Heartbeat>>,
    /// Foreign work without a caller.
    pub(crate) leftovers: Leftovers,
    /// Discovered resources of applied children.
    pub(crate) kinds: KnownKinds,
    /// The children of handled objects.
    pub(crate) children: Arc<dyn FindChildren>,
    /// The operator's metrics.
    pub(crate) metrics: Metrics,
    /// The style of log messages.
    pub(crate) style: Style,
}

impl OperatorContext {
    /// Creates a context without indices and memos.
    pub fn new(
        client: Client,
        settings: Arc<Settings>,
        clock: Clock,
        front: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self {
            client,
            settings,
            clock,
            front,
            draft: None,
            indices: Indices::default(),
            memo: MemoCell::of_operator(Arc::new(())),
            managed_fields: ManagedFields::default(),
            host: None,
            heartbeat: None,
            leftovers: Leftovers::default(),
            kinds: KnownKinds::default(),
            children: Arc::new(NoChildren),
            metrics: Metrics::default(),
            style: Style::default(),
        }
    }

    /// Sets the indices.
    #[must_use]
    pub fn with_indices(self, indices: Indices) -> Self {
        Self { indices, ..self }
    }

    /// Sets the memo from which memos of objects are created.
    #[must_use]
    pub fn with_memo(self, memo: MemoCell) -> Self {
        Self { memo, ..self }
    }

    /// Sets the treatment of `metadata.managedFields`.
    #[must_use]
    pub(crate) fn with_managed_fields(self, managed_fields: ManagedFields) -> Self {
        Self {
            managed_fields,
            ..self
        }
    }

    /// Sets the host.
    #[must_use]
    pub(crate) fn with_host(self, host: Option<Arc<dyn Host>>) -> Self {
        Self { host, ..self }
    }

    /// Sets the metrics.
    #[must_use]
    pub(crate) fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    /// Sets the style of log messages.
    #[must_use]
    pub(crate) fn with_style(self, style: Style) -> Self {
        Self { style, ..self }
    }

    /// Sets the heartbeat of the frontend.
    #[must_use]
    pub(crate) fn with_heartbeat(self, heartbeat: Option<Arc<dyn Heartbeat>>) -> Self {
        Self { heartbeat, ..self }
    }
}

impl fmt::Debug for OperatorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorContext").finish_non_exhaustive()
    }
}
