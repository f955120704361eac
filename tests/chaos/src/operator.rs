//! The tested operator: handlers of all kinds, which report to the ledger. Some fail temporarily.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::ExitCode;
use std::time::Duration;

use kopf::OperatorBuilder;
use kopf::extract::{Context, Extract, Rejection};
use kopf::prelude::*;
use kopf::{EventType, New, Patch, Reason, SubHandlers, Uid, WatchEvent};

use crate::ledger::{Entry, Reporter, Step};

/// Runs the operator as a separate process.
pub(crate) fn main() -> ExitCode {
    let Ok(reporter) = Reporter::connect() else {
        return ExitCode::FAILURE;
    };
    kopf::main(builder(reporter))
}

/// Returns the operator, with timeouts that are short enough for a test of some minutes.
pub(crate) fn builder(reporter: Reporter) -> OperatorBuilder {
    let mut builder = Operator::builder().handlers_from_macros().state(reporter);
    let settings = builder.settings_mut();
    settings.posting.enabled = false;
    settings.networking.request_timeout = Some(Duration::from_secs(5));
    settings.networking.error_backoffs = seconds([0.1, 0.2, 0.5, 1.0]);
    settings.watching.inactivity_timeout = Some(Duration::from_secs(5));
    settings.queueing.error_delays = seconds([0.1, 0.5, 1.0, 2.0]);
    settings.persistence.consistency_timeout = Duration::from_secs(2);
    // By default, a kill between two requests loses a result, as in the original.
    settings.persistence.results_first = true;
    builder
}

fn seconds<T: FromIterator<Duration>>(seconds: [f64; 4]) -> T {
    seconds.into_iter().map(Duration::from_secs_f64).collect()
}

/// One call of one handler.
struct Call {
    reporter: Reporter,
    entry: Entry,
    retry: u32,
    is_over: bool,
}

impl Extract for Call {
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

impl Call {
    /// Fails up to two times, depending on the handler and the object only.
    async fn attempt(&mut self) -> kopf::Result<()> {
        let mut hasher = DefaultHasher::new();
        (&self.entry.handler, &self.entry.uid).hash(&mut hasher);
        let hash = hasher.finish();
        tokio::time::sleep(Duration::from_millis(hash % 50)).await;
        if u64::from(self.retry) < hash / 64 % 3 {
            self.end(Step::Failed);
            return Err(kopf::temporary("not yet").delay(0.2));
        }
        Ok(())
    }

    fn report_violation(&self, what: &str) {
        let (step, handler) = (Step::Violation, format!("{}: {what}", self.entry.handler));
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

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Step::Dropped);
    }
}

#[kopf::on::create("kopfexamples")]
async fn make(Spec(spec): Spec, subs: SubHandlers, mut call: Call) -> kopf::Result<Value> {
    call.attempt().await?;
    for item in spec["items"].as_array().into_iter().flatten() {
        let item = item.as_str().unwrap_or_default().to_owned();
        subs.register(item, |mut call: Call| async move {
            call.attempt().await?;
            call.succeed();
            Ok(())
        });
    }
    let field = spec["field"].clone();
    call.succeed();
    Ok(json!({"field": field}))
}

#[kopf::on::update("kopfexamples")]
async fn change(Spec(spec): Spec, mut call: Call) -> kopf::Result<Value> {
    call.attempt().await?;
    call.succeed();
    Ok(json!({"field": spec["field"]}))
}

#[kopf::on::field("kopfexamples", field = "spec.field")]
async fn follow(patch: Patch, New(new): New, mut call: Call) -> kopf::Result<()> {
    call.attempt().await?;
    patch.status().set("followed", new);
    call.succeed();
    Ok(())
}

#[kopf::on::delete("kopfexamples")]
async fn unmake(mut call: Call) -> kopf::Result<()> {
    call.attempt().await?;
    call.succeed();
    Ok(())
}

#[kopf::on::resume("kopfexamples")]
async fn meet(Spec(spec): Spec, mut call: Call) -> kopf::Result<Value> {
    call.attempt().await?;
    call.succeed();
    Ok(json!({"field": spec["field"]}))
}

#[kopf::index("kopfexamples")]
fn fields(Uid(uid): Uid, Spec(spec): Spec) -> (String, Value) {
    (uid, spec["field"].clone())
}

#[kopf::on::event("kopfexamples")]
fn watch(event: WatchEvent, Spec(spec): Spec, Uid(uid): Uid, index: Index<fields>, call: Call) {
    let indexed: Vec<Value> = index.get(&uid).iter().cloned().collect();
    let expected: &[Value] = match event.event_type {
        EventType::Deleted => &[],
        _ => &[spec["field"].clone()],
    };
    if indexed != expected {
        call.report_violation(&format!("{expected:?} is indexed as {indexed:?}"));
    }
    call.succeed();
}

/// Returns the number of indexed objects.
#[kopf::on::probe]
fn known(index: Index<fields>) -> usize {
    index.len()
}

#[kopf::daemon("kopfexamples", cancellation_timeout = 1)]
async fn guard(stopped: Stopped, call: Call) {
    stopped.requested().await;
    call.succeed();
}

#[kopf::timer("kopfexamples", interval = 1)]
async fn tick(patch: Patch, mut call: Call) -> kopf::Result<()> {
    call.attempt().await?;
    patch.status().set("ticked", std::process::id());
    call.succeed();
    Ok(())
}
