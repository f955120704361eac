//! Processing of the queue in the thread of the event loop.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::outcome::{Attachment, HandlerError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::time::Instant;

use crate::front::Front;
use crate::front::job::{Exception, Job};
use crate::front::logging::Record;
use crate::front::queue::{Entry, Queue};
use crate::objects::call::PyCall;

/// Limits of one drain, after which other callbacks of the event loop can run.
const MAX_ENTRIES: usize = 256;
const MAX_TIME: Duration = Duration::from_millis(5);

/// Processes waiting entries up to the limits.
pub(crate) fn drain(py: Python<'_>, front: &Arc<Front>) {
    let _draining = Draining::begin(&front.queue);
    tracing::dispatcher::with_default(&front.dispatch, || {
        let begun = Instant::now();
        for _ in 0..MAX_ENTRIES {
            let Some(entry) = front.queue.pop() else {
                break;
            };
            process(py, front, entry);
            if begun.elapsed() > MAX_TIME {
                break;
            }
        }
    });
    let dropped = front.queue.take_dropped();
    if dropped > 0 {
        report(
            py,
            front.bridge.call_method1(py, "records_dropped", (dropped,)),
        );
    }
}

/// A drain in progress. Ends even if an entry panics: otherwise, the loop would never be woken again.
struct Draining<'a>(&'a Queue);

impl<'a> Draining<'a> {
    fn begin(queue: &'a Queue) -> Self {
        queue.begin_drain();
        Self(queue)
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.0.end_drain();
    }
}

fn process(py: Python<'_>, front: &Arc<Front>, entry: Entry) {
    match entry {
        Entry::Log(record) => report(py, emit(py, front, record)),
        Entry::Start(job) => start(py, front, job),
        Entry::Cancel(job) => {
            if let Some(task) = job.completion.cancel() {
                report(py, task.call_method0(py, "cancel"));
            }
        }
        Entry::Span(span, ended) => report(py, span.end(py, front, ended)),
        Entry::Poll(task) => task.poll(),
        Entry::Run(action) => action(py),
        Entry::Heartbeat(sender) => {
            let _ = sender.send(());
        }
    }
}

fn start(py: Python<'_>, front: &Arc<Front>, job: Arc<Job>) {
    if !job.completion.start() {
        job.finish(Err(HandlerError::Cancelled));
        return;
    }
    let started = Py::new(py, PyCall::of_job(Arc::clone(&job)))
        .and_then(|call| front.bridge.call_method1(py, intern!(py, "start"), (call,)));
    match started {
        Ok(task) if task.is_none(py) => {}
        Ok(task) => job.completion.set_task(task),
        Err(error) => {
            let message = error.to_string();
            let attachment = Attachment::new(Exception(error.into_value(py).into_any()));
            job.finish(Err(HandlerError::exception(message, None, attachment)));
        }
    }
}

fn emit(py: Python<'_>, front: &Front, record: Record) -> PyResult<Py<PyAny>> {
    let object = if record.object.is_empty() {
        None
    } else {
        let object = PyDict::new(py);
        for (key, value) in record.object {
            object.set_item(key, value)?;
        }
        Some(object)
    };
    let exception = record.attachment.as_ref();
    let exception = exception.and_then(|attachment| Exception::of(py, attachment));
    let Record {
        logger,
        level,
        message,
        created,
        details,
        ..
    } = record;
    let arguments = (logger, level, message, created, object, exception, details);
    front
        .bridge
        .call_method1(py, intern!(py, "emit"), arguments)
}

/// Reports an exception of the package itself as unraisable.
fn report<T>(py: Python<'_>, result: PyResult<T>) {
    if let Err(error) = result {
        error.write_unraisable(py, None);
    }
}
