//! Conversion of settings from Python to settings of the engine.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::settings::{
    Backoffs, CertificateSharing, DigestKey, NotShards, SecretValues, Settings, Shards,
    StreamSelector,
};
use kopf_core::wording::Level;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::declare::description::SelectorDescription;
use crate::declare::selecting::selector;
use crate::front::Front;
use crate::front::delays::{backoffs, delays};
use crate::front::reading::{duration, extract};
use crate::objects::call::PyCall;
use crate::serving::webhooks;
use crate::state::storages;

/// Takes over the settings, which a startup function may have changed.
#[pyfunction]
pub(crate) fn set_settings(call: &Bound<'_, PyCall>, given: &Bound<'_, PyAny>) -> PyResult<()> {
    let call = call.get();
    if let Some(draft) = &call.call()?.operator.draft {
        let mut settings = draft.get();
        apply(&call.front, given, &mut settings)?;
        draft.set(settings);
    }
    Ok(())
}

/// Overwrites the settings with those of a `kopf.OperatorSettings`.
pub(crate) fn apply(
    front: &Arc<Front>,
    given: &Bound<'_, PyAny>,
    settings: &mut Settings,
) -> PyResult<()> {
    let group = |name: &'static str| Group::new(given, name);
    handling(
        &group("queueing")?,
        &group("execution")?,
        &group("background")?,
        settings,
    )?;
    posting(&group("posting")?, settings)?;
    peering(&group("peering")?, settings)?;
    leading(&group("leading")?, settings)?;
    networking(front, &group("networking")?, &group("watching")?, settings)?;
    persistence(front, &group("persistence")?, settings)?;
    let process = group("process")?;
    settings.process.ultimate_exiting_timeout = process.seconds("ultimate_exiting_timeout")?;
    settings.process.metrics = process.need("metrics")?;
    let scanning = group("scanning")?;
    settings.scanning.disabled = scanning.need("disabled")?;
    settings.scanning.install_crds = scanning.need("install_crds")?;
    settings.scanning.review_permissions = scanning.need("review_permissions")?;
    let admission = group("admission")?;
    settings.admission.managed = admission.get("managed")?;
    settings.admission.loopback = admission.need("loopback")?;
    settings.admission.server = match admission.get::<Bound<'_, PyAny>>("server")? {
        Some(server) => Some(webhooks::server(front, &server)?),
        None => None,
    };
    Ok(())
}

fn handling(
    queueing: &Group<'_>,
    execution: &Group<'_>,
    background: &Group<'_>,
    settings: &mut Settings,
) -> PyResult<()> {
    settings.queueing.worker_limit = queueing.get("worker_limit")?;
    settings.queueing.idle_timeout = queueing.need_seconds("idle_timeout")?;
    settings.queueing.exit_timeout = queueing.need_seconds("exit_timeout")?;
    settings.queueing.error_delays = queueing.delays("error_delays")?;
    settings.queueing.max_events = queueing.need("max_events")?;
    settings.queueing.max_bytes = queueing.need("max_bytes")?;
    settings.execution.default_backoff = execution.need_seconds("default_backoff")?;
    settings.background.cancellation_polling = background.need_seconds("cancellation_polling")?;
    settings.background.instant_exit_timeout = background.seconds("instant_exit_timeout")?;
    settings.background.instant_exit_zero_time_cycles =
        background.get("instant_exit_zero_time_cycles")?;
    Ok(())
}

fn posting(posting: &Group<'_>, settings: &mut Settings) -> PyResult<()> {
    settings.posting.enabled = posting.need("enabled")?;
    settings.posting.loggers = posting.need("loggers")?;
    settings.posting.level = Level::from(posting.need::<i32>("level")?);
    settings.posting.reporting_component = posting.need("reporting_component")?;
    settings.posting.reporting_instance = posting.need("reporting_instance")?;
    settings.posting.event_name_prefix = posting.need("event_name_prefix")?;
    settings.posting.queue_limit = posting.need("queue_limit")?;
    settings.posting.default_backoffs = posting.backoffs("default_backoffs")?;
    settings.posting.logging_backoffs = posting.backoffs("logging_backoffs")?;
    Ok(())
}

fn peering(peering: &Group<'_>, settings: &mut Settings) -> PyResult<()> {
    settings.peering.name = peering.need("name")?;
    settings.peering.stealth = peering.need("stealth")?;
    settings.peering.priority = peering.need("priority")?;
    settings.peering.lifetime = peering.need_seconds("lifetime")?;
    settings.peering.mandatory = peering.need("mandatory")?;
    settings.peering.standalone = peering.need("standalone")?;
    settings.peering.clusterwide = peering.need("clusterwide")?;
    settings.peering.sharing = peering.need("sharing")?;
    Ok(())
}

fn leading(leading: &Group<'_>, settings: &mut Settings) -> PyResult<()> {
    settings.leading.enabled = leading.need("enabled")?;
    settings.leading.name = leading.need("name")?;
    settings.leading.namespace = leading.get("namespace")?;
    settings.leading.lease_duration = leading.need_seconds("lease_duration")?;
    settings.leading.renew_deadline = leading.need_seconds("renew_deadline")?;
    settings.leading.retry_period = leading.need_seconds("retry_period")?;
    let indices: Vec<String> = leading.need("sharded_indices")?;
    settings.leading.sharded_indices = indices.into_iter().collect();
    settings.leading.certificate_secret = match leading.get::<String>("certificate_secret")? {
        None => CertificateSharing::Unshared,
        Some(name) if name == "auto" => CertificateSharing::Auto,
        Some(name) => CertificateSharing::Named(name),
    };
    settings.leading.shards = match leading.get::<Bound<'_, PyAny>>("shards")? {
        None => None,
        Some(shards) => {
            let shards = shards.str()?.to_string().parse::<Shards>();
            let wrong = |error: NotShards| PyValueError::new_err(error.to_string());
            Some(shards.map_err(|error| leading.wrong("shards", wrong(error)))?)
        }
    };
    Ok(())
}

fn networking(
    front: &Arc<Front>,
    networking: &Group<'_>,
    watching: &Group<'_>,
    settings: &mut Settings,
) -> PyResult<()> {
    settings.networking.request_timeout = networking.seconds("request_timeout")?;
    settings.networking.connect_timeout = networking.seconds("connect_timeout")?;
    settings.networking.error_backoffs = networking.backoffs("error_backoffs")?;
    settings.networking.enforce_retry_after = networking.need("enforce_retry_after")?;
    settings.networking.trust_env = networking.need("trust_env")?;
    settings.networking.concurrency = networking.need("concurrency")?;
    settings.networking.http2 = networking.need("http2")?;
    settings.watching.server_timeout = watching.seconds("server_timeout")?;
    settings.watching.client_timeout = watching.seconds("client_timeout")?;
    settings.watching.connect_timeout = watching.seconds("connect_timeout")?;
    settings.watching.reconnect_backoff = watching.need_seconds("reconnect_backoff")?;
    settings.watching.inactivity_timeout = watching.seconds("inactivity_timeout")?;
    if let Some(size) = watching.get("chunk_size")?.filter(|size| *size > 0) {
        settings.watching.page_size = size;
    }
    settings.watching.initial_streaming = watching.need("initial_streaming")?;
    settings.watching.selectors = selectors(front, watching)?;
    Ok(())
}

/// Converts the label, field and shard selectors of streams: mappings of resource selectors to
/// strings.
fn selectors(front: &Arc<Front>, watching: &Group<'_>) -> PyResult<Vec<StreamSelector>> {
    let bridge = front.bridge.bind(watching.object.py());
    let mut all = Vec::new();
    for name in ["label_selectors", "field_selectors", "shard_selectors"] {
        let given = bridge.call_method1("describe_selectors", (watching.attribute(name)?,))?;
        let given: Vec<(SelectorDescription, String)> = given.extract()?;
        for (resources, text) in given {
            let mut selector = StreamSelector::new(selector(front, &resources)?);
            match name {
                "label_selectors" => selector.labels = Some(text),
                "field_selectors" => selector.fields = Some(text),
                _ => selector.shard = Some(text),
            }
            all.push(selector);
        }
    }
    Ok(all)
}

fn persistence(
    front: &Arc<Front>,
    persistence: &Group<'_>,
    settings: &mut Settings,
) -> PyResult<()> {
    settings.persistence.finalizer = persistence.need("finalizer")?;
    settings.persistence.consistency_timeout = persistence
        .seconds("consistency_timeout")?
        .unwrap_or_default();
    settings.persistence.touching = persistence.need("touching")?;
    settings.persistence.results_first = persistence.need("results_first")?;
    settings.persistence.lost_updates = persistence.need("lost_updates")?;
    settings.persistence.field_manager = persistence.get("field_manager")?;
    settings.persistence.secret_values = secret_values(persistence)?;
    let progress: Bound<'_, PyAny> = persistence.need("progress_storage")?;
    settings.persistence.progress_storage = storages::progress(front, &progress)
        .map_err(|error| persistence.wrong("progress_storage", error))?;
    let diffbase: Bound<'_, PyAny> = persistence.need("diffbase_storage")?;
    settings.persistence.diffbase_storage = storages::diffbase(front, &diffbase)
        .map_err(|error| persistence.wrong("diffbase_storage", error))?;
    Ok(())
}

/// Converts the representation of the values of Secrets. A key alone also enables digests. Errors
/// do not contain the key.
fn secret_values(persistence: &Group<'_>) -> PyResult<SecretValues> {
    let key: Option<Bound<'_, PyAny>> = persistence.get("digest_key")?;
    let is_digested: bool = persistence.need("digest_secrets")?;
    let Some(key) = key else {
        return Ok(if is_digested {
            SecretValues::Digests
        } else {
            SecretValues::Plain
        });
    };
    let key = if let Ok(bytes) = key.cast::<PyBytes>() {
        bytes.as_bytes().to_vec()
    } else if let Ok(text) = key.extract::<String>() {
        text.into_bytes()
    } else {
        let message = "settings.persistence.digest_key must be a str or bytes";
        return Err(PyValueError::new_err(message));
    };
    Ok(SecretValues::KeyedDigests(DigestKey::new(key)))
}

/// One group of the settings. Errors contain the name of the setting.
struct Group<'py> {
    name: &'static str,
    object: Bound<'py, PyAny>,
}

impl<'py> Group<'py> {
    fn new(settings: &Bound<'py, PyAny>, name: &'static str) -> PyResult<Self> {
        let object = settings.getattr(name)?;
        Ok(Self { name, object })
    }

    fn wrong(&self, name: &str, error: impl Into<PyErr>) -> PyErr {
        let error: PyErr = error.into();
        let value = self.object.getattr(name);
        let value = value
            .and_then(|value| value.repr())
            .map(|repr| repr.to_string());
        PyValueError::new_err(format!(
            "invalid value of settings.{}.{name}: {} ({error})",
            self.name,
            value.unwrap_or_default()
        ))
    }

    /// Returns an attribute. The group itself can have been replaced by something else.
    fn attribute(&self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.object.getattr(name).map_err(|error| {
            let group = self.object.repr().map(|repr| repr.to_string());
            PyValueError::new_err(format!(
                "invalid value of settings.{}: {} ({error})",
                self.name,
                group.unwrap_or_default()
            ))
        })
    }

    fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let value = self.attribute(name)?;
        if value.is_none() {
            return Ok(None);
        }
        extract(&value)
            .map(Some)
            .map_err(|error| self.wrong(name, error))
    }

    fn need<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<T> {
        let absent = || self.wrong(name, PyValueError::new_err("a value is required"));
        self.get(name)?.ok_or_else(absent)
    }

    fn seconds(&self, name: &str) -> PyResult<Option<Duration>> {
        let value = self.get::<Bound<'_, PyAny>>(name)?;
        let value = value.map(|value| duration(&value)).transpose();
        value.map_err(|error| self.wrong(name, error))
    }

    fn need_seconds(&self, name: &str) -> PyResult<Duration> {
        let absent = || self.wrong(name, PyValueError::new_err("a value is required"));
        self.seconds(name)?.ok_or_else(absent)
    }

    fn delays(&self, name: &str) -> PyResult<Vec<Duration>> {
        let value = self.get::<Bound<'_, PyAny>>(name)?;
        let delays = value.map(|value| delays(&value)).transpose();
        let delays = delays.map_err(|error| self.wrong(name, error))?;
        Ok(delays.unwrap_or_default())
    }

    fn backoffs(&self, name: &str) -> PyResult<Backoffs> {
        let value = self.get::<Bound<'_, PyAny>>(name)?;
        let backoffs = value.map(|value| backoffs(&value)).transpose();
        let backoffs = backoffs.map_err(|error| self.wrong(name, error))?;
        Ok(backoffs.unwrap_or_default())
    }
}
