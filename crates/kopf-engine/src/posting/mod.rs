//! K8s-events of objects: accepted at once, sent in the background.
//!
//! Handlers and object loggers leave events with a [`Poster`]; [`run`] sends them, one at a time,
//! in the order they came. Posting never slows handling down: the queue is bounded, repeats of what
//! still waits there are folded into one with a count, the rest is dropped, counted and logged.
//! Events that cannot be posted are forgotten with a warning; those still queued at the end are
//! lost.
//!
//! Only `create` on `v1/events` is ever needed.

mod event;
mod queue;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kopf_client::Client;
use kopf_core::reference::ObjectReference;
use kopf_core::settings::{self, Settings};
use kopf_core::wording::Level;
use tokio::sync::Notify;

use self::event::{Event, Occurrences, shortened};
use self::queue::{Accepted, Queue};
use crate::clock::Clock;

/// The reason of events made of log records.
const LOGGING: &str = "Logging";

/// Where events of objects are left for posting. Cheap to clone; clones share the queue.
#[derive(Clone)]
pub struct Poster {
    desk: Option<Arc<Desk>>,
}

/// What the clones of a poster share with the task that sends.
struct Desk {
    settings: Arc<Settings>,
    clock: Clock,
    queue: Mutex<Queue>,
    arrived: Notify,
}

impl Poster {
    /// A poster with an empty queue. Nothing is sent until [`run`] is.
    pub fn new(settings: Arc<Settings>, clock: Clock) -> Self {
        Self {
            desk: Some(Arc::new(Desk {
                settings,
                clock,
                queue: Mutex::default(),
                arrived: Notify::new(),
            })),
        }
    }

    /// A poster that forgets everything.
    pub fn disabled() -> Self {
        Self { desk: None }
    }

    /// Posts an event, whatever the settings say.
    pub fn post(&self, object: &ObjectReference, type_: &str, reason: &str, message: String) {
        let Some(desk) = &self.desk else { return };
        // Events about events would go on forever.
        if object.api_version.as_deref() == Some("v1") && object.kind.as_deref() == Some("Event") {
            return;
        }
        let now = desk.clock.now();
        let accepted = desk.queue().push(
            Event {
                object: object.clone(),
                type_: type_.to_owned(),
                reason: reason.to_owned(),
                message: shortened(message),
            },
            now,
            desk.settings.posting.queue_limit,
        );
        match accepted {
            Accepted::Queued => desk.arrived.notify_one(),
            Accepted::Folded | Accepted::Dropped => {}
            Accepted::FirstDropped => {
                tracing::warn!(
                    "Too many k8s-events are waiting to be posted: new ones are dropped. \
                     See the setting posting.queue_limit."
                );
            }
        }
    }

    /// Posts an event of any type, if posting is enabled.
    pub fn event(&self, object: &ObjectReference, type_: &str, reason: &str, message: String) {
        if self.is_enabled() {
            self.post(object, type_, reason, message);
        }
    }

    /// Posts an event of type `Normal`, if posting is enabled for that level.
    pub fn info(&self, object: &ObjectReference, reason: &str, message: String) {
        self.post_at(Level::Info, object, reason, message);
    }

    /// Posts an event of type `Warning`, if posting is enabled for that level.
    pub fn warn(&self, object: &ObjectReference, reason: &str, message: String) {
        self.post_at(Level::Warning, object, reason, message);
    }

    /// Posts an event of type `Error`, if posting is enabled for that level.
    pub fn exception(&self, object: &ObjectReference, reason: &str, message: String) {
        self.post_at(Level::Error, object, reason, message);
    }

    /// Posts a log record of an object. The caller asks [`takes_records`](Self::takes_records)
    /// before.
    pub(crate) fn record(&self, object: &ObjectReference, level: Level, message: String) {
        self.post(object, type_of(level), LOGGING, message);
    }

    /// Whether log records of this level are posted.
    pub fn takes_records(&self, level: Level) -> bool {
        self.posting()
            .is_some_and(|posting| posting.loggers && takes(posting, level))
    }

    /// How many events were dropped so far because too many were waiting.
    pub fn dropped(&self) -> u64 {
        self.desk.as_ref().map_or(0, |desk| desk.queue().dropped)
    }

    /// Whether there is nothing to send and nothing on its way.
    pub fn is_idle(&self) -> bool {
        self.desk.as_ref().is_none_or(|desk| desk.queue().is_idle())
    }

    /// Whether anything is posted at all.
    pub fn is_enabled(&self) -> bool {
        self.posting().is_some_and(|posting| posting.enabled)
    }

    fn post_at(&self, level: Level, object: &ObjectReference, reason: &str, message: String) {
        if self.posting().is_some_and(|posting| takes(posting, level)) {
            self.post(object, type_of(level), reason, message);
        }
    }

    fn posting(&self) -> Option<&settings::Posting> {
        self.desk.as_ref().map(|desk| &desk.settings.posting)
    }
}

impl fmt::Debug for Poster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poster")
            .field("enabled", &self.is_enabled())
            .field("idle", &self.is_idle())
            .finish_non_exhaustive()
    }
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic runs under the lock; the queue is whole in any case.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends what was left with the poster, one by one, until cancelled. Never ends by itself.
///
/// # Cancellation
///
/// Can be dropped at any moment: what is being sent may or may not arrive, what waits is lost.
pub async fn run(poster: Poster, client: Client) {
    let Some(desk) = poster.desk else {
        return std::future::pending().await;
    };
    loop {
        let (next, dropped) = {
            let mut queue = desk.queue();
            (
                queue.pop(),
                queue.end_of_burst(desk.settings.posting.queue_limit),
            )
        };
        if let Some(dropped) = dropped {
            tracing::warn!(
                "{dropped} k8s-events were dropped: they came faster than they could be posted."
            );
        }
        match next {
            Some((event, occurrences)) => {
                send(&client, &desk.settings.posting, &event, occurrences).await;
            }
            None => desk.arrived.notified().await,
        }
    }
}

async fn send(
    client: &Client,
    posting: &settings::Posting,
    event: &Event,
    occurrences: Occurrences,
) {
    // Events cannot be cluster-scoped: those of cluster-scoped objects go to the namespace that the
    // credentials name.
    let suggested = client.default_namespace();
    let namespace = [event.object.namespace.as_deref(), suggested.as_deref()]
        .into_iter()
        .flatten()
        .find(|namespace| !namespace.is_empty())
        .unwrap_or("default");
    let body = event.body(namespace, posting, occurrences);
    if let Err(error) = kopf_client::events::post(client, namespace, &body).await {
        if is_end_of_namespace(&error) {
            // All objects of the namespace go, and each of them has something to say.
            tracing::debug!(
                "An event is not posted, since the namespace '{namespace}' is going or gone: {error}"
            );
            return;
        }
        tracing::warn!(
            "Failed to post an event. Ignoring and continuing. {error}. \
             Event: type={:?}, reason={:?}, message={:?}.",
            event.type_,
            event.reason,
            event.message,
        );
    }
}

/// Whether there is no place for events any more.
fn is_end_of_namespace(error: &kopf_client::Error) -> bool {
    let is_terminating = || {
        let details = error.status().and_then(|status| status.details.as_ref());
        let causes = details.and_then(|details| details.get("causes")?.as_array());
        let mut causes = causes.into_iter().flatten();
        causes.any(|cause| {
            cause
                .get("reason")
                .is_some_and(|it| it == "NamespaceTerminating")
        })
    };
    error.is_not_found() || error.is_forbidden() && is_terminating()
}

/// The type of events of a level.
fn type_of(level: Level) -> &'static str {
    match level {
        Level::Debug => "Debug",
        Level::Info => "Normal",
        Level::Warning => "Warning",
        Level::Error => "Error",
    }
}

fn takes(posting: &settings::Posting, level: Level) -> bool {
    posting.enabled && level >= posting.level
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use tracing::Level as TracingLevel;

    use super::*;
    use crate::captured::capture;
    use crate::fake_api::{Answer, Log, serve};

    fn object(namespace: Option<&str>) -> ObjectReference {
        ObjectReference {
            api_version: Some("golden.example/v1".into()),
            kind: Some("Thing".into()),
            name: Some("obj".into()),
            uid: Some("8f503325".into()),
            namespace: namespace.map(Into::into),
        }
    }

    fn poster(change: impl FnOnce(&mut settings::Posting)) -> Poster {
        let mut settings = Settings::default();
        change(&mut settings.posting);
        let start = "2026-11-15T00:40:05.808732Z".parse().unwrap();
        Poster::new(Arc::new(settings), Clock::starting_at(start))
    }

    fn created() -> (Client, Log) {
        serve(|asked| Answer::Json(201, asked.body.clone()))
    }

    /// Sends everything that waits.
    async fn send_all(poster: &Poster, client: Client) {
        let sent = async {
            while !poster.is_idle() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = run(poster.clone(), client) => panic!("it ends only when it is dropped"),
            () = sent => {}
        }
    }

    fn bodies(log: &Log) -> Vec<Value> {
        log.all().into_iter().map(|asked| asked.body).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn events_look_as_those_of_the_original() {
        let (client, log) = created();
        let poster = poster(|_| {});
        let message = "hello world".to_owned();
        poster.record(&object(Some("g-s16")), Level::Info, message);
        send_all(&poster, client).await;

        let asked = log.all();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].method, "POST");
        assert_eq!(asked[0].path, "/api/v1/namespaces/g-s16/events");
        let now = "2026-11-15T00:40:05.808732+00:00";
        assert_eq!(
            asked[0].body,
            json!({
                "metadata": {"generateName": "kopf-event-", "namespace": "g-s16"},
                "involvedObject": {"kind": "Thing", "namespace": "g-s16", "name": "obj",
                                   "uid": "8f503325", "apiVersion": "golden.example/v1"},
                "reason": "Logging", "message": "hello world", "source": {"component": "kopf"},
                "firstTimestamp": now, "lastTimestamp": now, "eventTime": now,
                "type": "Normal", "action": "Action?",
                "reportingComponent": "kopf", "reportingInstance": "dev",
            })
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_settings_name_the_reporter() {
        let (client, log) = created();
        let poster = poster(|posting| {
            posting.event_name_prefix = "my-".to_owned();
            posting.reporting_component = "me".to_owned();
            posting.reporting_instance = "here".to_owned();
        });
        poster.event(&object(Some("ns")), "T", "R", String::new());
        send_all(&poster, client).await;
        let body = &bodies(&log)[0];
        assert_eq!(body["metadata"]["generateName"], "my-");
        assert_eq!(body["reportingComponent"], "me");
        assert_eq!(body["source"]["component"], "me");
        assert_eq!(body["reportingInstance"], "here");
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_are_folded_into_one() {
        let (client, log) = created();
        let poster = poster(|_| {});
        let object = object(Some("ns"));
        for message in ["same", "other", "same", "same"] {
            poster.event(&object, "Normal", "Reason", message.to_owned());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        poster.event(&object, "Warning", "Reason", "same".to_owned());
        send_all(&poster, client).await;

        let bodies = bodies(&log);
        let seen: Vec<_> = bodies
            .iter()
            .map(|body| (body["message"].as_str().unwrap(), &body["count"]))
            .collect();
        let expected = [
            ("same", &json!(3)),
            ("other", &Value::Null),
            ("same", &Value::Null),
        ];
        assert_eq!(seen, expected);
        assert_eq!(
            bodies[0]["firstTimestamp"],
            "2026-11-15T00:40:05.808732+00:00"
        );
        assert_eq!(bodies[0]["eventTime"], bodies[0]["firstTimestamp"]);
        assert_eq!(
            bodies[0]["lastTimestamp"],
            "2026-11-15T00:40:08.808732+00:00"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_are_dropped_and_reported_once() {
        let captured = capture(TracingLevel::WARN);
        let (client, log) = created();
        let poster = poster(|posting| posting.queue_limit = 20);
        for number in 0..27 {
            poster.event(&object(None), "Normal", "Reason", number.to_string());
        }
        assert_eq!(poster.dropped(), 7);
        // Those that can be folded take no place.
        poster.event(&object(None), "Normal", "Reason", "0".to_owned());
        assert_eq!(poster.dropped(), 7);
        send_all(&poster, client).await;
        assert_eq!(log.all().len(), 20);
        assert_eq!(
            captured.messages(TracingLevel::WARN),
            [
                "Too many k8s-events are waiting to be posted: new ones are dropped. See the \
                 setting posting.queue_limit.",
                "7 k8s-events were dropped: they came faster than they could be posted.",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn events_without_a_namespace_go_to_that_of_the_credentials() {
        let (client, log) = created();
        let poster = poster(|_| {});
        poster.event(&object(None), "T", "R", String::new());
        send_all(&poster, client).await;
        let asked = log.all();
        assert_eq!(asked[0].path, "/api/v1/namespaces/credentials/events");
        assert_eq!(asked[0].body["involvedObject"]["namespace"], "credentials");
        assert_eq!(asked[0].body["metadata"]["namespace"], "credentials");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_logged_and_forgotten() {
        let captured = capture(TracingLevel::WARN);
        let (client, log) = serve(|asked| match asked.body["reason"].as_str() {
            Some("Bad") => Answer::status(403),
            _ => Answer::Json(201, json!({})),
        });
        let poster = poster(|_| {});
        poster.event(&object(None), "T", "Bad", "first".to_owned());
        poster.event(&object(None), "T", "Good", "second".to_owned());
        send_all(&poster, client).await;
        assert_eq!(bodies(&log)[1]["message"], "second");
        let warnings = captured.messages(TracingLevel::WARN);
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].starts_with("Failed to post an event."),
            "{warnings:?}"
        );
        assert!(warnings[0].contains("first"), "{warnings:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_that_are_deleted_are_no_reason_to_warn() {
        let captured = capture(TracingLevel::DEBUG);
        let (client, log) = serve(|asked| match asked.body["reason"].as_str() {
            Some("Terminating") => {
                let cause = json!({"reason": "NamespaceTerminating",
                                   "message": "namespace ns is being terminated"});
                let status = json!({"kind": "Status", "code": 403, "reason": "Forbidden",
                                    "message": "forbidden", "details": {"causes": [cause]}});
                Answer::Json(403, status)
            }
            _ => Answer::status(404),
        });
        let poster = poster(|_| {});
        for reason in ["Terminating", "Gone"] {
            poster.event(&object(Some("ns")), "T", reason, "text".to_owned());
        }
        send_all(&poster, client).await;
        assert_eq!(log.all().len(), 2);
        assert!(captured.messages(TracingLevel::WARN).is_empty());
        let told = captured.messages(TracingLevel::DEBUG);
        let told = told
            .iter()
            .filter(|text| text.contains("'ns' is going or gone"));
        assert_eq!(told.count(), 2);
    }

    #[test]
    fn events_of_events_are_skipped() {
        let poster = poster(|_| {});
        let event = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Event".into()),
            ..object(Some("ns"))
        };
        poster.event(&event, "T", "R", String::new());
        poster.record(&event, Level::Error, String::new());
        assert!(poster.is_idle());
    }

    #[test]
    fn a_disabled_poster_forgets_everything() {
        let poster = Poster::disabled();
        poster.post(&object(None), "T", "R", String::new());
        assert!(poster.is_idle() && !poster.is_enabled());
        assert!(!poster.takes_records(Level::Error));
    }

    #[test]
    fn the_settings_say_what_is_posted() {
        type Call = fn(&Poster, &ObjectReference);
        let event: Call = |poster, object| poster.event(object, "T", "R", String::new());
        let info: Call = |poster, object| poster.info(object, "R", String::new());
        let warn: Call = |poster, object| poster.warn(object, "R", String::new());
        let exception: Call = |poster, object| poster.exception(object, "R", String::new());
        let calls = [event, info, warn, exception];
        for (enabled, level, expected) in [
            (true, Level::Debug, [true, true, true, true]),
            (true, Level::Info, [true, true, true, true]),
            (true, Level::Warning, [true, false, true, true]),
            (true, Level::Error, [true, false, false, true]),
            (false, Level::Debug, [false, false, false, false]),
        ] {
            let posted = calls.map(|call| {
                let poster = poster(|posting| {
                    posting.enabled = enabled;
                    posting.level = level;
                });
                call(&poster, &object(None));
                !poster.is_idle()
            });
            assert_eq!(posted, expected, "enabled={enabled} level={level:?}");
        }
    }

    #[test]
    fn log_records_are_posted_by_level_unless_turned_off() {
        let by_default = poster(|_| {});
        assert!(!by_default.takes_records(Level::Debug));
        assert!(by_default.takes_records(Level::Info));
        assert!(!poster(|posting| posting.loggers = false).takes_records(Level::Error));
        assert!(!poster(|posting| posting.enabled = false).takes_records(Level::Error));
    }
}
