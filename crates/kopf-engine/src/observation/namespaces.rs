//! The namespaces that match the patterns of the operator.

use std::collections::BTreeSet;
use std::sync::Arc;

use kopf_client::Client;
use kopf_client::watching::{Item, Signal, observe};
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::namespace::{NamespacePattern, Scope};
use kopf_core::settings::Settings;
use serde_json::Value;
use tokio::sync::watch;

use super::{FailureLog, Namespaces, builtin};
use crate::health::HealthTracker;

/// Lists and watches namespaces, and publishes the served ones.
#[derive(Debug)]
pub(crate) struct NamespaceObserver {
    pub(crate) client: Client,
    pub(crate) settings: Arc<Settings>,
    pub(crate) scope: Scope,
    pub(crate) health_tracker: HealthTracker,
    pub(crate) sender: watch::Sender<Option<Namespaces>>,
}

impl NamespaceObserver {
    /// Runs until the future is dropped.
    pub(crate) async fn run(self) {
        let patterns = match self.scope {
            Scope::Cluster => {
                publish(&self.sender, Namespaces::All);
                return std::future::pending().await;
            }
            Scope::Namespaces(patterns) => patterns,
        };
        if self.settings.scanning.disabled {
            let names = literals(&patterns);
            if names.len() < patterns.len() {
                tracing::warn!(
                    "Namespaces are not scanned (settings.scanning.disabled), so patterns match \
                     nothing. Only these namespaces are served, and assumed to exist: {names:?}"
                );
            }
            publish(&self.sender, Namespaces::Listed(names));
            return std::future::pending().await;
        }
        let resource = builtin("", "namespaces", "Namespace");
        let mut failures = FailureLog::new(
            &resource,
            "Not enough permissions to watch for namespaces: \
             changes (deletion/creation) will not be noticed until it is permitted.",
            &self.health_tracker,
        );
        let mut served = Served::new(patterns);
        let mut observer = observe(self.client, resource, None, &self.settings.watching);
        failures.health.listening(observer.pulse());
        loop {
            match observer.next().await {
                Signal::Listing => served.listing = Some(BTreeSet::new()),
                Signal::Item(item) => served.take(&item),
                Signal::Listed { .. } => {
                    served.listed();
                    failures.recovered();
                }
                Signal::Failure {
                    error, retry_in, ..
                } => {
                    if served.names.is_none() && error.is_forbidden() {
                        served.assume();
                        failures.health.refused(error.to_string());
                    } else {
                        failures.failed(&error, retry_in);
                    }
                }
            }
            if let Some(names) = served.news() {
                publish(&self.sender, Namespaces::Listed(names));
            }
        }
    }
}

fn publish(sender: &watch::Sender<Option<Namespaces>>, namespaces: Namespaces) {
    sender.send_if_modified(|published| {
        let is_new = published.as_ref() != Some(&namespaces);
        if is_new {
            *published = Some(namespaces);
        }
        is_new
    });
}

/// Returns the patterns that are plain names.
fn literals(patterns: &[NamespacePattern]) -> BTreeSet<String> {
    let names = patterns.iter().filter_map(NamespacePattern::literal);
    names.map(str::to_owned).collect()
}

#[derive(Debug)]
struct Served {
    patterns: Vec<NamespacePattern>,
    /// The served namespaces; `None` until the first listing.
    names: Option<BTreeSet<String>>,
    /// The matching namespaces of the current listing.
    listing: Option<BTreeSet<String>>,
    /// `true` if the served namespaces have changed since they were last published.
    has_changed: bool,
}

impl Served {
    fn new(patterns: Vec<NamespacePattern>) -> Self {
        Self {
            patterns,
            names: None,
            listing: None,
            has_changed: false,
        }
    }

    /// Returns the served namespaces if they have changed.
    fn news(&mut self) -> Option<BTreeSet<String>> {
        let has_changed = std::mem::take(&mut self.has_changed);
        has_changed.then(|| self.names.clone()).flatten()
    }

    fn take(&mut self, item: &Item) {
        let Some(name) = item.key.name.as_deref() else {
            return;
        };
        if !self.patterns.iter().any(|pattern| pattern.matches(name)) {
            return;
        }
        let fate = match item.event {
            EventType::Deleted => Fate::Gone,
            EventType::Listed | EventType::Added | EventType::Modified => {
                // A malformed namespace still exists.
                Body::parse(&item.raw).map_or(Fate::Alive, |body| Fate::of(&body))
            }
        };
        // A terminating namespace is served until its end, so that the finalizers of its objects
        // are removed even if the operator starts only then.
        let is_served = fate != Fate::Gone;
        let (names, is_listing) = match (&mut self.listing, &mut self.names) {
            (Some(listing), _) => (listing, true),
            (None, Some(names)) => (names, false),
            (None, None) => return,
        };
        let has_changed = if is_served {
            names.insert(name.to_owned())
        } else {
            names.remove(name)
        };
        self.has_changed |= has_changed && !is_listing;
    }

    /// Handles the end of a listing: namespaces that it does not contain are deleted.
    fn listed(&mut self) {
        if let Some(listing) = self.listing.take() {
            if self.names.is_none() {
                self.warn_of_unmatched(&listing);
            }
            self.names = Some(listing);
            self.has_changed = true;
        }
    }

    /// Logs a warning about patterns that match no namespace at the start, which are usually
    /// mistakes.
    fn warn_of_unmatched(&self, there: &BTreeSet<String>) {
        let is_unmatched =
            |pattern: &&NamespacePattern| !there.iter().any(|name| pattern.matches(name));
        let unmatched: Vec<_> = self
            .patterns
            .iter()
            .filter(is_unmatched)
            .map(ToString::to_string)
            .collect();
        if !unmatched.is_empty() {
            tracing::warn!(
                "Some patterns match no namespaces; matching namespaces are served once they \
                 exist: {unmatched:?}"
            );
        }
    }

    /// Handles missing permissions to list namespaces.
    fn assume(&mut self) {
        let names = literals(&self.patterns);
        tracing::warn!(
            "Not enough permissions to list namespaces. \
             Falling back to a list of namespaces which are assumed to exist: {names:?}"
        );
        self.names = Some(names);
        self.has_changed = true;
    }
}

/// The lifecycle phase of a namespace.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Alive,
    Terminating,
    Gone,
}

impl Fate {
    fn of(body: &Body) -> Self {
        let conditions = match body.status().get("conditions") {
            Some(Value::Array(conditions)) => conditions.as_slice(),
            _ => &[],
        };
        // A deletion timestamp is not enough: the phase must be `Terminating`.
        if !body.is_deleting() || conditions.is_empty() {
            return Self::Alive;
        }
        let name = body.name().unwrap_or_default();
        let text = |condition: &Value, key: &str| {
            let text = condition.get(key).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let mut fate = Self::Gone;
        for condition in conditions {
            if text(condition, "status") == "True" {
                fate = Self::Terminating;
                tracing::debug!(
                    "Namespace '{name}' termination pending: {}: {}",
                    text(condition, "reason"),
                    text(condition, "message")
                );
            }
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::fake_api::{FakeRequest, FakeResponse, Log, serve};

    /// An observer of a cluster with these responses.
    struct Fixture {
        published: watch::Receiver<Option<Namespaces>>,
        log: Log,
        _tasks: JoinSet<()>,
    }

    impl Fixture {
        fn new(
            patterns: &[&str],
            disabled: bool,
            respond: impl Fn(&FakeRequest) -> FakeResponse + Send + Sync + 'static,
        ) -> Self {
            let patterns = patterns.iter().map(|text| text.parse().unwrap()).collect();
            Self::in_scope(Scope::Namespaces(patterns), disabled, respond)
        }

        fn in_scope(
            scope: Scope,
            disabled: bool,
            respond: impl Fn(&FakeRequest) -> FakeResponse + Send + Sync + 'static,
        ) -> Self {
            let (client, log) = serve(respond);
            let (sender, published) = watch::channel(None);
            let mut settings = Settings::default();
            settings.scanning.disabled = disabled;
            let observer = NamespaceObserver {
                client,
                settings: Arc::new(settings),
                scope,
                health_tracker: HealthTracker::default(),
                sender,
            };
            let mut tasks = JoinSet::new();
            tasks.spawn(observer.run());
            Self {
                published,
                log,
                _tasks: tasks,
            }
        }

        async fn names(&self) -> Vec<String> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match self.published.borrow().clone().unwrap() {
                Namespaces::All => vec!["*".to_owned()],
                Namespaces::Listed(names) => names.into_iter().collect(),
            }
        }
    }

    fn namespace(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace",
               "metadata": {"name": name, "uid": name, "resourceVersion": "1"}})
    }

    fn deleted(name: &str, conditions: &Value) -> Value {
        let mut namespace = namespace(name);
        namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        namespace["status"] = json!({"conditions": conditions});
        namespace
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// Returns a cluster with these namespaces, and a sender of watch events.
    fn cluster(
        listed: Vec<Value>,
    ) -> (
        mpsc::UnboundedSender<Value>,
        impl Fn(&FakeRequest) -> FakeResponse + Send + Sync,
    ) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let receiver = std::sync::Mutex::new(Some(receiver));
        let respond = move |request: &FakeRequest| {
            if request.is_watch() {
                let lines = receiver.lock().unwrap().take();
                lines.map_or(FakeResponse::Never, FakeResponse::Lines)
            } else {
                FakeResponse::list("Namespace", &listed)
            }
        };
        (sender, respond)
    }

    #[tokio::test(start_paused = true)]
    async fn cluster_wide_mode_sends_no_requests() {
        let fixture = Fixture::in_scope(Scope::Cluster, false, |_| FakeResponse::status(500));
        assert_eq!(fixture.names().await, names(&["*"]));
        assert!(fixture.log.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn unmatched_patterns_are_warned_of_once() {
        let captured = capture(Level::WARN);
        let (lines, respond) = cluster(vec![namespace("a1"), namespace("b")]);
        let fixture = Fixture::new(&["a*", "b", "c", "d*"], false, respond);
        assert_eq!(fixture.names().await, names(&["a1", "b"]));
        let warnings = captured.messages(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].ends_with(r#": ["c", "d*"]"#), "{warnings:?}");
        lines
            .send(json!({"type": "ADDED", "object": namespace("c")}))
            .unwrap();
        assert_eq!(fixture.names().await, names(&["a1", "b", "c"]));
        lines
            .send(json!({"type": "DELETED", "object": namespace("c")}))
            .unwrap();
        assert_eq!(fixture.names().await, names(&["a1", "b"]));
        assert_eq!(captured.messages(Level::WARN).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_scanning_plain_names_are_served() {
        let captured = capture(Level::WARN);
        let fixture = Fixture::new(&["a"], true, |_| FakeResponse::status(500));
        assert_eq!(fixture.names().await, names(&["a"]));
        assert!(fixture.log.all().is_empty());
        assert!(captured.messages(Level::WARN).is_empty());
        let fixture = Fixture::new(&["a", "b*", "c,d"], true, |_| FakeResponse::status(500));
        assert_eq!(fixture.names().await, names(&["a"]));
        let warnings = captured.messages(Level::WARN);
        assert!(
            warnings[0].contains("patterns match nothing"),
            "{warnings:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn terminating_namespaces_are_served_until_they_are_gone() {
        let pending = json!([{"type": "NamespaceFinalizersRemaining", "status": "True"}]);
        let (lines, respond) = cluster(vec![deleted("app", &pending)]);
        let fixture = Fixture::new(&["*"], false, respond);
        assert_eq!(fixture.names().await, names(&["app"]));
        let gone = json!({"type": "DELETED", "object": deleted("app", &pending)});
        lines.send(gone).unwrap();
        assert_eq!(fixture.names().await, names(&[]));
    }

    #[tokio::test(start_paused = true)]
    async fn matching_namespaces_come_and_go() {
        let captured = capture(Level::DEBUG);
        let (lines, respond) = cluster(vec![namespace("app-1"), namespace("kube-system")]);
        let fixture = Fixture::new(&["app-*"], false, respond);
        assert_eq!(fixture.names().await, names(&["app-1"]));
        let send = |type_: &str, object: Value| {
            lines
                .send(json!({"type": type_, "object": object}))
                .unwrap();
        };
        send("ADDED", namespace("app-2"));
        send("ADDED", namespace("other"));
        assert_eq!(fixture.names().await, names(&["app-1", "app-2"]));
        send("DELETED", namespace("app-1"));
        assert_eq!(fixture.names().await, names(&["app-2"]));
        let started = "Starting the watch-stream for namespaces.v1 cluster-wide.".to_owned();
        assert!(captured.messages(Level::DEBUG).contains(&started));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_served_until_its_termination_is_not_pending() {
        let (lines, respond) = cluster(vec![namespace("app")]);
        let fixture = Fixture::new(&["*"], false, respond);
        let pending = json!([{"type": "NamespaceContentRemaining", "status": "True",
                              "reason": "SomeResourcesRemain", "message": "things."}]);
        let done = json!([{"type": "NamespaceContentRemaining", "status": "False"}]);
        for (conditions, expected) in [(json!([]), &["app"][..]), (pending, &["app"]), (done, &[])]
        {
            let object = deleted("app", &conditions);
            lines
                .send(json!({"type": "MODIFIED", "object": object}))
                .unwrap();
            assert_eq!(fixture.names().await, names(expected), "{conditions}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_missing_in_a_new_listing_are_gone() {
        let listings = std::sync::Mutex::new(vec![vec![namespace("b")], vec![namespace("a")]]);
        let (sender, receiver) = mpsc::unbounded_channel();
        let receiver = std::sync::Mutex::new(Some(receiver));
        let fixture = Fixture::new(&["*"], false, move |request| {
            if request.is_watch() {
                let lines = receiver.lock().unwrap().take();
                lines.map_or(FakeResponse::Never, FakeResponse::Lines)
            } else {
                let listed = listings.lock().unwrap().pop();
                FakeResponse::list("Namespace", &listed.unwrap_or_default())
            }
        });
        assert_eq!(fixture.names().await, names(&["a"]));
        let status = json!({"kind": "Status", "code": 410, "message": "too old"});
        sender
            .send(json!({"type": "ERROR", "object": status}))
            .unwrap();
        assert_eq!(fixture.names().await, names(&["b"]));
    }

    #[tokio::test(start_paused = true)]
    async fn without_permissions_plain_names_are_assumed_to_exist() {
        let captured = capture(Level::WARN);
        let fixture = Fixture::new(&["b", "a", "c*"], false, |_| FakeResponse::status(403));
        assert_eq!(fixture.names().await, names(&["a", "b"]));
        assert_eq!(
            captured.messages(Level::WARN),
            [
                "Not enough permissions to list namespaces. Falling back to a list of namespaces \
              which are assumed to exist: {\"a\", \"b\"}"
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn without_permissions_to_watch_the_listed_ones_are_served() {
        let captured = capture(Level::WARN);
        let fixture = Fixture::new(&["*"], false, |request| {
            if request.is_watch() {
                FakeResponse::status(403)
            } else {
                FakeResponse::list("Namespace", &[namespace("a")])
            }
        });
        assert_eq!(fixture.names().await, names(&["a"]));
        let warnings = captured.messages(Level::WARN);
        assert!(
            warnings[0].starts_with("Not enough permissions to watch for namespaces"),
            "{warnings:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_published_before_the_first_listing() {
        let fixture = Fixture::new(&["a"], false, |_| FakeResponse::Never);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(fixture.published.borrow().is_none());
    }
}
