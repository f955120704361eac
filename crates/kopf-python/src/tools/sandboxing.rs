//! The sandbox in its own threads.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kopf_client::Client;
use kopf_core::failure::describe;
use kopf_core::sync::Mutex;
use kopf_inspect::{Cluster, Page, PageHandle, Storages};
use kopf_sandbox::manifests::{Manifests, dropped_owners};
use kopf_sandbox::simulation::{Answer, Simulation};
use kopf_sandbox::{Listen, Listening, ServiceUrl};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinSet;

use crate::front::convert::to_python;
use crate::front::reading::get;
use crate::tools::virtual_time::{Advance, VirtualTime};

/// Threads that serve requests. With one, a costly request would delay all others.
const WORKERS: usize = 4;

/// A Kubernetes API server in this process.
#[pyclass(frozen, module = "kopf._kopf")]
pub(crate) struct Sandbox {
    listen: Listen,
    rbac: bool,
    data: Option<PathBuf>,
    seed: Option<u64>,
    simulation: Option<Simulation>,
    services: Vec<ServiceUrl>,
    /// Fault rules in YAML.
    faults: Option<String>,
    manifests: Manifests,
    /// Objects to store unchanged.
    dumps: Manifests,
    is_virtual: bool,
    running: Mutex<Option<Running>>,
    advance: Mutex<Option<Arc<Advance>>>,
}

struct Running {
    place: Place,
    sandbox: kopf_sandbox::Sandbox,
    listening: Listening,
    /// Served pages of `kopf ui`.
    pages: JoinSet<()>,
    /// The last opened page.
    page: Option<PageHandle>,
}

/// Where a server runs.
enum Place {
    /// In threads of its own.
    Threads(Runtime),
    /// In one thread with its operator.
    Virtual(Arc<VirtualTime>, Handle),
}

impl Place {
    fn open(is_virtual: bool) -> Result<Self, AnyError> {
        if is_virtual {
            let time = VirtualTime::start()?;
            let handle = time.handle().ok_or("the runtime is not started")?;
            return Ok(Self::Virtual(time, handle));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("kopf-sandbox")
            .enable_all()
            .build()?;
        Ok(Self::Threads(runtime))
    }

    fn handle(&self) -> &Handle {
        match self {
            Self::Threads(runtime) => runtime.handle(),
            Self::Virtual(_, handle) => handle,
        }
    }

    fn close(self) {
        match self {
            Self::Threads(runtime) => runtime.shutdown_background(),
            Self::Virtual(time, _) => time.stop(),
        }
    }
}

impl Sandbox {
    /// Returns the page of the operator.
    pub(crate) fn page(&self) -> Option<PageHandle> {
        self.running.lock().as_ref()?.page.clone()
    }

    /// Returns the virtual time, and a client for its operator.
    pub(crate) fn virtual_time(&self) -> PyResult<(Arc<VirtualTime>, Client)> {
        let client =
            self.with(|running| Client::from_service(running.sandbox.service(), "default"))?;
        Ok((self.time()?, client))
    }

    fn time(&self) -> PyResult<Arc<VirtualTime>> {
        let time = self.with(|running| match &running.place {
            Place::Virtual(time, _) => Some(Arc::clone(time)),
            Place::Threads(_) => None,
        })?;
        let message = "the time of the sandbox is real: use sandbox(time=\"virtual\")";
        time.ok_or_else(|| PyRuntimeError::new_err(message))
    }
}

#[pymethods]
impl Sandbox {
    #[new]
    fn new(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut listen = Listen::default();
        if let Some(address) = get::<String>(options, "address")? {
            listen.address = address.parse::<IpAddr>().map_err(|_| {
                PyValueError::new_err(format!("address: {address:?} is not an IP address"))
            })?;
        }
        listen.port = get(options, "port")?.unwrap_or(0);
        Ok(Self {
            listen,
            rbac: get(options, "rbac")?.unwrap_or(false),
            data: get(options, "data")?,
            seed: get(options, "seed")?,
            simulation: simulation(options)?,
            services: services(options)?,
            faults: get(options, "faults")?,
            manifests: parse("manifest", get(options, "manifests")?.unwrap_or_default())?,
            dumps: parse("dump", get(options, "dumps")?.unwrap_or_default())?,
            is_virtual: get(options, "virtual")?.unwrap_or(false),
            running: Mutex::default(),
            advance: Mutex::default(),
        })
    }

    /// Starts the server and loads the dumps and manifests. Returns a warning about dropped owners.
    fn start(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let running = py.detach(|| self.run());
        let (running, warning) = running.map_err(failed)?;
        *self.running.lock() = Some(running);
        Ok(warning)
    }

    #[getter]
    fn url(&self) -> PyResult<String> {
        self.with(|running| running.listening.url().to_owned())
    }

    /// Returns the content of a kubeconfig.
    #[getter]
    fn kubeconfig(&self) -> PyResult<String> {
        self.with(|running| running.listening.kubeconfig())
    }

    /// Serves the page of `kopf ui` until the server stops. Returns its URL.
    fn open_page(&self, py: Python<'_>) -> PyResult<String> {
        let (handle, service) = self.with(|running| {
            let handle = running.place.handle().clone();
            (handle, running.sandbox.service())
        })?;
        let cluster = Cluster::new(&Client::from_service(service, "default"));
        let opened =
            py.detach(|| handle.block_on(Page::open(cluster, Storages::default(), &[], 0)));
        let page = opened.map_err(|error| failed(error.into()))?;
        let url = page.url();
        if let Some(running) = self.running.lock().as_mut() {
            running.page = Some(page.handle());
            let serving = async move { page.serve(None).await };
            running.pages.spawn_on(serving, &handle);
        }
        Ok(url)
    }

    /// Stops the server.
    fn stop(&self, py: Python<'_>) {
        let running = self.running.lock().take();
        if let Some(running) = running {
            py.detach(|| {
                let Running {
                    place,
                    sandbox,
                    listening,
                    mut pages,
                    ..
                } = running;
                place.handle().block_on(async {
                    pages.shutdown().await;
                    listening.shutdown().await;
                    sandbox.shutdown().await;
                });
                place.close();
            });
        }
    }

    /// Returns the seconds of virtual time since the start.
    fn now(&self) -> PyResult<f64> {
        Ok(self.time()?.now())
    }

    /// Notes that the event loop of the operator waits, at most for these seconds.
    #[pyo3(signature = (timeout=None))]
    fn set_loop_idle(&self, timeout: Option<f64>) -> PyResult<()> {
        let timeout = timeout.map(|timeout| Duration::try_from_secs_f64(timeout.max(0.0)));
        self.time()?.set_loop_idle(timeout.and_then(Result::ok));
        Ok(())
    }

    /// Notes that the event loop of the operator runs.
    fn set_loop_busy(&self) -> PyResult<()> {
        self.time()?.set_loop_busy();
        Ok(())
    }

    /// Notes that a function in a thread runs.
    fn enter_thread(&self) -> PyResult<()> {
        self.time()?.enter_thread();
        Ok(())
    }

    /// Notes that a function in a thread has ended, or waits for the engine.
    fn leave_thread(&self) -> PyResult<()> {
        self.time()?.leave_thread();
        Ok(())
    }

    /// Returns the number of running functions in threads, and whether the event loop is idle.
    fn activity(&self) -> PyResult<(usize, bool)> {
        Ok(self.time()?.activity())
    }

    /// Begins to advance the time by these seconds.
    fn begin_advance(&self, seconds: f64) -> PyResult<()> {
        let duration = Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!(
                "cannot advance the time by {seconds}: must be a positive number of seconds"
            ))
        })?;
        let advance = self.time()?.advance(duration).ok_or_else(|| {
            PyRuntimeError::new_err(
                "the time is being advanced by another thread: wait for its end",
            )
        })?;
        *self.advance.lock() = Some(Arc::new(advance));
        Ok(())
    }

    /// Waits for the end of the advance, at most for these seconds. Returns `true` at the end.
    fn wait_advance(&self, py: Python<'_>, limit: f64) -> bool {
        let advance = self.advance.lock().clone();
        let limit = Duration::try_from_secs_f64(limit).unwrap_or_default();
        py.detach(|| advance.is_none_or(|advance| advance.wait(limit)))
    }

    /// Ends the advance at the current time.
    fn cancel_advance(&self, py: Python<'_>) {
        let advance = self.advance.lock().take();
        if let Some(advance) = advance {
            advance.cancel();
            py.detach(|| advance.wait(Duration::from_secs(5)));
        }
    }
}

fn simulation(options: &Bound<'_, PyDict>) -> PyResult<Option<Simulation>> {
    let Some(kinds) = get::<String>(options, "simulate")? else {
        return Ok(None);
    };
    let invalid = |error: String| PyValueError::new_err(format!("simulate: {error}"));
    let mut simulation: Simulation = kinds.parse().map_err(|error| invalid(format!("{error}")))?;
    if let Some(seconds) = get::<f64>(options, "ready_after")? {
        let delay = Duration::try_from_secs_f64(seconds);
        let delay = delay.map_err(|_| {
            invalid(format!(
                "invalid delay {seconds}: must be a positive number of seconds"
            ))
        })?;
        simulation = simulation.ready_after(delay);
    }
    if let Some(text) = get::<String>(options, "answers")? {
        let answers = Answer::parse(&text);
        let answers =
            answers.map_err(|error| PyValueError::new_err(format!("answers: {error}")))?;
        simulation = simulation.answers(answers);
    }
    Ok(Some(simulation))
}

/// Parses the mapped Services of webhooks.
fn services(options: &Bound<'_, PyDict>) -> PyResult<Vec<ServiceUrl>> {
    let services = get::<Vec<String>>(options, "services")?.unwrap_or_default();
    let services = services.iter().map(|service| service.parse());
    let services: Result<_, kopf_sandbox::InvalidServiceUrl> = services.collect();
    services.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Parses manifests. Errors contain the numbers of the manifests.
fn parse(title: &str, texts: Vec<String>) -> PyResult<Manifests> {
    let texts = texts.into_iter().enumerate();
    let texts = texts.map(|(number, text)| (format!("{title} {}", number + 1), text));
    Manifests::parse(texts).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns all objects of a data directory.
#[pyfunction]
pub(crate) fn export_data(py: Python<'_>, folder: PathBuf) -> PyResult<Py<PyAny>> {
    if !folder.join("format").is_file() {
        let place = folder.display();
        return Err(PyValueError::new_err(format!(
            "cannot export {place}: it is not a data folder of a sandbox"
        )));
    }
    let exported =
        py.detach(|| with_data(&folder, async |sandbox| Ok(Value::Array(sandbox.export()))));
    Ok(to_python(py, &exported.map_err(failed)?)?.unbind())
}

/// Stores the objects of dumps unchanged in a data directory. Returns their number and a warning
/// about dropped owners.
#[pyfunction]
pub(crate) fn import_data(
    py: Python<'_>,
    folder: PathBuf,
    dumps: Vec<String>,
) -> PyResult<(usize, Option<String>)> {
    let dumps = parse("dump", dumps)?;
    let stored = py.detach(|| {
        with_data(&folder, async |sandbox| {
            let loaded = dumps.restore(sandbox).await?;
            Ok((loaded.len(), dropped_owners(&loaded)))
        })
    });
    stored.map_err(failed)
}

/// Runs a function with a sandbox on a data directory, without a server.
fn with_data<T>(
    folder: &Path,
    function: impl AsyncFnOnce(&kopf_sandbox::Sandbox) -> Result<T, AnyError>,
) -> Result<T, AnyError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let sandbox = kopf_sandbox::Sandbox::builder().data(folder).build()?;
        let result = function(&sandbox).await;
        sandbox.shutdown().await;
        result
    })
}

fn failed(error: AnyError) -> PyErr {
    PyRuntimeError::new_err(describe(&*error))
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl Sandbox {
    fn run(&self) -> Result<(Running, Option<String>), AnyError> {
        let place = Place::open(self.is_virtual)?;
        let (sandbox, listening, warning) = place.handle().block_on(async {
            let mut builder = kopf_sandbox::Sandbox::builder();
            if self.rbac {
                builder = builder.rbac();
            }
            if let Some(folder) = &self.data {
                builder = builder.data(folder);
            }
            if let Some(seed) = self.seed {
                builder = builder.seed(seed);
            }
            if let Some(simulation) = self.simulation.clone() {
                builder = builder.simulate(simulation);
            }
            for service in &self.services {
                builder = builder.service(service.clone());
            }
            let sandbox = builder.build()?;
            let mut loaded = self.dumps.restore(&sandbox).await?;
            loaded.extend(self.manifests.load(&sandbox).await?);
            if let Some(rules) = &self.faults {
                // Faults must not affect the loading of manifests.
                sandbox.faults().load(rules)?;
            }
            let listening = sandbox.listen(self.listen.clone()).await?;
            Ok::<_, AnyError>((sandbox, listening, dropped_owners(&loaded)))
        })?;
        let running = Running {
            place,
            sandbox,
            listening,
            pages: JoinSet::new(),
            page: None,
        };
        Ok((running, warning))
    }

    fn with<T>(&self, read: impl FnOnce(&Running) -> T) -> PyResult<T> {
        let running = self.running.lock();
        let running = running.as_ref();
        running
            .map(read)
            .ok_or_else(|| PyRuntimeError::new_err("the sandbox is not started"))
    }
}
