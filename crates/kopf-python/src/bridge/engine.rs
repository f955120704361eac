//! Operators in Python: the engine in its own thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

#[cfg(feature = "sandbox")]
use kopf_client::Client;
use kopf_core::failure::describe;
use kopf_core::outcome::Attachment;
use kopf_core::settings::Settings;
use kopf_core::sync::Mutex;
use kopf_engine::Operator;
use kopf_engine::authentication::Access;
use kopf_engine::operator::{Declarations, Error};
use kopf_engine::probing::Endpoint;
#[cfg(feature = "sandbox")]
use kopf_inspect::PageOperator;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::bridge::drain::drain;
use crate::declare::declaring::declarations;
use crate::declare::filters::lifecycle;
use crate::front::convert::objects;
use crate::front::hosting::LoopHost;
use crate::front::job::Exception;
use crate::front::logging::{Levels, ToPython, logger_names};
use crate::front::queue::{Entry, Queue};
use crate::front::raised::Raised;
use crate::front::reading::{get, need};
use crate::front::{Front, FrontObject};
use crate::objects::memos::PyMemos;
use crate::state::scope::scope;
use crate::state::settings;
#[cfg(feature = "sandbox")]
use crate::tools::sandboxing::Sandbox;
#[cfg(feature = "sandbox")]
use crate::tools::virtual_time::VirtualTime;

/// An operator.
#[pyclass(frozen, weakref, module = "kopf._kopf")]
pub(crate) struct Engine {
    pub(crate) front: Arc<Front>,
    stop: CancellationToken,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl Engine {
    /// Creates an operator. `bridge` is a `kopf._front.bridge.bridge.Bridge`.
    #[new]
    fn new(bridge: Py<PyAny>) -> PyResult<Self> {
        let queue = Arc::new(Queue::new()?);
        let levels = Arc::new(Levels::new());
        let host = Arc::new(LoopHost {
            queue: Arc::clone(&queue),
            takes_all: AtomicBool::new(false),
        });
        let dispatch = Dispatch::new(tracing_subscriber::registry().with(ToPython {
            queue: Arc::clone(&queue),
            levels: Arc::clone(&levels),
        }));
        let front = Arc::new(Front::new(queue, levels, host, dispatch, bridge));
        Ok(Self {
            front,
            stop: CancellationToken::new(),
            thread: Mutex::default(),
        })
    }

    /// Returns the file descriptor to watch for reading.
    fn fileno(&self) -> i32 {
        self.front.queue.fd()
    }

    /// Processes the entries that wait for the event loop.
    fn drain(&self, py: Python<'_>) {
        drain(py, &self.front);
    }

    /// Sets the effective levels of the loggers, in the order of `logger_names()`, and whether spans
    /// are recorded.
    fn set_levels(&self, levels: Vec<i32>, traced: bool) {
        self.front.levels.set(&levels, traced);
    }

    /// Returns the frontend, for native code that is called by handlers.
    #[getter]
    fn front(&self) -> FrontObject {
        FrontObject(Arc::clone(&self.front))
    }

    /// Returns the number of wake-ups of the event loop.
    #[getter]
    fn wakeups(&self) -> u64 {
        self.front.queue.wakeups()
    }

    /// Replaces the handlers that are used after the startup.
    fn declare(&self, specs: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let declared = declarations(&self.front, &specs)?;
        let former = self.front.declarations.lock().replace(declared);
        drop(former);
        Ok(())
    }

    /// Starts the engine with these startup handlers. `options` are those of `kopf.operator()`.
    fn start(
        &self,
        startup: Vec<Bound<'_, PyAny>>,
        given: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let operator = self.operator(&startup, given, options)?;
        let (front, stop) = (Arc::clone(&self.front), self.stop.clone());
        let thread = std::thread::Builder::new().name("kopf".to_owned());
        #[cfg(feature = "sandbox")]
        if let Some(sandbox) = get::<Py<Sandbox>>(options, "virtual")? {
            let (time, client) = sandbox.get().virtual_time()?;
            let thread =
                thread.spawn(move || run_virtually(operator, client, &front, stop, &time))?;
            *self.thread.lock() = Some(thread);
            return Ok(());
        }
        let thread = thread.spawn(move || run(operator, &front, stop))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Requests the operator to stop.
    fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the thread has ended.
    fn join(&self, py: Python<'_>) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            py.detach(|| {
                let _ = thread.join();
            });
        }
    }

    /// Returns `true` if the thread has ended.
    fn is_finished(&self) -> bool {
        let thread = self.thread.lock();
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Closes the queue at the end of the event loop.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.front.queue.close());
    }
}

impl Engine {
    fn operator(
        &self,
        startup: &[Bound<'_, PyAny>],
        given: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Operator> {
        let front = &self.front;
        let mut settings = Settings::default();
        settings::apply(front, given, &mut settings)?;
        if settings.leading.name.is_empty() && !startup.is_empty() {
            // Startup handlers can set the name, and all settings are applied again after them.
            // The engine validates them before and after the startup.
            settings.leading.enabled = false;
            settings.leading.shards = None;
        }
        let Declarations {
            registry, indices, ..
        } = declarations(front, startup)?;
        let declared = Arc::clone(front);
        #[cfg(feature = "sandbox")]
        let page = get::<Py<Sandbox>>(options, "page")?.and_then(|sandbox| sandbox.get().page());
        let mut operator = Operator::new(registry)
            .settings(settings)
            .scope(scope(options)?)
            .indices(indices)
            .front(Arc::clone(front) as _)
            .keep_managed_fields(true)
            .definitions(objects(options, "definitions")?)
            .host(Arc::clone(&front.host) as _)
            .heartbeat(Arc::clone(&front.host) as _)
            .memos(Arc::new(PyMemos {
                operator: need(options, "memo")?,
                copy: need(options, "copy")?,
            }))
            .declare_after_startup(move |settings| {
                note_start(&declared);
                let declarations = declared.declarations.lock().take();
                let declarations = declarations.ok_or("the handlers were not declared")?;
                #[cfg(feature = "sandbox")]
                if let Some(page) = page {
                    page.adopt(PageOperator::new(settings, declarations.registry.clone()));
                }
                #[cfg(not(feature = "sandbox"))]
                let _ = settings;
                Ok(declarations)
            });
        if let Some(given) = get::<Bound<'_, PyAny>>(options, "lifecycle")? {
            if given.is_callable() {
                front
                    .host
                    .takes_all
                    .store(true, std::sync::atomic::Ordering::Relaxed);
            }
            operator = operator.lifecycle(lifecycle(front, &given)?);
        }
        if let Some(identity) = get::<String>(options, "identity")? {
            operator = operator.identity(identity);
        }
        if let Some(endpoint) = endpoint(options, "liveness_endpoint")? {
            operator = operator.liveness(endpoint);
        }
        if let Some(endpoint) = endpoint(options, "metrics_endpoint")? {
            operator = operator.metrics_endpoint(endpoint);
        }
        Ok(operator)
    }
}

/// Tells the bridge that the startup handlers have finished.
fn note_start(front: &Arc<Front>) {
    let started = Arc::clone(front);
    front.queue.push(Entry::Run(Box::new(move |py| {
        if let Err(error) = started.bridge.call_method0(py, "started") {
            error.write_unraisable(py, None);
        }
    })));
}

/// Parses the address of an endpoint; `None` if it is absent.
fn endpoint(options: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<Endpoint>> {
    let given = get::<String>(options, key)?;
    let parsed = given.map(|given| given.parse::<Endpoint>()).transpose();
    parsed.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Runs the engine in the current thread.
fn run(operator: Operator, front: &Arc<Front>, stop: CancellationToken) {
    let queue = Arc::clone(&front.queue);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || queue.flush())
        .build();
    match runtime {
        Ok(runtime) => {
            serve(&runtime, operator, Access::Login, front, stop);
            // Hanging name lookups must not delay the end.
            runtime.shutdown_background();
        }
        Err(error) => {
            let message = format!("cannot start the runtime: {error}");
            report_end(front, Err(("os", message, None)));
        }
    }
}

/// Runs the engine in the thread of a sandbox with virtual time, and waits for its end.
#[cfg(feature = "sandbox")]
fn run_virtually(
    operator: Operator,
    client: Client,
    front: &Arc<Front>,
    stop: CancellationToken,
    time: &Arc<VirtualTime>,
) {
    let operator = operator.clock(time.clock());
    let served = Arc::clone(front);
    let is_run = time.run(
        &front.queue,
        Box::new(move |runtime| serve(runtime, operator, Access::Client(client), &served, stop)),
    );
    if !is_run {
        let message = "the sandbox with virtual time has another operator, or is stopped: run one \
                       operator at a time";
        report_end(front, Err(("operator", message.to_owned(), None)));
    }
}

/// Runs the engine on a runtime until the event loop has ended.
fn serve(
    runtime: &Runtime,
    operator: Operator,
    access: Access,
    front: &Arc<Front>,
    stop: CancellationToken,
) {
    let _guard = tracing::dispatcher::set_default(&front.dispatch);
    front.queue.set_engine();
    let _ = front.runtime.set(runtime.handle().clone());
    let outcome = runtime.block_on(operator.run(access, stop));
    let outcome = outcome.map_err(|error| {
        let exception = Raised::find(&error).map(|raised| raised.exception().clone());
        (kind_of(&error), describe(&error), exception)
    });
    report_end(front, outcome);
    // Until the loop has ended, it polls tasks of this runtime, such as requests of handlers that
    // ignore their cancellation.
    runtime.block_on(front.queue.closed());
}

/// The kind of an error, its message, and the exception that caused it.
type Failure = (&'static str, String, Option<Attachment>);

/// Reports the end of the operator to the event loop.
fn report_end(front: &Arc<Front>, outcome: Result<(), Failure>) {
    let ended = Arc::clone(front);
    front.queue.push(Entry::Run(Box::new(move |py| {
        let (kind, message, exception) = match outcome {
            Ok(()) => (None, None, None),
            Err((kind, message, exception)) => (Some(kind), Some(message), exception),
        };
        let exception = exception.as_ref().and_then(|one| Exception::of(py, one));
        let arguments = (kind, message, exception);
        if let Err(error) = ended.bridge.call_method1(py, "ended", arguments) {
            error.write_unraisable(py, None);
        }
    })));
    front.queue.flush();
}

/// Checks the URL of the health endpoint or of the metrics.
#[pyfunction]
pub(crate) fn check_endpoint(text: &str) -> PyResult<()> {
    let endpoint = text.parse::<Endpoint>();
    endpoint
        .map(drop)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the name of the failed activity, or the kind of the error.
fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::Activity(failed) => failed.activity().as_str(),
        Error::Login(_) => "login",
        Error::Settings(_) | Error::Handler(_) | Error::Declaration(_) => "configuration",
        _ => "operator",
    }
}

/// Returns the names of the loggers that the engine uses.
#[pyfunction]
#[pyo3(name = "logger_names")]
pub(crate) fn py_logger_names() -> Vec<&'static str> {
    logger_names()
}
