//! `watch`: a stream of changes, as seen through the selectors of the client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Call;
use super::list::{Filter, check_options};
use crate::answer::EventForm;
use crate::body::BodyError;
use crate::cluster::{Cluster, collection, parents};
use crate::fault::{ConnectionBroken, EventFate, RequestFacts, Verb};
use crate::kinds::Kind;
use crate::status::{ApiError, Result};
use crate::store::{Change, Entry, Reader, Stored, Subscription, event_line};

/// How many changes are taken from the log at a time.
const BATCH: usize = 256;
/// How often clients that want bookmarks get one on a quiet stream.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a watch lasts when the client does not say.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What stands between what was sent already and the rest of the stream.
enum Obstacle {
    /// This line is sent at its time, and nothing overtakes it. No time: never.
    Delay(Option<Instant>, Bytes),
    /// The connection breaks.
    Break,
    /// Nothing more is said.
    Silence,
}

/// One open watch.
pub(crate) struct Watcher {
    cluster: Arc<Cluster>,
    kind: Arc<Kind>,
    version: Arc<str>,
    subscription: Subscription,
    filter: Filter,
    form: EventForm,
    user: String,
    /// Everything up to this revision has been looked at.
    seen: u64,
    /// Changes up to `seen` that are still to be turned into lines.
    pending: VecDeque<Arc<Entry>>,
    /// What a fault does to the stream before it goes on.
    obstacle: Option<Obstacle>,
    /// Objects that were there at the beginning and are still to be told of.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// Whether a bookmark tells where the initial objects end.
    ends_initial_events: bool,
    ready: VecDeque<Bytes>,
    kills: watch::Receiver<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends_at: Instant,
    /// The revision at which the stream's time was found to be over.
    last: Option<u64>,
    ended: bool,
}

impl Cluster {
    /// Starts a watch; the stream yields whole lines.
    pub(crate) fn watch(self: &Arc<Self>, call: &Call) -> Result<Watcher> {
        check_options(&call.options)?;
        let filter = Filter::of(call)?;
        let collection = collection(&call.kind);
        // Subscribed before the state is read: nothing falls between the two.
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
            obstacle: None,
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
        let now = self.kinds();
        if call.kind.is_custom()
            && !now
                .by_plural(&call.kind.group, &call.kind.plural)
                .is_some_and(|now| Arc::ptr_eq(now, &call.kind))
        {
            // The definition has changed since the request was understood: too late to be told of it.
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
            Some(version) => Some(super::get::parse_version(version)?),
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
            // A version that is too old is reported in the stream, as a real server does it.
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

    /// The lines of the stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
        futures::stream::unfold(self, |mut watcher| async move {
            let item = watcher.next().await?;
            Some((item, watcher))
        })
    }

    /// The next line or lines. `None` ends the stream.
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
            match self.obstacle {
                None => {}
                Some(Obstacle::Break) => return Some(Err(self.break_off())),
                Some(Obstacle::Silence) => {
                    self.wait(None).await;
                    continue;
                }
                Some(Obstacle::Delay(until, _)) => {
                    if self.wait(until).await
                        && let Some(Obstacle::Delay(_, line)) = self.obstacle.take()
                    {
                        self.ready.push_back(line);
                    }
                    continue;
                }
            }
            if !self.pending.is_empty() {
                self.sort_out();
                continue;
            }
            if self.ended {
                return None;
            }
            if Instant::now() >= self.ends_at {
                // A client that reads late gets what happened in time; one that can't keep up with
                // the news comes to an end, too.
                let last = *self
                    .last
                    .get_or_insert_with(|| self.cluster.store.revision());
                if self.seen >= last {
                    self.time_out();
                    continue;
                }
            }
            self.subscription.news.mark_unchanged();
            match self
                .cluster
                .store
                .changes(&self.subscription, self.seen, BATCH, Reader::Live)
            {
                Err(expired) => self.fail(&too_old(self.seen, expired.oldest)),
                Ok(changes) => {
                    let whole = changes.entries.len() < BATCH;
                    match self.converted(changes.entries).await {
                        Ok(entries) => self.pending.extend(entries),
                        Err(error) => {
                            self.fail(&error);
                            continue;
                        }
                    }
                    self.seen = changes.complete;
                    self.ended |= changes.closed && whole;
                    if self.pending.is_empty() && !self.ended {
                        self.wait_for_news().await;
                    }
                }
            }
        }
    }

    async fn wait_for_news(&mut self) {
        tokio::select! {
            biased;
            () = self.cluster.stopping.cancelled() => self.ended = true,
            // Looked at by whoever waits for this.
            () = wait_for_change(&mut self.kills) => {}
            // Looked at in any case: also at the end of all news there may be a last entry.
            _ = self.subscription.news.changed() => {}
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                let line = self.bookmark(false);
                self.ready.push_back(line);
            }
            () = tokio::time::sleep_until(self.ends_at) => {}
        }
    }

    /// Waits for a time, or forever; false if the stream must end or break before.
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

    /// Whether there is nothing left to say.
    fn is_over(&self) -> bool {
        self.ended
            && self.initial.len() == 0
            && self.ready.is_empty()
            && self.pending.is_empty()
            && self.obstacle.is_none()
    }

    /// Ends the stream at once.
    fn end(&mut self) {
        self.ended = true;
        self.initial = Vec::new().into_iter();
        self.ends_initial_events = false;
        self.ready.clear();
        self.pending.clear();
        self.obstacle = None;
    }

    /// Ends the stream in the middle, as a broken connection does.
    fn break_off(&mut self) -> BodyError {
        self.end();
        ConnectionBroken.into()
    }

    /// Ends the stream because the client wanted it to last this long.
    fn time_out(&mut self) {
        self.ended = true;
        if self.bookmarks {
            let line = self.bookmark(false);
            self.ready.push_back(line);
        }
    }

    /// Lines that are ready, joined up to a sensible size of a frame.
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

    /// Makes the next few lines of the initial objects, if any are left: never all at once, since there may
    /// be more of them than fits into memory a second time.
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
        if self.initial.len() == 0 && std::mem::take(&mut self.ends_initial_events) {
            let line = self.bookmark(true);
            self.ready.push_back(line);
        }
        Ok(())
    }

    /// Converts objects to the version of the watch; an error if the server stops meanwhile.
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
        // The state before matters to selectors only.
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

    /// Turns changes into lines, up to one that a fault is about.
    fn sort_out(&mut self) {
        while self.obstacle.is_none()
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
                EventFate::Deliver => {
                    let line = line();
                    self.ready.push_back(line);
                }
                EventFate::Drop => {}
                EventFate::Delay(time) => {
                    let line = line();
                    self.obstacle = Some(Obstacle::Delay(Instant::now().checked_add(time), line));
                }
                EventFate::Freeze => self.obstacle = Some(Obstacle::Silence),
                EventFate::Cut => self.obstacle = Some(Obstacle::Break),
            }
        }
    }

    /// What a change looks like through the selectors.
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
            // Who leaves the selection is shown as it was last seen.
            Some(previous) if change == Change::Deleted && entry.change != Change::Deleted => {
                Some((change, Arc::new(previous.at_revision(entry.revision()))))
            }
            _ => Some((change, Arc::clone(&entry.object))),
        }
    }

    /// One event as a line, in the form that the client asked for.
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

    /// A bookmark of how far the stream has come.
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

/// Ends when the value has changed, which stays marked; never if it can't change any more.
async fn wait_for_change(value: &mut watch::Receiver<u64>) {
    if value.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    value.mark_changed();
}

fn too_old(wanted: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {wanted} ({oldest})"))
}
