//! The tap of one run: records everything, and makes the deviation happen at its point.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kopf_sandbox::tap::{
    self, Decision, Gate, Hold, OnRelease, Reply, Tap, TapEvent, TapFuture, TapRejection,
    TapRequest, TapResponse,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::crew::{self, Crew};
use super::recorder::Recorder;
use crate::deviation::{Deviation, Interference};
use crate::journal::{Actor, Delivery, Request, Response, is_write};
use crate::object::{ObjectKey, is_housekeeping};
use crate::point::{Counter, Point, Site};

/// A thing that the run does on behalf of the tap, while a request waits.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Another client changes the object.
    Interfere(Interference, String),
}

/// An errand with the sender of its end.
pub(crate) type Order = (Errand, oneshot::Sender<()>);

#[derive(Debug, Default)]
struct State {
    counter: Counter,
    /// Requests whose responses are lost.
    marked: BTreeSet<u64>,
    is_reached: bool,
    is_missed: bool,
    /// Rejections that are left.
    rejections: usize,
    /// The revision before the point of `stale`.
    revision: Option<u64>,
    /// Events of this resource wait for the gate.
    held: Option<(String, Gate, OnRelease)>,
    /// New watches wait for the gate.
    blocked: Option<Gate>,
}

pub(crate) struct Steering {
    recorder: Arc<Recorder>,
    crew: Arc<Crew>,
    deviation: Option<Deviation>,
    orders: mpsc::Sender<Order>,
    limit: Duration,
    state: Mutex<State>,
}

/// The reaction to a request at its point.
enum Reaction {
    None,
    CrashBefore,
    CrashAfter,
    LoseResponse,
    Reject(u16),
    Hang,
    Errand(Errand),
    Terminate,
}

impl Steering {
    pub(crate) fn new(
        recorder: Arc<Recorder>,
        crew: Arc<Crew>,
        deviation: Option<Deviation>,
        orders: mpsc::Sender<Order>,
        limit: Duration,
    ) -> Self {
        let rejections = match &deviation {
            Some(Deviation::Reject { times, .. }) => *times,
            _ => 0,
        };
        Self {
            recorder,
            crew,
            deviation,
            orders,
            limit,
            state: Mutex::new(State {
                rejections,
                ..State::default()
            }),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_reached(&self) -> bool {
        self.with(|state| state.is_reached)
    }

    /// Notes that the deviation is impossible at its point.
    pub(crate) fn miss(&self, why: &str) {
        self.with(|state| {
            state.is_reached = false;
            state.is_missed = true;
        });
        self.recorder.note(why);
    }

    /// Returns the time of a request without an answer: the operator must be able to react within the limit
    /// of the step.
    fn longest_hang(&self) -> Duration {
        let wanted = self.deviation.as_ref().map(Deviation::delay);
        wanted.unwrap_or_default().min(self.limit / 3)
    }

    pub(crate) fn reach(&self, what: &str) {
        self.with(|state| state.is_reached = true);
        self.recorder.note(what);
    }

    /// Notes that nothing after this moment is visible to a restarted operator.
    pub(crate) fn note_revision(&self) {
        let revision = self.recorder.revision();
        self.with(|state| {
            state.is_reached = true;
            state.revision = Some(revision);
        });
    }

    /// Returns the revision before the point of `stale`.
    pub(crate) fn stale_revision(&self) -> Option<u64> {
        self.with(|state| state.revision)
    }

    /// Withholds events of a resource until [`Steering::release`].
    pub(crate) fn hold(&self, resource: &str, on_release: OnRelease) {
        let held = (resource.to_owned(), Gate::new(), on_release);
        self.with(|state| state.held = Some(held));
        self.recorder
            .note(format!("events of {resource} are withheld"));
    }

    pub(crate) fn release(&self) {
        if let Some((resource, gate, _)) = self.with(|state| state.held.take()) {
            gate.open();
            self.recorder
                .note(format!("events of {resource} are released"));
        }
    }

    /// Lets new lists and watches wait until [`Steering::unblock`].
    pub(crate) fn block(&self) {
        self.with(|state| state.blocked = Some(Gate::new()));
    }

    pub(crate) fn unblock(&self) {
        if let Some(gate) = self.with(|state| state.blocked.take()) {
            gate.open();
        }
    }

    /// Returns the reaction to a request of the operator.
    fn react(&self, request: &Request, step: usize) -> Reaction {
        let Some(deviation) = &self.deviation else {
            return Reaction::None;
        };
        if is_housekeeping(&request.key.resource) || request.verb == "watch" || request.is_dry {
            return Reaction::None;
        }
        let site = Site::of(request, self.recorder.mask().names());
        let reached = self.with(|state| {
            let point = state.counter.next(step, site);
            let is_first = deviation.point() == Some(&point) && !state.is_missed;
            let is_again =
                state.is_reached && state.rejections > 0 && is_same_site(deviation, &point);
            let is_new = is_first && !state.is_reached;
            state.is_reached |= is_first;
            if is_new && matches!(deviation, Deviation::Stale { .. }) {
                state.revision = Some(self.recorder.revision());
            }
            if is_new || is_again {
                state.rejections = state.rejections.saturating_sub(1);
            }
            is_new || is_again
        });
        if !reached {
            return Reaction::None;
        }
        self.recorder.note(deviation.to_string());
        match deviation {
            Deviation::CrashBefore { .. } => Reaction::CrashBefore,
            Deviation::CrashAfter { .. } => Reaction::CrashAfter,
            Deviation::LostResponse { .. } => Reaction::LoseResponse,
            Deviation::Reject { code, .. } => Reaction::Reject(*code),
            Deviation::Hang { .. } => Reaction::Hang,
            Deviation::Interfere { change, .. } => {
                Reaction::Errand(Errand::Interfere(*change, String::new()))
            }
            Deviation::Term { .. } => Reaction::Terminate,
            _ => Reaction::None,
        }
    }

    async fn run_errand(&self, errand: Errand) {
        let (done, end) = oneshot::channel();
        if self.orders.send((errand, done)).await.is_ok() {
            // The run has ended if there is no answer.
            let _ = end.await;
        }
    }

    /// Records an injected response.
    fn inject(&self, request: &Request, code: u16) {
        let response = Response {
            number: request.number,
            code,
            is_injected: true,
        };
        self.recorder.response(request.actor, response, None);
    }

    async fn decide(&self, request: &TapRequest) -> Decision {
        let record = describe(request);
        let step = self.recorder.request(record.clone());
        let Actor::Operator(instance) = record.actor else {
            return Decision::Proceed;
        };
        if let Some(Deviation::Slow { step: slow, .. }) = &self.deviation
            && *slow == step
            && request.verb.to_string() != "watch"
            && let Some(deviation) = &self.deviation
        {
            if !self.is_reached() {
                self.reach(&deviation.to_string());
            }
            tokio::time::sleep(deviation.delay()).await;
        }
        if matches!(record.verb.as_str(), "list" | "watch")
            && let Some(gate) = self.with(|state| state.blocked.clone())
        {
            gate.opened().await;
        }
        match self.react(&record, step) {
            Reaction::None => {}
            Reaction::CrashBefore => {
                self.crew.kill(instance);
                return Decision::Break;
            }
            Reaction::Reject(code) => {
                self.inject(&record, code);
                return Decision::Reject(rejection(code, record.verb == "create"));
            }
            Reaction::Hang => {
                tokio::time::sleep(self.longest_hang()).await;
                self.inject(&record, 0);
                return Decision::Break;
            }
            Reaction::Errand(errand) => {
                let Errand::Interfere(change, _) = errand;
                self.run_errand(Errand::Interfere(change, path(request)))
                    .await;
            }
            Reaction::Terminate => {
                self.crew.terminate(instance);
            }
            Reaction::CrashAfter | Reaction::LoseResponse => {
                self.with(|state| state.marked.insert(request.number));
            }
        }
        Decision::Proceed
    }

    fn reply(&self, request: &TapRequest, response: &TapResponse) -> Reply {
        let actor = actor(&request.user);
        let is_marked = self.with(|state| state.marked.remove(&request.number));
        let watched = (request.verb.to_string() == "watch").then(|| request.qualified_resource());
        let record = Response {
            number: request.number,
            code: if is_marked { 0 } else { response.code },
            is_injected: is_marked,
        };
        self.recorder.response(actor, record, watched.as_deref());
        let Actor::Operator(instance) = actor else {
            return Reply::Send;
        };
        if !is_marked {
            return Reply::Send;
        }
        if matches!(self.deviation, Some(Deviation::CrashAfter { .. })) {
            self.crew.kill(instance);
        }
        Reply::Break
    }
}

/// Returns an injected error. The only conflict of a creation is that of a quota.
fn rejection(code: u16, is_create: bool) -> TapRejection {
    let rejection = TapRejection::new(code);
    if code == 409 && is_create {
        return rejection.reason("Conflict").message(
            "Operation cannot be fulfilled on resourcequotas \"quota\": the object has been modified; \
             please apply your changes to the latest version and try again",
        );
    }
    rejection
}

fn is_same_site(deviation: &Deviation, point: &Point) -> bool {
    let first = deviation.point();
    first.is_some_and(|first| first.site == point.site && first.step == point.step)
}

fn actor(user: &str) -> Actor {
    crew::instance(user).map_or(Actor::User, Actor::Operator)
}

/// Returns the journal's form of a request.
fn describe(request: &TapRequest) -> Request {
    let verb = if request.is_apply() {
        "apply".to_owned()
    } else {
        request.verb.to_string()
    };
    let named = request.name.clone().or_else(|| {
        if verb != "create" {
            return None;
        }
        let metadata = request.body()?.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let name = text("name").map(str::to_owned);
        name.or_else(|| text("generateName").map(|prefix| format!("{prefix}*")))
    });
    Request {
        number: request.number,
        actor: actor(&request.user),
        is_dry: is_write(&verb) && !request.is_write(),
        verb,
        key: ObjectKey::new(
            &request.group,
            &request.resource,
            request.namespace.as_deref(),
            &named.unwrap_or_default(),
        ),
        subresource: request.subresource.clone(),
    }
}

/// Returns the path of the object of a request, without a subresource.
fn path(request: &TapRequest) -> String {
    let base = match request.group.as_str() {
        "" => format!("/api/{}", request.version),
        group => format!("/apis/{group}/{}", request.version),
    };
    let resource = &request.resource;
    let name = request.name.as_deref().unwrap_or_default();
    match &request.namespace {
        Some(namespace) => format!("{base}/namespaces/{namespace}/{resource}/{name}"),
        None => format!("{base}/{resource}/{name}"),
    }
}

impl Tap for Steering {
    fn on_request<'a>(&'a self, request: &'a TapRequest) -> TapFuture<'a, Decision> {
        Box::pin(self.decide(request))
    }

    fn on_response<'a>(
        &'a self,
        request: &'a TapRequest,
        response: &'a TapResponse,
    ) -> TapFuture<'a, Reply> {
        Box::pin(std::future::ready(self.reply(request, response)))
    }

    fn on_event(&self, watch: &TapRequest, event: &TapEvent) -> tap::Delivery {
        if event.initial || !actor(&watch.user).is_operator() {
            return tap::Delivery::Deliver;
        }
        let held = self.with(|state| state.held.clone());
        match held {
            Some((resource, gate, on_release)) if resource == watch.qualified_resource() => {
                self.with(|state| state.is_reached = true);
                tap::Delivery::Hold(Hold::object(&gate).then(on_release))
            }
            _ => tap::Delivery::Deliver,
        }
    }

    fn on_delivery(&self, watch: &TapRequest, event: &TapEvent) {
        let Some(instance) = crew::instance(&watch.user) else {
            return;
        };
        if event.initial {
            return;
        }
        let object = &event.object;
        self.recorder.delivery(Delivery {
            instance,
            event: event.change.event_type().to_owned(),
            key: ObjectKey::new(
                object.group(),
                object.resource(),
                object.namespace(),
                object.name(),
            ),
            revision: object.revision(),
        });
    }

    fn on_commit(&self, commit: &tap::Commit) {
        let object = &commit.object;
        let key = ObjectKey::new(
            object.group(),
            object.resource(),
            object.namespace(),
            object.name(),
        );
        let is_gone = commit.change == tap::Change::Deleted;
        let after = (!is_gone).then(|| Arc::new(object.json()));
        self.recorder
            .commit(commit.revision, key, commit.cause, after);
    }
}
