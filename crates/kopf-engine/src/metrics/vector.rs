//! Families of metrics whose series are looked up once and stored by the callers.

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::description::Description;

/// The labels of one series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A family with its label names. Clones share the series.
#[derive(Debug)]
pub(super) struct Vector<M> {
    family: Family<Labels, M, fn() -> M>,
    names: &'static [&'static str],
}

impl<M> Clone for Vector<M> {
    fn clone(&self) -> Self {
        Self {
            family: self.family.clone(),
            names: self.names,
        }
    }
}

impl<M> Vector<M>
where
    M: EncodeMetric + TypedMetric + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    fn register(registry: &mut Registry, description: &Description, make: fn() -> M) -> Self {
        let family = Family::new_with_constructor(make);
        registry.register(description.name, description.help, family.clone());
        Self {
            family,
            names: description.labels,
        }
    }

    /// Returns the series with these label values, in the order of the description.
    pub(super) fn series<const N: usize>(&self, values: [&str; N]) -> M {
        let labels = labels(self.names, values);
        let series = self.family.get_or_create(&labels);
        M::clone(&series)
    }
}

/// Registers a family of counters.
pub(super) fn counters(registry: &mut Registry, description: &Description) -> Vector<Counter> {
    Vector::register(registry, description, Counter::default)
}

/// Registers a family of gauges.
pub(super) fn gauges(registry: &mut Registry, description: &Description) -> Vector<Gauge> {
    Vector::register(registry, description, Gauge::default)
}

/// Registers a family of histograms of durations.
pub(super) fn durations(registry: &mut Registry, description: &Description) -> Vector<Histogram> {
    Vector::register(registry, description, seconds)
}

/// Joins label names and values. Excess values are dropped.
pub(super) fn labels<const N: usize>(names: &'static [&'static str], values: [&str; N]) -> Labels {
    let pairs = names.iter().zip(values);
    pairs
        .map(|(name, value)| (*name, value.to_owned()))
        .collect()
}

/// Upper bounds of the buckets in seconds: from requests on the same machine to handlers that run
/// for minutes.
const BUCKETS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0,
];

fn seconds() -> Histogram {
    Histogram::new(BUCKETS)
}
