//! The resources of the cluster, which change with their CRDs.
//!
//! Resources come from discovery; events of CRDs only trigger new scans of their groups. The
//! resources of groups whose scan fails are kept, and the scan is retried.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use kopf_client::discovery::{self, Groups};
use kopf_client::watching::{Observer, Signal, observe};
use kopf_client::{Client, Error};
use kopf_core::resource::Resource;
use kopf_core::selector::Selector;
use kopf_core::settings::Settings;
use tokio::sync::watch;

use super::known_resources::KnownResources;
use super::{FailureLog, Resources, builtin};
use crate::health::HealthTracker;

/// Maximum number of events before a scan, so that a constant stream of events cannot delay scans.
const BATCH: usize = 1_000;

/// Returns the API groups that the handlers select.
pub(crate) fn wanted_groups<'a>(selectors: impl Iterator<Item = &'a Selector>) -> Groups {
    let groups: Option<BTreeSet<String>> = selectors
        .map(|selector| selector.group().map(str::to_owned))
        .collect();
    groups.map_or(Groups::All, Groups::Only)
}

/// Discovers resources, watches CRDs, and publishes the resources.
#[derive(Debug)]
pub(crate) struct ResourceObserver {
    pub(crate) client: Client,
    pub(crate) settings: Arc<Settings>,
    pub(crate) groups: Groups,
    pub(crate) health_tracker: HealthTracker,
    pub(crate) sender: watch::Sender<Option<Resources>>,
}

impl ResourceObserver {
    /// Runs until the future is dropped. Returns an error only if the first scan fails.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let scan = discovery::scan(&self.client, &self.groups).await?;
        let mut known = KnownResources::new(self.groups.clone());
        known.take(&self.groups, Ok(scan));
        self.publish(&known);

        let mut stream = (!self.settings.scanning.disabled).then(|| self.stream());
        loop {
            if let Some(groups) = known.due() {
                let scan = discovery::scan(&self.client, &groups).await;
                known.take(&groups, scan);
                self.publish(&known);
            }
            tokio::select! {
                () = known.schedule.wait() => {}
                signal = next(&mut stream) => notice(signal, &mut known, stream.as_mut()),
            }
            // CRDs often change in bursts, for which one scan is enough.
            for _ in 0..BATCH {
                match next(&mut stream).now_or_never() {
                    Some(signal) => notice(signal, &mut known, stream.as_mut()),
                    None => break,
                }
            }
        }
    }

    fn stream(&self) -> Definitions {
        let resource = builtin(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        );
        let failures = FailureLog::new(
            &resource,
            "Not enough permissions to watch for resources: \
             changes (creation/deletion/updates) will not be noticed until it is permitted.",
            &self.health_tracker,
        );
        let observer = observe(self.client.clone(), resource, None, &self.settings.watching);
        failures.health.listening(observer.pulse());
        Definitions { observer, failures }
    }

    fn publish(&self, known: &KnownResources) {
        self.sender.send_if_modified(|published| {
            let resources: BTreeSet<Arc<Resource>> = known.resources().cloned().collect();
            let is_new = published.as_ref().is_none_or(|published| {
                let mut pairs = published.iter().zip(&resources);
                published.len() != resources.len() || !pairs.all(|(old, new)| old.is_identical(new))
            });
            if is_new {
                *published = Some(Arc::new(resources));
            }
            is_new
        });
    }
}

/// The watch stream of CRDs.
struct Definitions {
    observer: Observer,
    failures: FailureLog,
}

fn notice(signal: Signal, known: &mut KnownResources, stream: Option<&mut Definitions>) {
    match signal {
        Signal::Item(item) => known.definition(&item),
        Signal::Listed { .. } => {
            known.listed();
            if let Some(stream) = stream {
                stream.failures.recovered();
            }
        }
        Signal::Failure {
            error, retry_in, ..
        } => {
            known.missed();
            if let Some(stream) = stream {
                stream.failures.failed(&error, retry_in);
            }
        }
        Signal::Listing => {}
    }
}

async fn next(stream: &mut Option<Definitions>) -> Signal {
    match stream {
        Some(stream) => stream.observer.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::Duration;

    use serde_json::{Value, json};
    use tokio::sync::mpsc;
    use tokio::task::JoinSet;
    use tracing::Level;

    use super::*;
    use crate::captured::capture;
    use crate::fake_api::{FakeResponse, Log, discover, kind, serve};

    const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    /// A cluster whose resources can be changed.
    #[derive(Default)]
    struct Cluster {
        kinds: Vec<Resource>,
        /// Rejected paths with their responses.
        refused: BTreeMap<String, u16>,
        /// Names of the listed CRDs.
        listed: Vec<String>,
        watcher: Option<mpsc::UnboundedReceiver<Value>>,
    }

    struct Fixture {
        cluster: Arc<Mutex<Cluster>>,
        lines: mpsc::UnboundedSender<Value>,
        published: watch::Receiver<Option<Resources>>,
        log: Log,
        tasks: JoinSet<Result<(), Error>>,
    }

    impl Fixture {
        fn new(cluster: Cluster, groups: Groups, disabled: bool) -> Self {
            let (lines, watcher) = mpsc::unbounded_channel();
            let cluster = Arc::new(Mutex::new(Cluster {
                watcher: Some(watcher),
                ..cluster
            }));
            let served = Arc::clone(&cluster);
            let (client, log) = serve(move |request| {
                let mut cluster = served.lock().unwrap();
                if let Some(code) = cluster.refused.get(&request.path) {
                    FakeResponse::status(*code)
                } else if request.path == CRDS && request.is_watch() {
                    let watcher = cluster.watcher.take();
                    watcher.map_or(FakeResponse::Never, FakeResponse::Lines)
                } else if request.path == CRDS {
                    let items: Vec<_> =
                        cluster.listed.iter().map(|name| definition(name)).collect();
                    FakeResponse::list("CustomResourceDefinition", &items)
                } else {
                    discover(request, &cluster.kinds).unwrap_or_else(|| FakeResponse::status(404))
                }
            });
            let mut settings = Settings::default();
            settings.scanning.disabled = disabled;
            let (sender, published) = watch::channel(None);
            let observer = ResourceObserver {
                health_tracker: HealthTracker::default(),
                client,
                settings: Arc::new(settings),
                groups,
                sender,
            };
            let mut tasks = JoinSet::new();
            tasks.spawn(observer.run());
            Self {
                cluster,
                lines,
                published,
                log,
                tasks,
            }
        }

        fn change(&self, change: impl FnOnce(&mut Cluster)) {
            change(&mut self.cluster.lock().unwrap());
        }

        fn send(&self, type_: &str, name: &str) {
            let line = json!({"type": type_, "object": definition(name)});
            self.lines.send(line).unwrap();
        }

        fn send_too_old(&self) {
            let status = json!({"kind": "Status", "code": 410, "message": "too old"});
            let line = json!({"type": "ERROR", "object": status});
            self.lines.send(line).unwrap();
        }

        async fn kinds(&self) -> Vec<String> {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let published = self.published.borrow().clone().unwrap();
            published.iter().map(ToString::to_string).collect()
        }
    }

    fn definition(name: &str) -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
               "metadata": {"name": name, "uid": name, "resourceVersion": "1"}})
    }

    fn only(groups: &[&str]) -> Groups {
        Groups::Only(groups.iter().map(|&group| group.to_owned()).collect())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn with(kinds: &[Resource]) -> Cluster {
        Cluster {
            kinds: kinds.to_vec(),
            ..Cluster::default()
        }
    }

    #[test]
    fn groups_are_those_of_the_handlers_unless_a_selector_has_none() {
        let grouped = Selector::parse(&["one", "v1", "things"]).unwrap();
        let core = Selector::parse(&["v1", "pods"]).unwrap();
        let any = Selector::parse(&["things"]).unwrap();
        let Groups::Only(groups) = wanted_groups([&grouped, &core].into_iter()) else {
            panic!("all groups");
        };
        assert_eq!(groups, BTreeSet::from([String::new(), "one".to_owned()]));
        assert!(matches!(
            wanted_groups([&grouped, &any].into_iter()),
            Groups::All
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn resources_follow_their_crds() {
        let captured = capture(Level::DEBUG);
        let fixture = Fixture::new(with(&[kind("one", "things")]), Groups::All, false);
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        fixture.change(|cluster| cluster.kinds.push(kind("two", "others")));
        fixture.send("ADDED", "others.two");
        assert_eq!(
            fixture.kinds().await,
            names(&["things.v1.one", "others.v1.two"])
        );
        fixture.change(|cluster| cluster.kinds.truncate(1));
        fixture.send("DELETED", "others.two");
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        let started = "Starting the watch-stream for \
                       customresourcedefinitions.v1.apiextensions.k8s.io cluster-wide.";
        assert!(
            captured
                .messages(Level::DEBUG)
                .contains(&started.to_owned())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_group_of_a_changed_crd_is_scanned_again() {
        let kinds = [kind("one", "things"), kind("two", "others")];
        let fixture = Fixture::new(with(&kinds), only(&["one", "two"]), false);
        fixture.kinds().await;
        let before = fixture.log.count("/apis/one/v1");
        fixture.send("MODIFIED", "others.two");
        fixture.send("MODIFIED", "others.two");
        fixture.send("MODIFIED", "unwanted.three");
        fixture.kinds().await;
        assert_eq!(fixture.log.count("/apis/one/v1"), before);
        assert_eq!(fixture.log.count("/apis/two/v1"), 2, "once for both events");
    }

    #[tokio::test(start_paused = true)]
    async fn late_discovery_of_a_new_resource_is_repeated() {
        let fixture = Fixture::new(with(&[]), Groups::All, false);
        assert_eq!(fixture.kinds().await, names(&[]));
        fixture.send("ADDED", "things.one");
        assert_eq!(fixture.kinds().await, names(&[]));
        fixture.change(|cluster| cluster.kinds.push(kind("one", "things")));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
    }

    #[tokio::test(start_paused = true)]
    async fn listed_crds_of_known_resources_trigger_no_scan() {
        let cluster = Cluster {
            listed: vec!["things.one".to_owned(), "others.two".to_owned()],
            ..with(&[kind("one", "things"), kind("two", "seconds")])
        };
        let fixture = Fixture::new(cluster, only(&["one", "two"]), false);
        fixture.kinds().await;
        assert_eq!(fixture.log.count("/apis/one/v1"), 1);
        assert_eq!(fixture.log.count("/apis/two/v1"), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_listing_triggers_a_full_scan() {
        let fixture = Fixture::new(with(&[kind("one", "things")]), Groups::All, false);
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        fixture.change(|cluster| cluster.kinds = vec![kind("two", "others")]);
        fixture.send_too_old();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(fixture.kinds().await, names(&["others.v1.two"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_full_scan_is_repeated() {
        let fixture = Fixture::new(with(&[kind("one", "things")]), Groups::All, false);
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        fixture.change(|cluster| {
            cluster.kinds.push(kind("two", "others"));
            cluster.refused.insert("/apis".to_owned(), 403);
        });
        fixture.send_too_old();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        fixture.change(|cluster| cluster.refused.clear());
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(
            fixture.kinds().await,
            names(&["things.v1.one", "others.v1.two"])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_group_is_retried_while_others_are_served() {
        let captured = capture(Level::INFO);
        let mut cluster = with(&[kind("one", "things"), kind("two", "others")]);
        cluster.refused.insert("/apis/two/v1".to_owned(), 403);
        let fixture = Fixture::new(cluster, Groups::All, false);
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        assert_eq!(captured.messages(Level::WARN).len(), 1);
        fixture.change(|cluster| cluster.refused.clear());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(
            fixture.kinds().await,
            names(&["things.v1.one", "others.v1.two"])
        );
        assert_eq!(
            captured.messages(Level::INFO),
            ["API group 'two' can be scanned again."]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn resources_of_a_failing_group_are_kept() {
        let fixture = Fixture::new(with(&[kind("one", "things")]), Groups::All, false);
        fixture.kinds().await;
        fixture.change(|cluster| {
            cluster.refused.insert("/apis/one/v1".to_owned(), 403);
        });
        fixture.send("MODIFIED", "things.one");
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_with_delays() {
        let fixture = Fixture::new(with(&[kind("one", "things")]), only(&["one"]), false);
        fixture.kinds().await;
        fixture.change(|cluster| {
            cluster.refused.insert("/apis".to_owned(), 403);
        });
        fixture.send("MODIFIED", "things.one");
        fixture.send_too_old();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let scans = fixture.log.count("/apis");
        assert!((3..50).contains(&scans), "{scans} times");
    }

    #[tokio::test(start_paused = true)]
    async fn without_permissions_to_watch_the_first_scan_is_served() {
        let captured = capture(Level::WARN);
        let mut cluster = with(&[kind("one", "things")]);
        cluster.refused.insert(CRDS.to_owned(), 403);
        let fixture = Fixture::new(cluster, Groups::All, false);
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let warnings = captured.messages(Level::WARN);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("Not enough permissions to watch for resources"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_scanning_definitions_are_not_watched() {
        let fixture = Fixture::new(with(&[kind("one", "things")]), Groups::All, true);
        assert_eq!(fixture.kinds().await, names(&["things.v1.one"]));
        assert!(fixture.log.all().iter().all(|request| request.path != CRDS));
    }

    #[tokio::test(start_paused = true)]
    async fn changed_details_of_a_resource_are_published() {
        let mut fixture = Fixture::new(with(&[kind("one", "things")]), Groups::All, false);
        fixture.kinds().await;
        fixture.published.mark_unchanged();
        fixture.send("MODIFIED", "things.one");
        fixture.kinds().await;
        assert!(
            !fixture.published.has_changed().unwrap(),
            "nothing has changed"
        );
        fixture.change(|cluster| cluster.kinds[0].namespaced = false);
        fixture.send("MODIFIED", "things.one");
        fixture.kinds().await;
        assert!(fixture.published.has_changed().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn failure_of_the_first_scan_is_an_error() {
        let mut cluster = with(&[]);
        cluster.refused.insert("/api".to_owned(), 403);
        cluster.refused.insert("/apis".to_owned(), 403);
        let mut fixture = Fixture::new(cluster, Groups::All, false);
        let outcome = fixture.tasks.join_next().await.unwrap().unwrap();
        assert!(outcome.unwrap_err().is_forbidden());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(fixture.published.borrow().is_none());
    }
}
