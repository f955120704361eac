//! State of the frontend of one operator.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::body::Body;
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;
use kopf_engine::operator::Declarations;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::Dispatch;

use crate::front::convert::to_python_in_order;
use crate::front::hosting::{LoopHost, Task};
use crate::front::logging::Levels;
use crate::front::queue::Queue;

/// A resource with its object in Python.
type Converted = (Arc<Resource>, Py<PyAny>);

/// The frontend of one operator: the queue to its event loop, and the Python object that starts
/// functions.
pub(crate) struct Front {
    pub(crate) queue: Arc<Queue>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) host: Arc<LoopHost>,
    pub(crate) dispatch: Dispatch,
    /// A `kopf._front.bridge.bridge.Bridge`.
    pub(crate) bridge: Py<PyAny>,
    /// The runtime of the engine; empty before its start.
    pub(crate) runtime: OnceLock<Handle>,
    /// The last declared handlers, until the engine takes them after the startup.
    pub(crate) declarations: Mutex<Option<Declarations>>,
    resources: Mutex<HashMap<Arc<str>, Converted>>,
    last_body: Mutex<Option<(Body, Py<PyAny>)>>,
}

impl Front {
    pub(crate) fn new(
        queue: Arc<Queue>,
        levels: Arc<Levels>,
        host: Arc<LoopHost>,
        dispatch: Dispatch,
        bridge: Py<PyAny>,
    ) -> Self {
        Self {
            queue,
            levels,
            host,
            dispatch,
            bridge,
            runtime: OnceLock::new(),
            declarations: Mutex::default(),
            resources: Mutex::default(),
            last_body: Mutex::default(),
        }
    }

    /// Returns the frontend of the operator whose code runs.
    pub(crate) fn current(py: Python<'_>) -> PyResult<Arc<Self>> {
        let bridge = py
            .import("kopf._front.objects.current")?
            .getattr("bridge_var")?;
        let engine = bridge.call_method0("get")?.getattr("engine")?;
        let front = engine.getattr("front")?.extract::<Py<FrontObject>>()?;
        Ok(Arc::clone(&front.get().0))
    }

    /// Runs the work for a future of Python in the thread of the event loop. The work must resolve
    /// the future, and is dropped when the future is done by other means, such as a cancellation.
    ///
    /// # Errors
    /// If the operator has ended: the future would never be resolved.
    pub(crate) fn host_for(
        &self,
        py: Python<'_>,
        awaited: &Py<PyAny>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> PyResult<()> {
        let done = CancellationToken::new();
        let callback = DoneCallback(done.clone());
        if !self.host(async move {
            done.run_until_cancelled_owned(work).await;
        }) {
            return Err(PyRuntimeError::new_err("the operator has ended"));
        }
        awaited.call_method1(py, intern!(py, "add_done_callback"), (callback,))?;
        Ok(())
    }

    /// Runs a future of the engine in the thread of the event loop. Returns `false` if the operator
    /// has ended.
    pub(crate) fn host(&self, future: impl Future<Output = ()> + Send + 'static) -> bool {
        let future = future.boxed();
        let future: BoxFuture<'static, ()> = match self.runtime.get() {
            Some(runtime) => Box::pin(Entered {
                runtime: runtime.clone(),
                future,
            }),
            None => future,
        };
        Task::spawn(&self.queue, future)
    }

    /// Returns the `Resource` of Python.
    pub(crate) fn resource(&self, py: Python<'_>, resource: &Arc<Resource>) -> PyResult<Py<PyAny>> {
        let key: Arc<str> = resource.to_string().into();
        let known = self.resources.lock();
        if let Some((known, object)) = known.get(&key)
            && (Arc::ptr_eq(known, resource) || known == resource)
        {
            return Ok(object.clone_ref(py));
        }
        drop(known);
        let made = self
            .bridge
            .call_method1(py, "resource", (describe(py, resource)?,))?;
        let entry = (Arc::clone(resource), made.clone_ref(py));
        let former = self.resources.lock().insert(key, entry);
        drop(former);
        Ok(made)
    }

    /// Returns a body as a dict. The last one is cached, because filters of several handlers need
    /// the same body.
    pub(crate) fn body(&self, py: Python<'_>, body: &Body) -> PyResult<Py<PyAny>> {
        let last = self.last_body.lock();
        if let Some((known, object)) = &*last
            && std::ptr::eq(known.value(), body.value())
        {
            return Ok(object.clone_ref(py));
        }
        drop(last);
        let order = body.order().map(Arc::as_ref);
        let made = to_python_in_order(py, body.value(), order)?.unbind();
        let former = self
            .last_body
            .lock()
            .replace((body.clone(), made.clone_ref(py)));
        drop(former);
        Ok(made)
    }
}

/// The frontend as an attribute of the engine.
#[pyclass(frozen, name = "Front", module = "kopf._kopf")]
pub(crate) struct FrontObject(pub(crate) Arc<Front>);

/// Returns the fields of a resource as keyword arguments.
pub(crate) fn describe<'py>(py: Python<'py>, resource: &Resource) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("group", &resource.group)?;
    fields.set_item("version", &resource.version)?;
    fields.set_item("plural", &resource.plural)?;
    fields.set_item("kind", &resource.kind)?;
    fields.set_item("singular", &resource.singular)?;
    fields.set_item("shortcuts", &resource.shortcuts)?;
    fields.set_item("categories", &resource.categories)?;
    fields.set_item("subresources", &resource.subresources)?;
    fields.set_item("namespaced", resource.namespaced)?;
    fields.set_item("preferred", resource.preferred)?;
    fields.set_item("verbs", &resource.verbs)?;
    Ok(fields)
}

/// The callback of a future of Python, which ends the work for it.
#[pyclass(frozen, module = "kopf._kopf")]
struct DoneCallback(CancellationToken);

#[pymethods]
impl DoneCallback {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.cancel();
    }
}

/// A future that is polled in the context of the engine's runtime.
struct Entered {
    runtime: Handle,
    future: BoxFuture<'static, ()>,
}

impl Future for Entered {
    type Output = ();

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<()> {
        let this = &mut *self;
        let _entered = this.runtime.enter();
        this.future.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use tokio::sync::oneshot;

    use super::*;
    use crate::front::queue::Entry;
    use crate::interpreter::{attached, evaluate};

    /// Returns a frontend whose bridge is an empty object.
    fn front(py: Python<'_>) -> PyResult<Front> {
        let queue = Arc::new(Queue::new()?);
        let host = Arc::new(LoopHost {
            queue: Arc::clone(&queue),
            takes_all: AtomicBool::new(false),
        });
        let levels = Arc::new(Levels::new());
        Ok(Front::new(queue, levels, host, Dispatch::none(), py.None()))
    }

    fn poll_all(front: &Front) {
        while let Some(entry) = front.queue.pop() {
            if let Entry::Poll(task) = entry {
                task.poll();
            }
        }
    }

    #[test]
    fn work_for_a_future_is_dropped_when_the_future_is_cancelled() {
        let (sender, mut receiver) = oneshot::channel::<()>();
        attached(|py| {
            let front = front(py)?;
            let made =
                "import asyncio\nloop = asyncio.new_event_loop()\nfuture = loop.create_future()";
            let both = evaluate(py, made, "(loop, future)")?;
            let (event_loop, future): (Py<PyAny>, Py<PyAny>) = both.extract()?;
            front.host_for(py, &future, async move {
                let _sender = sender;
                std::future::pending::<()>().await;
            })?;
            poll_all(&front);
            assert_eq!(
                receiver.try_recv(),
                Err(oneshot::error::TryRecvError::Empty)
            );
            future.call_method0(py, "cancel")?;
            // One turn of the loop calls the callbacks of the future.
            event_loop.call_method1(py, "call_soon", (event_loop.getattr(py, "stop")?,))?;
            event_loop.call_method0(py, "run_forever")?;
            event_loop.call_method0(py, "close")?;
            poll_all(&front);
            Ok(())
        });
        assert_eq!(
            receiver.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        );
    }

    #[test]
    fn work_for_a_future_is_refused_after_the_end() {
        let text = attached(|py| {
            let front = front(py)?;
            front.queue.close();
            let refused = front.host_for(py, &py.None(), async {});
            Ok(refused.unwrap_err().to_string())
        });
        assert_eq!(text, "RuntimeError: the operator has ended");
    }

    #[test]
    fn bodies_are_converted_once_for_consecutive_filters() {
        attached(|py| {
            let front = front(py)?;
            let body = Body::new(serde_json::json!({"spec": {"a": 1}}));
            let first = front.body(py, &body)?;
            assert!(front.body(py, &body)?.is(&first));
            let other = Body::new(serde_json::json!({"spec": {"a": 1}}));
            assert!(!front.body(py, &other)?.is(&first));
            Ok(())
        });
    }
}
