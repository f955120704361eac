//! Metrics of requests to the API server.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kopf_client::observing::{RequestObserver, RequestOutcome, RequestSeries, RequestTarget, Verb};
use kopf_core::sync::{Mutex, RwLock};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::description::{API_DURATION, API_REQUESTS};
use super::vector::{Vector, counters, durations};

/// Maximum number of resources with their own series. Requests of handlers can have any path.
const MAX_RESOURCES: usize = 1_000;

/// The resource label beyond the limit.
const OTHER: &str = "other";

#[derive(Debug)]
pub(super) struct Requests {
    counts: Vector<Counter>,
    durations: Vector<Histogram>,
    /// By plural name, which few resources share.
    known: RwLock<HashMap<Box<str>, Vec<Arc<ByVerb>>>>,
    other: ByVerb,
}

/// The series of one resource.
#[derive(Debug, Default)]
struct ByVerb {
    group: Box<str>,
    version: Box<str>,
    label: String,
    series: [OnceLock<Arc<Series>>; Verb::ALL.len()],
}

/// The series of one verb and resource.
struct Series {
    verb: Verb,
    resource: String,
    latency: Histogram,
    counts: Vector<Counter>,
    /// There are few different codes.
    codes: Mutex<Vec<(RequestOutcome, Counter)>>,
}

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            counts: counters(registry, &API_REQUESTS),
            durations: durations(registry, &API_DURATION),
            known: RwLock::default(),
            other: ByVerb {
                label: OTHER.to_owned(),
                ..ByVerb::default()
            },
        }
    }

    fn find(&self, target: RequestTarget<'_>) -> Option<Arc<ByVerb>> {
        let known = self.known.read();
        let mut resources = known.get(target.plural)?.iter();
        resources.find(|known| known.is(target)).cloned()
    }

    /// Adds a resource; `None` if there are too many.
    fn add(&self, target: RequestTarget<'_>) -> Option<Arc<ByVerb>> {
        let mut known = self.known.write();
        if known.values().map(Vec::len).sum::<usize>() >= MAX_RESOURCES {
            return None;
        }
        let resources = known.entry(target.plural.into()).or_default();
        if let Some(added) = resources.iter().find(|known| known.is(target)) {
            return Some(Arc::clone(added));
        }
        let added = Arc::new(ByVerb::new(target));
        resources.push(Arc::clone(&added));
        Some(added)
    }

    fn series(&self, resource: &ByVerb, verb: Verb) -> Arc<Series> {
        let make = || {
            Arc::new(Series {
                verb,
                resource: resource.label.clone(),
                latency: self.durations.series([verb.as_str(), &resource.label]),
                counts: self.counts.clone(),
                codes: Mutex::default(),
            })
        };
        match resource.series.get(verb as usize) {
            Some(series) => Arc::clone(series.get_or_init(make)),
            None => make(),
        }
    }
}

impl RequestObserver for Requests {
    fn begin(&self, target: RequestTarget<'_>) -> Arc<dyn RequestSeries> {
        match self.find(target).or_else(|| self.add(target)) {
            Some(resource) => self.series(&resource, target.verb),
            None => self.series(&self.other, target.verb),
        }
    }
}

impl ByVerb {
    fn new(target: RequestTarget<'_>) -> Self {
        let parts = [target.plural, target.version, target.group];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            group: target.group.into(),
            version: target.version.into(),
            label: parts.join("."),
            series: Default::default(),
        }
    }

    fn is(&self, target: RequestTarget<'_>) -> bool {
        *self.group == *target.group && *self.version == *target.version
    }
}

impl RequestSeries for Series {
    fn finished(&self, outcome: RequestOutcome, latency: Duration) {
        self.latency.observe(latency.as_secs_f64());
        let mut codes = self.codes.lock();
        if let Some((_, count)) = codes.iter().find(|(known, _)| *known == outcome) {
            count.inc();
            return;
        }
        let code = match outcome {
            RequestOutcome::Response(code) => code.to_string(),
            RequestOutcome::Failed => "error".to_owned(),
            RequestOutcome::Cancelled => "cancelled".to_owned(),
        };
        let labels = [self.verb.as_str(), &self.resource, &code];
        let count = self.counts.series(labels);
        count.inc();
        codes.push((outcome, count));
    }
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Series({} {})", self.verb.as_str(), self.resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(plural: &str) -> RequestTarget<'_> {
        RequestTarget {
            verb: Verb::Get,
            group: "g",
            version: "v1",
            plural,
        }
    }

    #[test]
    fn the_number_of_resources_is_limited() {
        let requests = Requests::register(&mut Registry::default());
        for number in 0..MAX_RESOURCES {
            assert!(requests.add(target(&format!("things{number}"))).is_some());
        }
        assert!(requests.add(target("more")).is_none());
        let series = requests.begin(target("more"));
        series.finished(RequestOutcome::Response(200), Duration::ZERO);
        let labels = [Verb::Get.as_str(), OTHER, "200"];
        assert_eq!(requests.counts.series(labels).get(), 1);
        assert!(requests.find(target("things7")).is_some());
    }

    #[test]
    fn resources_with_the_same_plural_have_their_own_series() {
        let requests = Requests::register(&mut Registry::default());
        let core = RequestTarget {
            group: "",
            ..target("events")
        };
        for (target, label) in [(core, "events.v1"), (target("events"), "events.v1.g")] {
            let series = requests.begin(target);
            series.finished(RequestOutcome::Failed, Duration::ZERO);
            let labels = [Verb::Get.as_str(), label, "error"];
            assert_eq!(requests.counts.series(labels).get(), 1, "{label}");
        }
    }
}
