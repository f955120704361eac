//! The verb `watch`: a stream of changes that match the selectors.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use kopf_sandbox_schema::kind::Kind;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Call;
use super::list::{Filter, check_options};
use crate::body::BodyError;
use crate::cluster::{Cluster, collection, parents};
use crate::fault::{ConnectionBroken, EventVerdict, RequestFacts, Verb};
use crate::respond::EventForm;
use crate::status::{ApiError, Result};
use crate::store::{Change, Entry, Reader, Stored, Subscription, event_line};

/// Maximum number of changes that are read from the log at once.
const BATCH: usize = 256;
/// Interval of bookmarks on an idle stream.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Default timeout of a watch.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// An injected fault that interrupts the stream.
enum PendingFault {
    /// The line is sent at this time, and later ones wait for it. `None`: never.
    Delay(Option<Instant>, Bytes),
    /// The connection breaks.
    Break,
    /// Nothing more is sent.
    Silence,
}

/// One open watch.
#[expect(
    missing_debug_implementations,
    reason = "its buffers contain whole objects"
)]
pub struct Watcher {
    cluster: Arc<Cluster>,
    kind: Arc<Kind>,
    version: Arc<str>,
    subscription: Subscription,
    filter: Filter,
    form: EventForm,
    user: String,
    /// The revision up to which changes were read.
    seen: u64,
    /// Changes up to `seen` that are not serialised yet.
    pending: VecDeque<Arc<Entry>>,
    /// The pending fault of the stream.
    pending_fault: Option<PendingFault>,
    /// Initial objects that are not sent yet.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// `true` if a bookmark follows the initial objects.
    ends_initial_events: bool,
    ready: VecDeque<Bytes>,
    kills: watch::Receiver<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends_at: Instant,
    /// The revision at which the timeout of the stream was detected.
    last: Option<u64>,
    ended: bool,
}

impl Cluster {
    /// Starts a watch. The stream yields whole lines.
    pub fn watch(self: &Arc<Self>, call: &Call) -> Result<Watcher> {
        check_options(&call.options)?;
        let filter = Filter::of(call)?;
        let collection = collection(&call.kind);
        // Subscribing before reading the state ensures that no change is missed.
        let subscription = self
            .store
            .subscribe(&collection, &parents(&call.kind, None))
            .ok_or_else(ApiError::no_such_path)?;
        let kills = self.faults.watch_kills();
        let now = Instant::now();
        let mut watcher = Watcher {
            cluster: Arc::clone(self),
            kind: Arc::clone(&call.kind),
            version: Arc::clone(&call.version),
            subscription,
            filter,
            form: EventForm::of(call),
            user: call.user.username.clone(),
            seen: 0,
            pending: VecDeque::new(),
            pending_fault: None,
            initial: Vec::new().into_iter(),
            ends_initial_events: false,
            ready: VecDeque::new(),
            kills,
            bookmarks: call.options.bookmarks,
            next_bookmark: now + BOOKMARK_INTERVAL,
            ends_at: now + call.options.timeout.unwrap_or(LONGEST).min(LONGEST * 24),
            last: None,
            ended: false,
        };
        watcher.start(call)?;
        if call.options.timeout == Some(Duration::ZERO) {
            watcher.end(); // as on a real server, without initial events
        }
        let now = self.kinds();
        if call.kind.is_custom()
            && !now
                .by_plural(&call.kind.group, &call.kind.plural)
                .is_some_and(|now| Arc::ptr_eq(now, &call.kind))
        {
            // The CRD has changed since the request was parsed, too late for an error response.
            watcher.ended = true;
        }
        Ok(watcher)
    }
}

impl Watcher {
    fn start(&mut self, call: &Call) -> Result<()> {
        let version = call.options.resource_version.as_deref();
        let wanted = match version {
            None | Some("0") => None,
            Some(version) => Some(crate::call::parse_version(version)?),
        };
        let initial = call.options.send_initial_events;
        if initial == Some(true)
            && let Some(version) = version.filter(|version| *version != "0")
            && let Err(too_new) = self.cluster.check_not_too_new(version)
        {
            self.fail(&too_new);
            return Ok(());
        }
        let from_the_state = initial.unwrap_or(wanted.is_none());
        if from_the_state {
            let snapshot = self
                .cluster
                .store
                .list_subscribed(&self.subscription, self.filter.namespace.as_deref());
            self.seen = snapshot.revision;
            self.initial = snapshot.objects.into_iter();
            self.ends_initial_events = initial == Some(true) && self.bookmarks;
        } else {
            self.seen = match wanted {
                Some(wanted) => wanted,
                None => self.cluster.store.revision(),
            };
            // An expired version is reported in the stream, as by a real server.
            if let Err(expired) =
                self.cluster
                    .store
                    .changes(&self.subscription, self.seen, 1, Reader::New)
            {
                self.fail(&too_old(self.seen, expired.oldest));
            }
        }
        Ok(())
    }

    /// Returns the stream of lines.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
        futures::stream::unfold(self, |mut watcher| async move {
            let item = watcher.next().await?;
            Some((item, watcher))
        })
    }

    /// Returns the next lines, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if !self.is_over() && self.kills.has_changed().unwrap_or(false) {
                return Some(Err(self.break_off()));
            }
            if let Err(error) = self.begin().await {
                self.end();
                self.fail(&error);
            }
            if !self.ready.is_empty() {
                if self.cluster.store.durable().await.is_err() {
                    return Some(Err(self.break_off()));
                }
                return Some(Ok(self.take_ready()));
            }
            match self.pending_fault {
                None => {}
                Some(PendingFault::Break) => return Some(Err(self.break_off())),
                Some(PendingFault::Silence) => {
                    self.wait(None).await;
                    continue;
                }
                Some(PendingFault::Delay(until, _)) => {
                    if self.wait(until).await
                        && let Some(PendingFault::Delay(_, line)) = self.pending_fault.take()
                    {
                        self.ready.push_back(line);
                    }
                    continue;
                }
            }
            if !self.pending.is_empty() {
                self.serialise_pending();
                continue;
            }
            if self.ended {
                return None;
            }
            if Instant::now() >= self.ends_at {
                // A slow client still gets the changes before the timeout; then the stream ends
                // even if there are newer ones.
                let last = *self
                    .last
                    .get_or_insert_with(|| self.cluster.store.revision());
                if self.seen >= last {
                    self.time_out();
                    continue;
                }
            }
            self.read_changes().await;
        }
    }

    /// Reads the next changes, or waits for them.
    async fn read_changes(&mut self) {
        self.subscription.news.mark_unchanged();
        let store = &self.cluster.store;
        let changes = match store.changes(&self.subscription, self.seen, BATCH, Reader::Live) {
            Ok(changes) => changes,
            Err(expired) => return self.fail(&too_old(self.seen, expired.oldest)),
        };
        let whole = changes.entries.len() < BATCH;
        match self.converted(changes.entries).await {
            Ok(entries) => self.pending.extend(entries),
            Err(error) => return self.fail(&error),
        }
        self.seen = changes.complete;
        self.ended |= changes.closed && whole;
        if self.pending.is_empty() && !self.ended {
            self.wait_for_news().await;
        }
    }

    async fn wait_for_news(&mut self) {
        tokio::select! {
            biased;
            () = self.cluster.stopping.cancelled() => self.ended = true,
            // Evaluated after this select.
            () = wait_for_change(&mut self.kills) => {}
            // Evaluated in any case: a closed channel can have a last entry.
            _ = self.subscription.news.changed() => {}
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                let line = self.bookmark(false);
                self.ready.push_back(line);
            }
            () = tokio::time::sleep_until(self.ends_at) => {}
        }
    }

    /// Waits for a time, or forever. Returns `false` if the stream must end or break before.
    async fn wait(&mut self, until: Option<Instant>) -> bool {
        let time = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cluster.stopping.cancelled() => {
                self.end();
                false
            }
            () = wait_for_change(&mut self.kills) => false,
            () = time => true,
        }
    }

    /// Returns `true` if there is nothing left to send.
    fn is_over(&self) -> bool {
        self.ended
            && self.initial.len() == 0
            && self.ready.is_empty()
            && self.pending.is_empty()
            && self.pending_fault.is_none()
    }

    /// Ends the stream.
    fn end(&mut self) {
        self.ended = true;
        self.initial = Vec::new().into_iter();
        self.ends_initial_events = false;
        self.ready.clear();
        self.pending.clear();
        self.pending_fault = None;
    }

    /// Breaks the stream, like a lost connection.
    fn break_off(&mut self) -> BodyError {
        self.end();
        ConnectionBroken.into()
    }

    /// Ends the stream after its timeout.
    fn time_out(&mut self) {
        self.ended = true;
        if self.bookmarks {
            let line = self.bookmark(false);
            self.ready.push_back(line);
        }
    }

    /// Returns the ready lines, joined up to the size of a frame.
    fn take_ready(&mut self) -> Bytes {
        if self.ready.len() == 1 {
            return self.ready.pop_front().unwrap_or_default();
        }
        let mut joined = Vec::new();
        while joined.len() < 64 * 1024
            && let Some(line) = self.ready.pop_front()
        {
            joined.extend_from_slice(&line);
        }
        Bytes::from(joined)
    }

    /// Serialises the next few initial objects. In batches, because all of them may not fit into
    /// memory a second time.
    async fn begin(&mut self) -> Result<()> {
        if self.initial.len() == 0 && !self.ends_initial_events {
            return Ok(());
        }
        let room = BATCH.saturating_sub(self.ready.len());
        let next: Vec<Arc<Stored>> = self.initial.by_ref().take(room).collect();
        for stored in self.in_version(next).await? {
            let entry = Entry::new(Change::Added, stored, None);
            if let Some((change, stored)) = self.seen_as(&entry) {
                let line = self.line(change, &stored, Some(&entry));
                self.ready.push_back(line);
            }
        }
        if self.initial.len() > 0 {
            tokio::task::yield_now().await; // other requests are served between two batches
        } else if std::mem::take(&mut self.ends_initial_events) {
            let line = self.bookmark(true);
            self.ready.push_back(line);
        }
        Ok(())
    }

    /// Converts objects to the version of the watch. Fails if the server stops meanwhile.
    async fn in_version(&self, stored: Vec<Arc<Stored>>) -> Result<Vec<Arc<Stored>>> {
        let convert = self
            .cluster
            .all_in_version(stored, &self.kind, &self.version);
        let stopped = || ApiError::unavailable("the sandbox has ended");
        let stopping = &self.cluster.stopping;
        stopping
            .run_until_cancelled(convert)
            .await
            .unwrap_or_else(|| Err(stopped()))
    }

    /// Converts changes to the version of the watch.
    async fn converted(&self, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>> {
        if self.kind.conversion_webhook.is_none() {
            return Ok(entries);
        }
        let relevant: Vec<Arc<Entry>> = entries
            .into_iter()
            .filter(|entry| self.filter.matches_key(&entry.object.key))
            .collect();
        let objects = relevant.iter().map(|entry| Arc::clone(&entry.object));
        let objects = self.in_version(objects.collect()).await?;
        // Only selectors need the previous state.
        let mut previous: Vec<Option<Arc<Stored>>> = Vec::with_capacity(relevant.len());
        for entry in &relevant {
            let before = entry
                .previous
                .clone()
                .filter(|_| !self.filter.selects_all());
            let before = self.in_version(before.into_iter().collect()).await?;
            previous.push(before.into_iter().next());
        }
        let converted = relevant.iter().zip(objects).zip(previous);
        Ok(converted
            .map(|((entry, object), previous)| Entry::new(entry.change, object, previous))
            .collect())
    }

    /// Serialises changes, up to one with a fault.
    fn serialise_pending(&mut self) {
        while self.pending_fault.is_none()
            && let Some(entry) = self.pending.pop_front()
        {
            let Some((change, stored)) = self.seen_as(&entry) else {
                continue;
            };
            let key = &stored.key;
            let facts = RequestFacts {
                verb: Verb::Watch,
                group: &self.kind.group,
                resource: &self.kind.plural,
                subresource: None,
                namespace: key.namespace(),
                name: Some(&key.name),
                user: &self.user,
            };
            let fate = self.cluster.faults.on_watch_event(&facts);
            let same = change == entry.change && Arc::ptr_eq(&stored, &entry.object);
            let mut line = || self.line(change, &stored, same.then_some(&entry));
            match fate {
                EventVerdict::Deliver => {
                    let line = line();
                    self.ready.push_back(line);
                }
                EventVerdict::Drop => {}
                EventVerdict::Delay(time) => {
                    let line = line();
                    self.pending_fault =
                        Some(PendingFault::Delay(Instant::now().checked_add(time), line));
                }
                EventVerdict::Freeze => self.pending_fault = Some(PendingFault::Silence),
                EventVerdict::Cut => self.pending_fault = Some(PendingFault::Break),
            }
        }
    }

    /// Returns the event that a change is for the selectors.
    fn seen_as(&self, entry: &Arc<Entry>) -> Option<(Change, Arc<Stored>)> {
        let kind = &self.kind;
        if !self.filter.matches_key(&entry.object.key) {
            return None;
        }
        if !self.filter.matches_shard(&entry.object) {
            return None;
        }
        if self.filter.selects_all() {
            return Some((entry.change, Arc::clone(&entry.object)));
        }
        let (labels_before, labels_after) = entry.labels();
        let before = entry.previous.as_ref().is_some_and(|previous| {
            self.filter.matches_labels(labels_before) && self.filter.matches_fields(kind, previous)
        });
        let after = entry.change != Change::Deleted
            && self.filter.matches_labels(labels_after)
            && self.filter.matches_fields(kind, &entry.object);
        let change = match (before, after) {
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
            (false, false) => return None,
        };
        match &entry.previous {
            // An object that leaves the selection is sent in its last matching state.
            Some(previous) if change == Change::Deleted && entry.change != Change::Deleted => {
                Some((change, Arc::new(previous.at_revision(entry.revision()))))
            }
            _ => Some((change, Arc::clone(&entry.object))),
        }
    }

    /// Serialises one event in the requested form.
    fn line(&mut self, change: Change, stored: &Arc<Stored>, entry: Option<&Arc<Entry>>) -> Bytes {
        if self.form.is_whole() {
            if Cluster::is_as_stored(stored, &self.kind, &self.version) {
                return match entry {
                    Some(entry) => entry.frame(),
                    None => event_line(change.event_type(), &stored.raw),
                };
            }
            return event_line(
                change.event_type(),
                &Cluster::bytes(stored, &self.kind, &self.version),
            );
        }
        let object = Cluster::object(stored, &self.kind, &self.version);
        let shown = self
            .form
            .show(&self.kind, &self.version, object, self.cluster.clock.now());
        event_line(change.event_type(), shown.to_string().as_bytes())
    }

    /// Returns a bookmark of the current revision.
    fn bookmark(&mut self, end_of_initial_events: bool) -> Bytes {
        let mut metadata = json!({ "resourceVersion": self.seen.to_string() });
        if end_of_initial_events {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = json!({
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version(&self.version),
            "metadata": metadata,
        });
        let now = self.cluster.clock.now();
        let shown = self.form.show(&self.kind, &self.version, object, now);
        event_line("BOOKMARK", shown.to_string().as_bytes())
    }

    /// Ends the stream with an ERROR event.
    fn fail(&mut self, error: &ApiError) {
        self.ready
            .push_back(event_line("ERROR", error.body().to_string().as_bytes()));
        self.ended = true;
    }
}

/// Waits until the value is marked as changed, without clearing the mark. Never returns if its
/// sender is dropped.
async fn wait_for_change(value: &mut watch::Receiver<u64>) {
    if value.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    value.mark_changed();
}

fn too_old(wanted: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {wanted} ({oldest})"))
}
