//! OpenTelemetry traces: cycles, handlers and API requests, exported by OTLP over HTTP.
//!
//! Programs made with [`kopf::main`](crate::main()) export traces if an endpoint is configured by
//! the standard environment variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318`.
//! Programs with their own subscriber add the layer of [`Telemetry`]. Spans that handlers make with
//! `tracing` are children of the spans of their calls.

mod transport;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use self::transport::PlainHttp;

/// The target of the spans of the framework.
const TARGET: &str = "kopf_trace";

/// The variables that configure an endpoint.
const ENDPOINTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The exporter of traces. Dropping it loses unsent spans; see [`shutdown`](Self::shutdown).
#[derive(Debug)]
pub struct Telemetry(SdkTracerProvider);

impl Telemetry {
    /// Creates an exporter from the environment; `None` if no endpoint is configured, or if
    /// `OTEL_SDK_DISABLED` is `true`.
    ///
    /// # Errors
    /// If the variables are invalid.
    pub fn from_env() -> Result<Option<Self>, ExporterBuildError> {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_disabled =
            std::env::var_os("OTEL_SDK_DISABLED").is_some_and(|value| value == "true");
        if is_disabled || !ENDPOINTS.into_iter().any(is_set) {
            return Ok(None);
        }
        let builder = SpanExporter::builder().with_http();
        let exporter = builder.with_http_client(PlainHttp).build()?;
        Ok(Some(Self::exporting(exporter)))
    }

    /// Creates an exporter to a collector, such as `http://localhost:4318`, regardless of the
    /// environment.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn to(collector: &str) -> Result<Self, ExporterBuildError> {
        let endpoint = format!("{}/v1/traces", collector.trim_end_matches('/'));
        let builder = SpanExporter::builder().with_http().with_endpoint(endpoint);
        let exporter = builder.with_http_client(PlainHttp).build()?;
        Ok(Self::exporting(exporter))
    }

    fn exporting(exporter: SpanExporter) -> Self {
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter);
        Self(provider.build())
    }

    /// Returns the layer that records spans: those of the framework, and those of other code at the
    /// level INFO and above.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let is_recorded = |metadata: &Metadata<'_>| {
            metadata.is_span() && (metadata.target() == TARGET || *metadata.level() <= Level::INFO)
        };
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("kopf"))
            .with_filter(filter_fn(is_recorded))
    }

    /// Sends the remaining spans and stops the exporter. Blocks until then.
    pub fn shutdown(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!("Some traces were not exported: {error}");
        }
    }
}
