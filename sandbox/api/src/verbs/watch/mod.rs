//! The verb `watch`: a stream of changes that match the selectors.

mod holds;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use kopf_sandbox_schema::kind::Kind;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use self::holds::{Event, Holds, Released};
use super::Call;
use super::list::{Filter, check_options};
use crate::body::BodyError;
use crate::cluster::{Cluster, collection, parents};
use crate::fault::{ConnectionBroken, EventVerdict, Kills, RequestFacts, Verb};
use crate::respond::EventForm;
use crate::status::{ApiError, Result};
use crate::store::{Change, Entry, Reader, Stored, Subscription, event_line};
use crate::tap::{self, Delivery, HoldScope, TapRequest, Tapped};
use crate::view::{self, CacheReader, Position};

/// Maximum number of changes that are read from the log at once.
const BATCH: usize = 256;
/// Interval of bookmarks on an idle stream.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Default timeout of a watch.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// An injected fault that interrupts the stream.
enum PendingFault {
    /// The event is sent at this time, and later ones wait for it. `None`: never.
    Delay(Option<Instant>, Event),
    /// The connection breaks.
    Break,
    /// The stream ends with a 410.
    Expire,
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
    reader: CacheReader,
    /// Marked as changed when the view of the client may have moved.
    moves: watch::Receiver<()>,
    /// The time at which the cache moves by itself.
    next_move: Option<Instant>,
    /// The revision up to which changes were read.
    seen: u64,
    /// Changes up to `seen` that are not serialised yet.
    pending: VecDeque<Arc<Entry>>,
    /// The tap of the server, if there is one.
    tap: Option<TappedWatch>,
    /// Events that the tap holds.
    holds: Holds,
    /// Events that it no longer holds, to be sent before others.
    released: VecDeque<Event>,
    /// The pending fault of the stream.
    pending_fault: Option<PendingFault>,
    /// Initial objects that are not sent yet.
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// `true` if a bookmark follows the initial objects.
    ends_initial_events: bool,
    ready: VecDeque<Bytes>,
    kills: watch::Receiver<Kills>,
    known_kills: Kills,
    bookmarks: bool,
    next_bookmark: Instant,
    ends_at: Instant,
    /// The revision at which the timeout of the stream was detected.
    last: Option<u64>,
    ended: bool,
}

/// A tapped watch. The tap is notified when it is dropped.
struct TappedWatch {
    tapped: Tapped,
    request: Arc<TapRequest>,
}

impl Drop for TappedWatch {
    fn drop(&mut self) {
        self.tapped.tap().on_watch_end(&self.request);
    }
}

impl Cluster {
    /// Starts a watch. The stream yields whole lines.
    pub async fn watch(self: &Arc<Self>, call: &Call) -> Result<Watcher> {
        check_options(&call.options)?;
        let filter = Filter::of(call)?;
        let collection = collection(&call.kind);
        // Subscribing before reading the state ensures that no change is missed.
        let subscription = self
            .store
            .subscribe(&collection, &parents(&call.kind, None))
            .ok_or_else(ApiError::no_such_path)?;
        let mut kills = self.faults.watch_kills();
        let known_kills = *kills.borrow_and_update();
        let now = Instant::now();
        let mut watcher = Watcher {
            cluster: Arc::clone(self),
            kind: Arc::clone(&call.kind),
            version: Arc::clone(&call.version),
            subscription,
            filter,
            form: EventForm::of(call),
            user: call.user.username.clone(),
            reader: call.reader.clone(),
            moves: self.views.moves(),
            next_move: None,
            seen: 0,
            pending: VecDeque::new(),
            tap: self.tapped_watch(),
            holds: Holds::default(),
            released: VecDeque::new(),
            pending_fault: None,
            initial: Vec::new().into_iter(),
            ends_initial_events: false,
            ready: VecDeque::new(),
            kills,
            known_kills,
            bookmarks: call.options.bookmarks,
            next_bookmark: now + BOOKMARK_INTERVAL,
            ends_at: now + call.options.timeout.unwrap_or(LONGEST).min(LONGEST * 24),
            last: None,
            ended: false,
        };
        watcher.start(call).await?;
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

    /// Returns the tap for the watch of the current request.
    fn tapped_watch(&self) -> Option<TappedWatch> {
        let request = tap::current()?;
        let tapped = self.tap.clone()?;
        Some(TappedWatch { tapped, request })
    }
}

impl Watcher {
    async fn start(&mut self, call: &Call) -> Result<()> {
        let version = call.options.resource_version.as_deref();
        let wanted = match version {
            None | Some("0") => None,
            Some(version) => Some(crate::call::parse_version(version)?),
        };
        let initial = call.options.send_initial_events;
        if initial.unwrap_or(wanted.is_none()) {
            // Only a stream with a final bookmark has a version that the cache must have reached.
            let needed = match (initial, version) {
                (Some(true), None) => self.cluster.store.revision(),
                (Some(true), _) => wanted.unwrap_or(0),
                _ => 0,
            };
            match self.reached(needed).await {
                Ok(position) => self.start_from_state(position),
                // Reported in the stream, as by a real server.
                Err(too_new) => self.fail(&too_new),
            }
            self.ends_initial_events = initial == Some(true) && self.bookmarks && !self.ended;
            return Ok(());
        }
        let position = self.position().filter(|_| version.is_some());
        self.seen = match (wanted, position) {
            (Some(wanted), _) => wanted,
            (None, Some(position)) => position.revision,
            (None, None) => self.cluster.store.revision(),
        };
        // An expired version is reported in the stream, as by a real server.
        let store = &self.cluster.store;
        if let Err(expired) = store.changes(&self.subscription, self.seen, 1, Reader::New) {
            self.fail(&too_old(self.seen, expired.oldest));
        }
        Ok(())
    }

    /// Waits until the cache has reached a version. Returns its position; `None` if it is up to date.
    async fn reached(&self, wanted: u64) -> Result<Option<u64>> {
        let (views, store) = (&self.cluster.views, &self.cluster.store);
        let reached = self.reader.reach(views, store, wanted).await?;
        let present = store.revision();
        if reached.is_none() && wanted > present {
            return Err(view::too_large(wanted, present));
        }
        Ok(reached)
    }

    /// Begins with the objects in the cache.
    fn start_from_state(&mut self, position: Option<u64>) {
        let namespace = self.filter.namespace.as_deref();
        let store = &self.cluster.store;
        let snapshot = match position {
            Some(revision) => {
                view::list(store, &collection(&self.kind), namespace.into(), revision)
            }
            None => store.list_subscribed(&self.subscription, namespace),
        };
        self.seen = snapshot.revision;
        self.initial = snapshot.objects.into_iter();
    }

    /// Returns the position of the cache; `None` if it is up to date.
    fn position(&self) -> Option<Position> {
        let (views, store) = (&self.cluster.views, &self.cluster.store);
        self.reader.position(views, store)
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
                let now = *self.kills.borrow_and_update();
                if now.breaks != self.known_kills.breaks {
                    return Some(Err(self.break_off()));
                }
                self.known_kills = now;
                self.pending_fault = Some(PendingFault::Expire);
            }
            self.release();
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
            if self.pending_fault.is_some() {
                match self.suffer_fault().await {
                    None => continue,
                    broken => return broken.map(Err),
                }
            }
            if !self.released.is_empty() || !self.pending.is_empty() {
                self.serialise_pending();
                continue;
            }
            if self.ended {
                if self.holds.is_empty() || self.cluster.stopping.is_cancelled() {
                    return None;
                }
                self.released = self.holds.abandon();
                continue;
            }
            if self.initial.len() > 0 || self.ends_initial_events {
                self.wait_for_first_events().await;
                continue;
            }
            if self.is_timed_out() {
                self.time_out();
                continue;
            }
            self.read_changes().await;
        }
    }

    /// Returns `true` if the timeout is over and all changes before it were read. A slow client still
    /// gets those; then the stream ends even if there are newer ones.
    fn is_timed_out(&mut self) -> bool {
        if Instant::now() < self.ends_at {
            return false;
        }
        let position = self.position().map(|position| position.revision);
        let present = position.unwrap_or_else(|| self.cluster.store.revision());
        let last = *self.last.get_or_insert(present);
        self.seen >= last.min(present) // a cache can be set back
    }

    /// Applies the pending fault. Returns an error if the stream breaks.
    async fn suffer_fault(&mut self) -> Option<BodyError> {
        match self.pending_fault {
            None => {}
            Some(PendingFault::Break) => return Some(self.break_off()),
            Some(PendingFault::Expire) => {
                let oldest = self.cluster.store.revision();
                self.end();
                self.fail(&too_old(self.seen, oldest));
            }
            Some(PendingFault::Silence) => {
                self.wait(None).await;
            }
            Some(PendingFault::Delay(until, _)) => {
                if self.wait(until).await
                    && let Some(PendingFault::Delay(_, event)) = self.pending_fault.take()
                {
                    self.deliver(&event, false);
                }
            }
        }
        None
    }

    /// Takes the events whose gates are open.
    fn release(&mut self) {
        while self.pending_fault.is_none()
            && let Some(released) = self.holds.release()
        {
            match released {
                Released::Events(events) => self.released.extend(events),
                Released::Expire => self.pending_fault = Some(PendingFault::Expire),
                Released::Break => self.pending_fault = Some(PendingFault::Break),
            }
        }
    }

    /// Reads the next changes, or waits for them.
    async fn read_changes(&mut self) {
        self.subscription.news.mark_unchanged();
        self.moves.mark_unchanged();
        self.reader.refresh();
        let position = self.position();
        self.next_move = position.and_then(|position| position.next);
        let store = &self.cluster.store;
        let mut changes = match store.changes(&self.subscription, self.seen, BATCH, Reader::Live) {
            Ok(changes) => changes,
            Err(expired) => return self.fail(&too_old(self.seen, expired.oldest)),
        };
        let whole = changes.entries.len() < BATCH;
        // Watches of a removed collection end at once, however far its cache is.
        if let Some(position) = position.filter(|_| !changes.closed) {
            let limit = position.revision.max(self.seen);
            changes.entries.retain(|entry| entry.revision() <= limit);
            changes.complete = changes.complete.min(limit);
        }
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

    /// Waits until the first events are no longer held. Nothing is read meanwhile.
    async fn wait_for_first_events(&mut self) {
        tokio::select! {
            biased;
            () = self.cluster.stopping.cancelled() => self.end(),
            // Evaluated after this select.
            () = wait_for_change(&mut self.kills) => {}
            () = self.holds.opened() => {}
            () = tokio::time::sleep_until(self.ends_at) => self.end(),
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
            // Evaluated after this select.
            () = self.holds.opened() => {}
            () = self.reader.moved(&mut self.moves, self.next_move) => {}
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                if self.is_complete() {
                    let line = self.bookmark(false);
                    self.ready.push_back(line);
                }
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
            && self.released.is_empty()
            && self.holds.is_empty()
            && self.pending_fault.is_none()
    }

    /// Ends the stream.
    fn end(&mut self) {
        self.ended = true;
        self.initial = Vec::new().into_iter();
        self.ends_initial_events = false;
        self.ready.clear();
        self.pending.clear();
        self.released.clear();
        self.holds = Holds::default();
        self.pending_fault = None;
    }

    /// Breaks the stream, like a lost connection.
    fn break_off(&mut self) -> BodyError {
        self.end();
        ConnectionBroken.into()
    }

    /// Returns `true` if the client has all changes up to `seen`, so that a bookmark may say so: none
    /// of them is held, and the cache has reached that version.
    fn is_complete(&self) -> bool {
        let position = self.position();
        self.holds.is_empty() && position.is_none_or(|position| position.revision >= self.seen)
    }

    /// Ends the stream after its timeout.
    fn time_out(&mut self) {
        self.ended = true;
        if self.bookmarks && self.is_complete() {
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
        let is_done = self.initial.len() == 0 && !self.ends_initial_events;
        let is_held = self.holds.is_whole() || !self.released.is_empty();
        if is_done || is_held || self.pending_fault.is_some() {
            return Ok(());
        }
        let room = BATCH.saturating_sub(self.ready.len());
        let next: Vec<Arc<Stored>> = self.initial.by_ref().take(room).collect();
        for stored in self.in_version(next).await? {
            let entry = Entry::new(Change::Added, stored, None);
            if let Some((change, stored)) = self.seen_as(&entry) {
                let shared = Some(entry);
                let event = Event {
                    change,
                    stored,
                    shared,
                };
                if let Some(event) = self.steer(event, true) {
                    self.deliver(&event, true);
                }
            }
            if self.pending_fault.is_some() {
                break;
            }
        }
        if self.holds.is_whole() || self.pending_fault.is_some() {
            return Ok(());
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

    /// Serialises released events and changes, up to one with a fault.
    fn serialise_pending(&mut self) {
        while self.pending_fault.is_none()
            && let Some(event) = self.released.pop_front()
        {
            self.send(event);
        }
        while self.pending_fault.is_none()
            && let Some(entry) = self.pending.pop_front()
        {
            let Some((change, stored)) = self.seen_as(&entry) else {
                continue;
            };
            let same = change == entry.change && Arc::ptr_eq(&stored, &entry.object);
            let shared = same.then_some(entry);
            let event = Event {
                change,
                stored,
                shared,
            };
            if let Some(event) = self.steer(event, false) {
                self.send(event);
            }
        }
    }

    /// Applies the decision of the tap. Returns the event if it is to be sent now.
    fn steer(&mut self, event: Event, initial: bool) -> Option<Event> {
        let Some(watch) = &self.tap else {
            return Some(event);
        };
        let Some(event) = self.holds.join(event) else {
            if self.holds.is_full() {
                self.pending_fault = Some(PendingFault::Expire);
            }
            return None;
        };
        let decision = watch
            .tapped
            .tap()
            .on_event(&watch.request, &event.told(initial));
        match decision {
            Delivery::Deliver => return Some(event),
            Delivery::Skip => {}
            Delivery::Hold(mut hold) => {
                if initial {
                    hold.scope = HoldScope::Watch;
                }
                self.holds.add(hold, event);
            }
            Delivery::Expire => self.pending_fault = Some(PendingFault::Expire),
            Delivery::Break => self.pending_fault = Some(PendingFault::Break),
        }
        None
    }

    /// Sends an event, unless there is a fault.
    fn send(&mut self, event: Event) {
        let key = &event.stored.key;
        let facts = RequestFacts {
            verb: Verb::Watch,
            group: &self.kind.group,
            resource: &self.kind.plural,
            subresource: None,
            namespace: key.namespace(),
            name: Some(&key.name),
            user: &self.user,
        };
        match self.cluster.faults.on_watch_event(&facts) {
            EventVerdict::Deliver => self.deliver(&event, false),
            EventVerdict::Drop => {}
            EventVerdict::Delay(time) => {
                let until = Instant::now().checked_add(time);
                self.pending_fault = Some(PendingFault::Delay(until, event));
            }
            EventVerdict::Freeze => self.pending_fault = Some(PendingFault::Silence),
            EventVerdict::Cut => self.pending_fault = Some(PendingFault::Break),
        }
    }

    /// Adds the line of an event to the stream.
    fn deliver(&mut self, event: &Event, initial: bool) {
        let line = self.line(event.change, &event.stored, event.shared.as_ref());
        self.ready.push_back(line);
        if let Some(watch) = &self.tap {
            let tap = watch.tapped.tap();
            tap.on_delivery(&watch.request, &event.told(initial));
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
async fn wait_for_change(value: &mut watch::Receiver<Kills>) {
    if value.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    value.mark_changed();
}

fn too_old(wanted: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {wanted} ({oldest})"))
}
