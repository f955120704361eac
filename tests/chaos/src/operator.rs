//! The operator that is put through it: handlers of every kind, some of which fail now and then, and
//! all of which report to the ledger.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::ExitCode;
use std::time::Duration;

use kopf::OperatorBuilder;
use kopf::extract::{Context, Extract, Rejection};
use kopf::prelude::*;
use kopf::{Event, EventType, New, Patch, Reason, SubHandlers, Uid};

use crate::ledger::{Entry, Reporter, Step};

/// The program of the operator, in a process of its own.
pub(crate) fn main() -> ExitCode {
    let Ok(reporter) = Reporter::connect() else {
        return ExitCode::FAILURE;
    };
    kopf::main_with(builder(reporter))
}

/// All handlers below, impatient enough for a test of some minutes.
pub(crate) fn builder(reporter: Reporter) -> OperatorBuilder {
    let mut builder = Operator::builder().handlers_from_macros().state(reporter);
    let settings = builder.settings_mut();
    settings.posting.enabled = false;
    settings.networking.request_timeout = Some(Duration::from_secs(5));
    settings.networking.error_backoffs = seconds([0.1, 0.2, 0.5, 1.0]);
    settings.watching.inactivity_timeout = Some(Duration::from_secs(5));
    settings.queueing.error_delays = seconds([0.1, 0.5, 1.0, 2.0]);
    settings.persistence.consistency_timeout = Duration::from_secs(2);
    // With the default, a death between two requests loses a result, as in the original.
    settings.persistence.results_first = true;
    builder
}

fn seconds<T: FromIterator<Duration>>(seconds: [f64; 4]) -> T {
    seconds.into_iter().map(Duration::from_secs_f64).collect()
}

/// One call of one handler, as the ledger knows it.
struct Visit {
    reporter: Reporter,
    entry: Entry,
    retry: u32,
    is_over: bool,
}

impl Extract for Visit {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let State(reporter) = State::<Reporter>::extract(context)?;
        let body = context.body();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reason: Option<Reason> = Option::extract(context)?;
        let entry = Entry {
            process: std::process::id(),
            step: Step::Begun,
            handler: context.handler_id().unwrap_or_default().to_owned(),
            uid: text(&body.value()["metadata"]["uid"]),
            version: text(&body.value()["metadata"]["resourceVersion"]),
            reason: reason.map(|reason| reason.to_string()).unwrap_or_default(),
        };
        reporter.report(&entry);
        Ok(Self {
            reporter,
            entry,
            retry: Retry::extract(context).map_or(0, |retry| retry.0),
            is_over: false,
        })
    }
}

impl Visit {
    /// Some handlers fail a few times for some objects; which ones, does not change when the
    /// operator is started again.
    async fn attempt(&mut self) -> kopf::Result<()> {
        let mut hasher = DefaultHasher::new();
        (&self.entry.handler, &self.entry.uid).hash(&mut hasher);
        let chance = hasher.finish();
        tokio::time::sleep(Duration::from_millis(chance % 50)).await;
        if u64::from(self.retry) < chance / 64 % 3 {
            self.end(Step::Failed);
            return Err(kopf::temporary("not yet").delay(0.2));
        }
        Ok(())
    }

    /// Reports what must not be.
    fn object_to(&self, what: &str) {
        let (step, handler) = (Step::Wrong, format!("{}: {what}", self.entry.handler));
        self.reporter.report(&Entry {
            step,
            handler,
            ..self.entry.clone()
        });
    }

    fn succeed(mut self) {
        self.end(Step::Succeeded);
    }

    fn end(&mut self, step: Step) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.entry.step = step;
            self.reporter.report(&self.entry);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.end(Step::Dropped);
    }
}

#[kopf::on::create("kopfexamples")]
async fn make(Spec(spec): Spec, subs: SubHandlers, mut visit: Visit) -> kopf::Result<Value> {
    visit.attempt().await?;
    for item in spec["items"].as_array().into_iter().flatten() {
        let item = item.as_str().unwrap_or_default().to_owned();
        subs.register(item, |mut visit: Visit| async move {
            visit.attempt().await?;
            visit.succeed();
            Ok(())
        });
    }
    let field = spec["field"].clone();
    visit.succeed();
    Ok(json!({"field": field}))
}

#[kopf::on::update("kopfexamples")]
async fn change(Spec(spec): Spec, mut visit: Visit) -> kopf::Result<Value> {
    visit.attempt().await?;
    visit.succeed();
    Ok(json!({"field": spec["field"]}))
}

#[kopf::on::field("kopfexamples", field = "spec.field")]
async fn follow(patch: Patch, New(new): New, mut visit: Visit) -> kopf::Result<()> {
    visit.attempt().await?;
    patch.status().set("followed", new);
    visit.succeed();
    Ok(())
}

#[kopf::on::delete("kopfexamples")]
async fn unmake(mut visit: Visit) -> kopf::Result<()> {
    visit.attempt().await?;
    visit.succeed();
    Ok(())
}

#[kopf::on::resume("kopfexamples")]
async fn meet(Spec(spec): Spec, mut visit: Visit) -> kopf::Result<Value> {
    visit.attempt().await?;
    visit.succeed();
    Ok(json!({"field": spec["field"]}))
}

#[kopf::index("kopfexamples")]
fn fields(Uid(uid): Uid, Spec(spec): Spec) -> (String, Value) {
    (uid, spec["field"].clone())
}

#[kopf::on::event("kopfexamples")]
fn watch(event: Event, Spec(spec): Spec, Uid(uid): Uid, index: Index<fields>, visit: Visit) {
    let indexed: Vec<Value> = index.get(&uid).iter().cloned().collect();
    let expected: &[Value] = match event.event_type {
        EventType::Deleted => &[],
        _ => &[spec["field"].clone()],
    };
    if indexed != expected {
        visit.object_to(&format!("{expected:?} is indexed as {indexed:?}"));
    }
    visit.succeed();
}

/// How many objects are known. Whoever asks can tell whether it is all of them.
#[kopf::on::probe]
fn known(index: Index<fields>) -> usize {
    index.len()
}

#[kopf::daemon("kopfexamples", cancellation_timeout = 1)]
async fn guard(stopped: Stopped, visit: Visit) {
    stopped.requested().await;
    visit.succeed();
}

#[kopf::timer("kopfexamples", interval = 1)]
async fn tick(patch: Patch, mut visit: Visit) -> kopf::Result<()> {
    visit.attempt().await?;
    patch.status().set("ticked", std::process::id());
    visit.succeed();
    Ok(())
}
