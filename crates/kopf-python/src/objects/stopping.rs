//! The stop flag of daemons and timers.

use std::sync::Arc;
use std::time::Duration;

use kopf_engine::invocation::Stopped;
use pyo3::prelude::*;

use crate::front::Front;
use crate::front::resolving::resolve;

/// The stop flag, wrapped by `kopf._front.objects.stoppers`.
#[pyclass(frozen, module = "kopf._kopf")]
pub(crate) struct StopFlag {
    stopped: Stopped,
    front: Arc<Front>,
}

impl StopFlag {
    pub(crate) fn new(stopped: Stopped, front: Arc<Front>) -> Self {
        Self { stopped, front }
    }
}

#[pymethods]
impl StopFlag {
    fn is_set(&self) -> bool {
        self.stopped.is_set()
    }

    /// Returns the bits of the reasons.
    fn reason(&self) -> u8 {
        self.stopped.reason().bits()
    }

    /// Waits in a thread, detached from the interpreter.
    #[pyo3(signature = (timeout=None))]
    fn wait_blocking(&self, py: Python<'_>, timeout: Option<f64>) -> bool {
        let limit = timeout.map(limit);
        py.detach(|| self.stopped.wait_blocking(limit))
    }

    /// Waits in the event loop. Resolves the future with the value of the flag.
    #[pyo3(signature = (future, timeout=None))]
    fn wait_into(&self, py: Python<'_>, future: Py<PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let (stopped, front) = (self.stopped.clone(), Arc::clone(&self.front));
        let (limit, awaited) = (timeout.map(limit), future.clone_ref(py));
        self.front.host_for(py, &awaited, async move {
            let is_set = stopped.wait(limit).await;
            resolve(&front, &future, Ok(is_set.into()));
        })
    }
}

fn limit(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}
