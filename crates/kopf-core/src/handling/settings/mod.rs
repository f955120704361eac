//! The settings of an operator, with the original's names, defaults and units.
//!
//! Plain data: filled before the operator starts (or by its startup handlers) and read by the
//! engine and the client at the time of use. All times are [`Duration`]s.
//!
//! ```
//! use std::time::Duration;
//! use kopf_core::settings::{Level, Settings};
//!
//! let mut settings = Settings::default();
//! settings.posting.level = Level::Warning;
//! settings.execution.default_backoff = Duration::from_secs(10);
//! assert!(settings.validate().is_ok());
//! ```

mod backoffs;
mod cluster;
mod handling;
mod leading;
mod networking;
mod persistence;
mod posting;
mod streams;

use std::fmt;
use std::time::Duration;

pub use backoffs::Backoffs;
pub use cluster::{Admission, Peering, Process, Scanning};
pub use handling::{Background, Execution, Queueing};
pub use leading::{CertificateSharing, Leading, NotShards, Replication, Shards};
pub use networking::{Networking, Watching};
pub use persistence::Persistence;
pub use posting::Posting;
pub use streams::{Restriction, StreamSelector};

use crate::keys;
pub use crate::secrets::{DigestKey, SecretValues};
pub use crate::wording::Level;

/// The settings of one operator.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// The process of the operator.
    pub process: Process,
    /// Events about objects, as `kubectl describe` shows them.
    pub posting: Posting,
    /// Operators that serve the same objects.
    pub peering: Peering,
    /// Several replicas of this operator.
    pub leading: Leading,
    /// The streams of changes from the cluster.
    pub watching: Watching,
    /// The queues of objects between the streams and the handlers.
    pub queueing: Queueing,
    /// Observation of the cluster itself.
    pub scanning: Scanning,
    /// Admission webhooks.
    pub admission: Admission,
    /// The calls of handlers.
    pub execution: Execution,
    /// Daemons and timers.
    pub background: Background,
    /// Requests to the API.
    pub networking: Networking,
    /// Persistence of state on objects.
    pub persistence: Persistence,
}

/// The error of an invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing would ever run, be sent, or be queued.
    #[error("settings.{setting} must be at least 1")]
    Zero {
        /// The setting, with its group.
        setting: &'static str,
    },
    /// Nothing could be called that.
    #[error("settings.{setting} must not be empty")]
    Empty {
        /// The setting, with its group.
        setting: &'static str,
    },
    /// A stream would be taken for dead at once.
    #[error("settings.{setting} must not be zero")]
    Instant {
        /// The setting, with its group.
        setting: &'static str,
    },
    /// Others could not calculate with it: the server, or other operators.
    #[error("settings.{setting} must not be longer than 100 years")]
    Endless {
        /// The setting, with its group.
        setting: &'static str,
    },
    /// No object can be called that.
    #[error(
        "settings.{setting} must be good for names of objects, of lower case letters, digits, - and ., \
         got {name:?}"
    )]
    Name {
        /// The setting, with its group.
        setting: &'static str,
        /// The name as given.
        name: String,
    },
    /// The server would not accept objects and webhooks of this name.
    #[error(
        "settings.admission.managed must look like name.example.com, in lower case, got {managed:?}"
    )]
    Managed {
        /// The name as given.
        managed: String,
    },
    /// Replicas find each other by this name.
    #[error(
        "settings.leading.name must be set for several replicas: choose a name that only the replicas \
         of this operator share"
    )]
    Unnamed,
    /// A replica would act on a Lease that others take.
    #[error(
        "settings.leading.lease_duration (in whole seconds) must be longer than renew_deadline, and \
         renew_deadline longer than retry_period, which must not be zero"
    )]
    LeaseTimes,
    /// There are too many or too few shards.
    #[error("settings.leading.shards must be from 1 to 256, got {count}")]
    Shards {
        /// The number as given.
        count: u32,
    },
    /// The API server rejects a finalizer of this form, and with it every patch that adds it.
    #[error(
        "invalid settings.persistence.finalizer {finalizer:?}: must be a name of letters, digits, '-', \
         '_' and '.', such as \"marker\" or \"example.com/marker\""
    )]
    Finalizer {
        /// The finalizer as given.
        finalizer: String,
    },
}

/// All wrong settings of an operator; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(Vec<Error>);

impl Errors {
    /// Returns the errors, in the order of the checks.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.0.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

impl Settings {
    /// Checks the values with which an operator could not work.
    ///
    /// # Errors
    /// All wrong values.
    pub fn validate(&self) -> Result<(), Errors> {
        let mut wrong = Vec::new();
        self.check_counts(&mut wrong);
        self.check_presence(&mut wrong);
        self.check_durations(&mut wrong);
        self.check_names(&mut wrong);
        wrong.extend(self.leading.validate().err());
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Errors(wrong))
        }
    }

    /// Returns the field manager of children that are applied.
    pub fn field_manager(&self) -> &String {
        let own = self.persistence.field_manager.as_ref();
        own.unwrap_or(&self.posting.reporting_component)
    }

    fn check_counts(&self, wrong: &mut Vec<Error>) {
        let counts = [
            ("execution.max_workers", self.execution.max_workers),
            ("queueing.worker_limit", self.queueing.worker_limit),
            ("queueing.max_events", Some(self.queueing.max_events)),
            ("queueing.max_bytes", Some(self.queueing.max_bytes)),
            ("networking.concurrency", Some(self.networking.concurrency)),
            ("posting.queue_limit", Some(self.posting.queue_limit)),
            (
                "watching.page_size",
                usize::try_from(self.watching.page_size).ok(),
            ),
        ];
        let zeros = counts.into_iter().filter(|(_, count)| *count == Some(0));
        wrong.extend(zeros.map(|(setting, _)| Error::Zero { setting }));
    }

    fn check_presence(&self, wrong: &mut Vec<Error>) {
        let posting = &self.posting;
        let names = [
            ("persistence.finalizer", &self.persistence.finalizer),
            ("peering.name", &self.peering.name),
            ("posting.event_name_prefix", &posting.event_name_prefix),
            ("posting.reporting_component", &posting.reporting_component),
            ("posting.reporting_instance", &posting.reporting_instance),
            ("persistence.field_manager", self.field_manager()),
        ];
        let empty = names.into_iter().filter(|(_, name)| name.is_empty());
        wrong.extend(empty.map(|(setting, _)| Error::Empty { setting }));
        if let SecretValues::KeyedDigests(key) = &self.persistence.secret_values
            && key.is_empty()
        {
            let setting = "persistence.secret_values";
            wrong.push(Error::Empty { setting });
        }
    }

    fn check_durations(&self, wrong: &mut Vec<Error>) {
        let watching = &self.watching;
        let lifetime = Some(self.peering.lifetime);
        let positive = [
            ("watching.inactivity_timeout", watching.inactivity_timeout),
            ("peering.lifetime", lifetime),
        ];
        let zeros = positive
            .into_iter()
            .filter(|(_, d)| *d == Some(Duration::ZERO));
        wrong.extend(zeros.map(|(setting, _)| Error::Instant { setting }));
        // The server and other operators add these to timestamps.
        let sent = [
            ("watching.server_timeout", watching.server_timeout),
            ("peering.lifetime", lifetime),
        ];
        let endless = sent.into_iter().filter(|(_, d)| *d > Some(CENTURY));
        wrong.extend(endless.map(|(setting, _)| Error::Endless { setting }));
    }

    /// Empty names are reported as such.
    fn check_names(&self, wrong: &mut Vec<Error>) {
        // The server appends a random suffix to the prefix.
        let prefix = &self.posting.event_name_prefix;
        let prefix_name = prefix.strip_suffix('-').unwrap_or(prefix);
        let peering = &self.peering.name;
        let names = [
            ("peering.name", peering, peering.as_str()),
            ("posting.event_name_prefix", prefix, prefix_name),
        ];
        for (setting, given, name) in names {
            if !given.is_empty() && !is_name(name) {
                let name = given.clone();
                wrong.push(Error::Name { setting, name });
            }
        }
        let managed = self.admission.managed.iter();
        let managed = managed.filter(|managed| !is_domain(managed));
        wrong.extend(managed.cloned().map(|managed| Error::Managed { managed }));
        let finalizer = &self.persistence.finalizer;
        if !finalizer.is_empty() && !keys::is_qualified_name(finalizer) {
            let finalizer = finalizer.clone();
            wrong.push(Error::Finalizer { finalizer });
        }
    }

    /// Replaces values that the original accepts in another meaning: timeouts of zero are no timeouts.
    pub fn normalize(&mut self) {
        self.peering.sharing |= self.watching.is_sharded();
        for timeout in [
            &mut self.watching.server_timeout,
            &mut self.watching.client_timeout,
            &mut self.networking.request_timeout,
            &mut self.networking.connect_timeout,
        ] {
            timeout.take_if(|timeout| timeout.is_zero());
        }
    }
}

/// Upper bound for durations; adding it to a timestamp cannot overflow.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns `true` for a name of at least two parts, as of domains: webhooks have one of at least
/// three.
fn is_domain(name: &str) -> bool {
    name.len() <= 200 && name.contains('.') && is_name(name)
}

/// Returns `true` for a valid name of objects.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_usual = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
        part.bytes().all(is_usual)
            && !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks all defaults of the original, in seconds, with the intended differences.
    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn defaults() {
        let settings = Settings::default();
        let secs = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(settings.process.ultimate_exiting_timeout, secs(600));
        let posting = &settings.posting;
        assert!(posting.enabled && posting.loggers);
        assert_eq!(posting.level, Level::Info);
        assert_eq!(
            (
                posting.reporting_component.as_str(),
                posting.reporting_instance.as_str(),
                posting.event_name_prefix.as_str(),
            ),
            ("kopf", "dev", "kopf-event-")
        );
        assert_eq!(posting.queue_limit, 1000);
        let peering = &settings.peering;
        assert_eq!((peering.name.as_str(), peering.priority), ("default", 0));
        assert_eq!(Some(peering.lifetime), secs(60));
        assert!(!(peering.stealth || peering.mandatory));
        assert!(!(peering.standalone || peering.clusterwide));
        let watching = &settings.watching;
        assert_eq!(watching.server_timeout, None);
        assert_eq!(watching.client_timeout, None);
        assert_eq!(watching.connect_timeout, None);
        assert_eq!(watching.reconnect_backoff, Duration::from_millis(100));
        assert_eq!(watching.inactivity_timeout, secs(70));
        assert_eq!(watching.page_size, 500);
        let queueing = &settings.queueing;
        assert_eq!(queueing.worker_limit, None);
        assert_eq!(Some(queueing.idle_timeout), secs(5));
        assert_eq!(Some(queueing.exit_timeout), secs(2));
        let delays: Vec<u64> = queueing
            .error_delays
            .iter()
            .map(Duration::as_secs)
            .collect();
        assert_eq!(
            delays,
            [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]
        );
        assert_eq!(
            (queueing.max_events, queueing.max_bytes),
            (1000, 67_108_864)
        );
        assert!(!settings.scanning.disabled);
        assert_eq!(settings.admission.managed, None);
        assert_eq!(Some(settings.execution.default_backoff), secs(60));
        assert_eq!(settings.execution.max_workers, None);
        assert_eq!(Some(settings.background.cancellation_polling), secs(60));
        assert_eq!(settings.background.instant_exit_timeout, None);
        assert_eq!(settings.background.instant_exit_zero_time_cycles, Some(10));
        let networking = &settings.networking;
        assert_eq!(networking.request_timeout, secs(300));
        assert_eq!(networking.connect_timeout, None);
        let backoffs: Vec<u64> = networking
            .error_backoffs
            .iter()
            .map(|b| b.as_secs())
            .collect();
        assert_eq!(backoffs, [1, 1, 2, 3, 5, 8, 13, 21]);
        assert!(!(networking.enforce_retry_after || networking.trust_env || networking.http2));
        assert_eq!(networking.concurrency, 96);
        let persistence = &settings.persistence;
        assert_eq!(
            persistence.finalizer,
            "kopf.zalando.org/KopfFinalizerMarker"
        );
        assert_eq!(Some(persistence.consistency_timeout), secs(5));
        assert!(!persistence.touching);
        settings.validate().unwrap();
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn invalid_values_are_rejected_by_name() {
        type Spoil = fn(&mut Settings);
        let cases: [(Spoil, &str); 12] = [
            (
                |settings| settings.admission.managed = Some("kopf".to_owned()),
                "settings.admission.managed must look like name.example.com, in lower case, \
                 got \"kopf\"",
            ),
            (
                |settings| settings.admission.managed = Some("Auto.kopf.dev".to_owned()),
                "settings.admission.managed must look like name.example.com, in lower case, \
                 got \"Auto.kopf.dev\"",
            ),
            (
                |settings| settings.execution.max_workers = Some(0),
                "settings.execution.max_workers must be at least 1",
            ),
            (
                |settings| settings.networking.concurrency = 0,
                "settings.networking.concurrency must be at least 1",
            ),
            (
                |settings| settings.peering.name.clear(),
                "settings.peering.name must not be empty",
            ),
            (
                |settings| settings.peering.name = "My peers".to_owned(),
                "settings.peering.name must be good for names of objects, of lower case letters, \
                 digits, - and ., got \"My peers\"",
            ),
            (
                |settings| settings.posting.event_name_prefix = "-event-".to_owned(),
                "settings.posting.event_name_prefix must be good for names of objects, of lower \
                 case letters, digits, - and ., got \"-event-\"",
            ),
            (
                |settings| settings.posting.event_name_prefix = "-".to_owned(),
                "settings.posting.event_name_prefix must be good for names of objects, of lower \
                 case letters, digits, - and ., got \"-\"",
            ),
            (
                |settings| settings.watching.server_timeout = Some(Duration::MAX),
                "settings.watching.server_timeout must not be longer than 100 years",
            ),
            (
                |settings| settings.peering.lifetime = Duration::MAX,
                "settings.peering.lifetime must not be longer than 100 years",
            ),
            (
                |settings| settings.watching.inactivity_timeout = Some(Duration::ZERO),
                "settings.watching.inactivity_timeout must not be zero",
            ),
            (
                |settings| settings.persistence.finalizer = "a b".to_owned(),
                "invalid settings.persistence.finalizer \"a b\": must be a name of letters, \
                 digits, '-', '_' and '.', such as \"marker\" or \"example.com/marker\"",
            ),
        ];
        for (spoil, expected) in cases {
            let mut settings = Settings::default();
            spoil(&mut settings);
            assert_eq!(settings.validate().unwrap_err().to_string(), expected);
        }
        let mut settings = Settings::default();
        settings.admission.managed = Some("auto.kopf.dev".to_owned());
        settings.peering.name = "a.b-c.0".to_owned();
        settings.posting.event_name_prefix = "op.example-".to_owned();
        settings.watching.server_timeout = Some(CENTURY);
        settings.watching.inactivity_timeout = None;
        settings.validate().unwrap();
    }

    #[test]
    fn all_wrong_values_are_reported_at_once() {
        let mut settings = Settings::default();
        settings.execution.max_workers = Some(0);
        settings.networking.concurrency = 0;
        settings.peering.name.clear();
        settings.leading.enabled = true;
        settings.persistence.secret_values = SecretValues::KeyedDigests(DigestKey::new(""));
        let errors = settings.validate().unwrap_err();
        assert_eq!(errors.iter().count(), 5, "{errors}");
        let expected = "settings.execution.max_workers must be at least 1; \
                        settings.networking.concurrency must be at least 1; \
                        settings.peering.name must not be empty; \
                        settings.persistence.secret_values must not be empty; \
                        settings.leading.name";
        assert!(errors.to_string().starts_with(expected), "{errors}");
    }

    #[test]
    fn finalizers_need_no_domain() {
        for finalizer in [
            "marker",
            "Marker_1.x",
            "example.com/marker",
            "Example.com/M",
        ] {
            let mut settings = Settings::default();
            settings.persistence.finalizer = finalizer.to_owned();
            assert_eq!(settings.validate(), Ok(()), "{finalizer}");
        }
        for finalizer in ["-x", "a/b/c", "/x", "x/", "a b/c", "exämple"] {
            let mut settings = Settings::default();
            settings.persistence.finalizer = finalizer.to_owned();
            assert!(settings.validate().is_err(), "{finalizer}");
        }
    }

    #[test]
    fn zero_timeouts_become_none() {
        let mut settings = Settings::default();
        settings.watching.server_timeout = Some(Duration::ZERO);
        settings.watching.client_timeout = Some(Duration::ZERO);
        settings.networking.request_timeout = Some(Duration::ZERO);
        settings.networking.connect_timeout = Some(Duration::from_secs(1));
        settings.validate().unwrap();
        settings.normalize();
        assert_eq!(settings.watching.server_timeout, None);
        assert_eq!(settings.watching.client_timeout, None);
        assert_eq!(settings.networking.request_timeout, None);
        assert_eq!(
            settings.networking.connect_timeout,
            Some(Duration::from_secs(1))
        );
    }

    /// The groups and fields of the settings, as the pretty debug output indents them.
    fn names() -> Vec<String> {
        let text = format!("{:#?}", Settings::default());
        let mut group = "";
        let mut names = Vec::new();
        for line in text.lines() {
            let name = line.trim_start();
            let Some((name, _)) = name.split_once(": ") else {
                continue;
            };
            match line.len() - line.trim_start().len() {
                4 => group = name,
                8 => names.push(format!("{group}.{name}")),
                _ => {}
            }
        }
        names
    }

    #[test]
    fn all_settings_are_in_the_table_of_the_documentation() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/settings.md"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
        let names = names();
        assert!(names.len() > 60, "{names:?}");
        for name in &names {
            assert!(rows.contains(&name.as_str()), "{name} is not documented");
        }
        let is_known = |row: &&&str| row.contains('.') && !names.iter().any(|name| name == **row);
        let unknown: Vec<_> = rows.iter().filter(is_known).collect();
        assert!(
            unknown.is_empty(),
            "settings that do not exist: {unknown:?}"
        );
    }
}
