//! Metrics that are computed on every scrape.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::description::{
    BUILD_INFO, Description, HEALTHY, Kind, LEADER, OBJECT_WORKERS, PAUSED, PROCESS_CPU,
    PROCESS_FDS, PROCESS_MAX_FDS, PROCESS_MEMORY, PROCESS_START, PROCESS_THREADS, PROCESS_VIRTUAL,
    QUEUE_BYTES, QUEUE_EVENTS, QUEUE_OLDEST, SHARDS, WATCH_AGE, WATCH_RECONNECTS, WATCH_STREAMS,
};
use super::process::Process;
use super::resources::{ResourceMetrics, Resources};
use super::streams::StreamLabel;
use super::vector::{Labels, labels};
use crate::pausing::Pause;

/// The sources of states.
#[derive(Debug)]
pub(super) struct States {
    pub(super) resources: Resources,
    pub(super) replica: Replica,
    pub(super) operator: OnceLock<Running>,
}

/// A running operator.
pub(super) struct Running {
    /// Returns the counters; `None` after the operator has ended.
    pub(super) counts: Box<dyn Fn() -> Option<OperatorCounts> + Send + Sync>,
    pub(super) pause: Pause,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// The counters of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperatorCounts {
    /// Objects in a cycle.
    pub(crate) working: usize,
    /// Objects that wait for the next attempt of a handler.
    pub(crate) sleeping: usize,
    /// Objects that wait after a failure.
    pub(crate) backing_off: usize,
    /// The operator receives events.
    pub(crate) is_alive: bool,
}

/// The role of this replica in leader election and sharding. Negative values are absent.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) leader: AtomicI64,
    pub(super) shards: AtomicI64,
}

impl Default for Replica {
    fn default() -> Self {
        Self {
            leader: AtomicI64::new(-1),
            shards: AtomicI64::new(-1),
        }
    }
}

/// The samples of one family.
type Samples = Vec<(Labels, f64)>;

/// The collector of all states.
#[derive(Debug)]
pub(super) struct Collecting(pub(super) Arc<States>);

impl Collector for Collecting {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let states = &*self.0;
        for (description, samples) in states
            .of_resources()
            .into_iter()
            .chain(states.of_operator())
            .chain(of_process())
        {
            encode(&mut encoder, description, &samples)?;
        }
        Ok(())
    }
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    description: Description,
    samples: &Samples,
) -> Result<(), fmt::Error> {
    if samples.is_empty() {
        return Ok(());
    }
    let Description {
        name, help, kind, ..
    } = description;
    let type_ = match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge | Kind::Histogram => MetricType::Gauge,
    };
    // Descriptors of registered families end with a period, too.
    let help = format!("{help}.");
    let mut family = encoder.encode_descriptor(name, &help, None, type_)?;
    if let [(labels, value)] = samples.as_slice()
        && labels.is_empty()
    {
        return sample(family, kind, *value);
    }
    for (labels, value) in samples {
        sample(family.encode_family(labels)?, kind, *value)?;
    }
    Ok(())
}

fn sample(encoder: MetricEncoder<'_>, kind: Kind, value: f64) -> Result<(), fmt::Error> {
    match kind {
        Kind::Counter => ConstCounter::new(value).encode(encoder),
        Kind::Gauge | Kind::Histogram => ConstGauge::new(value).encode(encoder),
    }
}

impl States {
    fn of_resources(&self) -> Vec<(Description, Samples)> {
        let resources = self.resources.all();
        let collect = |description: Description, value: fn(&ResourceMetrics) -> Option<f64>| {
            let samples = resources.iter().filter_map(|(resource, metrics)| {
                Some((labels(description.labels, [resource]), value(metrics)?))
            });
            (description, samples.collect::<Samples>())
        };
        vec![
            collect(QUEUE_EVENTS, |metrics| {
                let streams = metrics.streams.all();
                Some(sum(streams.iter().map(|stream| stream.queued().entries())))
            }),
            collect(QUEUE_BYTES, |metrics| {
                let streams = metrics.streams.all();
                Some(sum(streams.iter().map(|stream| stream.queued().bytes())))
            }),
            collect(QUEUE_OLDEST, |metrics| {
                Some(metrics.waiting.oldest().as_secs_f64())
            }),
            collect(WATCH_AGE, |metrics| {
                let streams = metrics.streams.all();
                let oldest = streams.iter().filter_map(|stream| stream.age()).max();
                oldest.map(|age: Duration| age.as_secs_f64())
            }),
            collect(WATCH_RECONNECTS, |metrics| {
                Some(float(metrics.reconnects()))
            }),
            (WATCH_STREAMS, stream_samples(&resources)),
        ]
    }

    fn of_operator(&self) -> Vec<(Description, Samples)> {
        let version = env!("CARGO_PKG_VERSION");
        let mut families = vec![(
            BUILD_INFO,
            vec![(labels(BUILD_INFO.labels, [version]), 1.0)],
        )];
        let Replica { leader, shards } = &self.replica;
        for (description, number) in [(LEADER, leader), (SHARDS, shards)] {
            let number = u64::try_from(number.load(Ordering::Relaxed)).ok();
            families.push((description, single(number.map(float))));
        }
        let Some(Running { counts, pause }) = self.operator.get() else {
            return families;
        };
        families.push((PAUSED, single(Some(flag(pause.is_paused())))));
        if let Some(now) = counts() {
            let workers = [
                ("working", now.working),
                ("sleeping", now.sleeping),
                ("backing_off", now.backing_off),
            ];
            let workers = workers.map(|(state, count)| {
                let labels = labels(OBJECT_WORKERS.labels, [state]);
                (labels, sum(std::iter::once(count)))
            });
            families.push((OBJECT_WORKERS, workers.into()));
            families.push((HEALTHY, single(Some(flag(now.is_alive)))));
        }
        families
    }
}

fn stream_samples(resources: &[(String, Arc<ResourceMetrics>)]) -> Samples {
    let mut samples = Samples::new();
    for (resource, metrics) in resources {
        let streams = metrics.streams.all();
        for label in StreamLabel::ALL {
            let count = streams.iter().filter(|it| it.label() == label).count();
            let labels = labels(WATCH_STREAMS.labels, [resource, label.as_str()]);
            samples.push((labels, sum(std::iter::once(count))));
        }
    }
    samples
}

fn of_process() -> Vec<(Description, Samples)> {
    let process = Process::read();
    vec![
        (PROCESS_CPU, single(process.cpu_seconds)),
        (PROCESS_START, single(process.start_seconds)),
        (PROCESS_MEMORY, single(process.resident_bytes)),
        (PROCESS_VIRTUAL, single(process.virtual_bytes)),
        (PROCESS_FDS, single(process.open_fds)),
        (PROCESS_MAX_FDS, single(process.max_fds)),
        (PROCESS_THREADS, single(process.threads)),
    ]
}

/// Returns the sample of a family without labels.
fn single(value: Option<f64>) -> Samples {
    value
        .into_iter()
        .map(|value| (Labels::new(), value))
        .collect()
}

fn sum(counts: impl Iterator<Item = usize>) -> f64 {
    float(u64::try_from(counts.sum::<usize>()).unwrap_or(u64::MAX))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of the exposition formats are floats; exact up to 2^53"
)]
fn float(number: u64) -> f64 {
    number as f64
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
