//! The sandbox, in threads of its own.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use kopf_sandbox::manifests::Manifests;
use kopf_sandbox::simulation::Simulation;
use kopf_sandbox::{Listen, Listening};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::Runtime;

use crate::declaring::get;
use crate::engine::describe;
use crate::front::lock;

/// A Kubernetes API server in this process.
#[pyclass(frozen, module = "kopf._kopf")]
pub(crate) struct Sandbox {
    listen: Listen,
    rbac: bool,
    data: Option<PathBuf>,
    seed: Option<u64>,
    simulation: Option<Simulation>,
    /// Rules of faults, in YAML.
    faults: Option<String>,
    manifests: Manifests,
    running: Mutex<Option<Running>>,
}

struct Running {
    runtime: Runtime,
    sandbox: kopf_sandbox::Sandbox,
    listening: Listening,
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
        let texts: Vec<String> = get(options, "manifests")?.unwrap_or_default();
        let texts = texts.into_iter().enumerate();
        let texts = texts.map(|(number, text)| (format!("manifest {}", number + 1), text));
        let manifests = Manifests::parse(texts);
        Ok(Self {
            listen,
            rbac: get(options, "rbac")?.unwrap_or(false),
            data: get(options, "data")?,
            seed: get(options, "seed")?,
            simulation: simulation(options)?,
            faults: get(options, "faults")?,
            manifests: manifests.map_err(|error| PyValueError::new_err(error.to_string()))?,
            running: Mutex::default(),
        })
    }

    /// Starts the server and loads the manifests.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let running = py.detach(|| self.run());
        let running = running.map_err(|error| PyRuntimeError::new_err(describe(&*error)))?;
        *lock(&self.running) = Some(running);
        Ok(())
    }

    #[getter]
    fn url(&self) -> PyResult<String> {
        self.with(|running| running.listening.url().to_owned())
    }

    /// The content of a kubeconfig.
    #[getter]
    fn kubeconfig(&self) -> PyResult<String> {
        self.with(|running| running.listening.kubeconfig())
    }

    /// Stops the server.
    fn stop(&self, py: Python<'_>) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            py.detach(|| {
                let Running {
                    runtime,
                    sandbox,
                    listening,
                } = running;
                runtime.block_on(async {
                    listening.shutdown().await;
                    sandbox.shutdown().await;
                });
                runtime.shutdown_background();
            });
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
    Ok(Some(simulation))
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl Sandbox {
    fn run(&self) -> Result<Running, AnyError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kopf-sandbox")
            .enable_all()
            .build()?;
        let (sandbox, listening) = runtime.block_on(async {
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
            let sandbox = builder.build()?;
            self.manifests.load(&sandbox).await?;
            if let Some(rules) = &self.faults {
                // After the manifests: faults are for the users of the sandbox.
                sandbox.faults().load(rules)?;
            }
            let listening = sandbox.listen(self.listen.clone()).await?;
            Ok::<_, AnyError>((sandbox, listening))
        })?;
        Ok(Running {
            runtime,
            sandbox,
            listening,
        })
    }

    fn with<T>(&self, read: impl FnOnce(&Running) -> T) -> PyResult<T> {
        let running = lock(&self.running);
        let running = running.as_ref();
        running
            .map(read)
            .ok_or_else(|| PyRuntimeError::new_err("the sandbox is not started"))
    }
}
