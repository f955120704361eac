//! The export of traces.

use crate::cli::program::BoxedLayer;

/// The exporter of traces, if configured. Dropping it sends the remaining spans.
#[must_use = "the export ends when this is dropped"]
#[derive(Debug)]
pub(in crate::cli) struct Exporting {
    #[cfg(feature = "otel")]
    telemetry: Result<Option<crate::otel::Telemetry>, String>,
}

#[cfg(not(feature = "otel"))]
impl Exporting {
    pub(super) fn by_env() -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "nothing to export without the feature")]
    pub(super) fn layer(&self) -> Option<BoxedLayer> {
        None
    }

    #[expect(clippy::unused_self, reason = "nothing to report without the feature")]
    pub(super) fn report(&self) {}
}

#[cfg(feature = "otel")]
impl Exporting {
    /// Creates the exporter configured by the environment.
    pub(super) fn by_env() -> Self {
        let telemetry = crate::otel::Telemetry::from_env();
        Self {
            telemetry: telemetry.map_err(|error| error.to_string()),
        }
    }

    /// Returns the layer of the exporter.
    pub(super) fn layer(&self) -> Option<BoxedLayer> {
        let telemetry = self.telemetry.as_ref().ok()?.as_ref();
        telemetry.map(|telemetry| -> BoxedLayer { Box::new(telemetry.layer()) })
    }

    /// Logs an invalid configuration. Called after the log is installed.
    pub(super) fn report(&self) {
        if let Err(error) = &self.telemetry {
            tracing::warn!("Traces are not exported: {error}");
        }
    }
}

#[cfg(feature = "otel")]
impl Drop for Exporting {
    fn drop(&mut self) {
        if let Ok(telemetry) = &mut self.telemetry
            && let Some(telemetry) = telemetry.take()
        {
            telemetry.shutdown();
        }
    }
}
