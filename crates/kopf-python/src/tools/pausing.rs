//! The commands `kopf freeze` and `kopf resume`.

use std::time::Duration;

use kopf_client::connection;
use kopf_core::failure::describe;
use kopf_core::settings::Settings;
use kopf_engine::peering;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::front::reading::{get, need};
use crate::state::scope::scope;

/// Pauses the operators of a lower priority. Returns messages with their log levels.
#[pyfunction]
pub(crate) fn freeze(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Vec<(i32, String)>> {
    let (settings, scope, identity) = read(options)?;
    let peering = settings.peering.clone();
    let outcome = run(py, |client| {
        let (settings, scope, identity) = (settings, scope, identity.clone());
        async move { peering::freeze(&client, settings, &scope, &identity).await }
    })?;
    Ok(with_levels(outcome.freeze_report(&peering, &identity)))
}

/// Removes the record of [`freeze`]. Returns messages with their log levels.
#[pyfunction]
pub(crate) fn resume(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Vec<(i32, String)>> {
    let (settings, scope, identity) = read(options)?;
    let outcome = run(py, |client| {
        let (settings, scope, identity) = (settings, scope, identity.clone());
        async move { peering::resume(&client, settings, &scope, &identity).await }
    })?;
    Ok(with_levels(outcome.resume_report(&identity)))
}

fn with_levels(report: peering::CommandReport) -> Vec<(i32, String)> {
    let done = report.done.into_iter().map(|text| (20, text));
    let warnings = report.warnings.into_iter().map(|text| (30, text));
    done.chain(warnings).collect()
}

type Order = (Settings, kopf_core::namespace::Scope, String);

fn read(options: &Bound<'_, PyDict>) -> PyResult<Order> {
    let mut settings = Settings::default();
    settings.peering.name = need(options, "peering")?;
    if let Some(priority) = get(options, "priority")? {
        settings.peering.priority = priority;
    }
    if let Some(lifetime) = get(options, "lifetime")? {
        settings.peering.lifetime = Duration::from_secs(lifetime);
    }
    let identity = get::<String>(options, "identity")?;
    let identity = identity.unwrap_or_else(peering::command_identity);
    Ok((settings, scope(options)?, identity))
}

fn run<F>(
    py: Python<'_>,
    give: impl FnOnce(kopf_client::Client) -> F + Send,
) -> PyResult<peering::CommandOutcome>
where
    F: Future<Output = Result<peering::CommandOutcome, peering::CommandError>>,
{
    let given = py.detach(|| -> Result<_, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let client = connection::infer()
                .await
                .map_err(|error| describe(&error))?;
            give(client).await.map_err(|error| describe(&error))
        })
    });
    given.map_err(PyRuntimeError::new_err)
}
