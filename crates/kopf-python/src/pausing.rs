//! The commands `kopf freeze` and `kopf resume`.

use std::time::Duration;

use kopf_client::connection;
use kopf_core::failure::describe;
use kopf_core::peering::listed;
use kopf_core::settings::Settings;
use kopf_engine::peering;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::declaring::{get, need};
use crate::engine::scope;

/// Pauses the operators of a lower priority. Returns messages with their log levels.
#[pyfunction]
pub(crate) fn freeze(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Vec<(i32, String)>> {
    let (settings, scope, identity) = read(options)?;
    let (priority, lifetime) = (settings.peering.priority, settings.peering.lifetime);
    let outcome = run(py, |client| {
        let (settings, scope, identity) = (settings, scope, identity.clone());
        async move { peering::freeze(&client, settings, &scope, &identity).await }
    })?;
    let (places, seconds) = (outcome.changed.join(", "), lifetime.as_secs());
    let mut remarks = vec![(
        20,
        format!(
            "Operators are frozen in the peering {places} by {identity}, for {seconds} seconds."
        ),
    )];
    if !outcome.others.is_empty() {
        remarks.push((
            30,
            format!(
                "These operators are not paused because their priority is higher than {priority}: {}. Freeze \
                 them by a higher --priority, or by --dev.",
                listed(&outcome.others)
            ),
        ));
    }
    Ok(remarks)
}

/// Removes the record of [`freeze`]. Returns messages with their log levels.
#[pyfunction]
pub(crate) fn resume(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Vec<(i32, String)>> {
    let (settings, scope, identity) = read(options)?;
    let outcome = run(py, |client| {
        let (settings, scope, identity) = (settings, scope, identity.clone());
        async move { peering::resume(&client, settings, &scope, &identity).await }
    })?;
    let mut remarks = Vec::new();
    if !outcome.changed.is_empty() {
        let places = outcome.changed.join(", ");
        remarks.push((
            20,
            format!(
                "Operators are resumed in the peering {places} by {identity}, unless other peers \
                 pause them."
            ),
        ));
    }
    if !outcome.unchanged.is_empty() {
        let places = outcome.unchanged.join(", ");
        remarks.push((
            30,
            format!(
                "Nothing is resumed in the peering {places}: nothing is frozen by {identity} there."
            ),
        ));
    }
    Ok(remarks)
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
