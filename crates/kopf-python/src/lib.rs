//! The Python frontend: operators in Python on the engine.
//!
//! The engine runs in a thread without an interpreter. Calls of functions, log records and tasks
//! with callbacks go through one [queue] to the event loop of the user, which [drains](drain) it.
//! All public classes are written in Python (`python/kopf/_front`); this crate converts values,
//! declares handlers and calls functions.
//!
//! Two rules prevent deadlocks: a thread detaches from the interpreter before it waits, and no lock
//! is held while Python code runs, except for that of a hosted task, which only the drain acquires.

mod bodies;
mod call;
mod children;
mod conditions;
mod convert;
mod declaring;
mod description;
mod drain;
mod engine;
#[cfg(feature = "sandbox")]
mod exploring;
mod filters;
mod front;
mod hosting;
mod indexing;
mod inspecting;
#[cfg(test)]
mod interpreter;
mod job;
mod kinds;
mod logging;
mod login;
mod memos;
mod patching;
mod pausing;
mod posting;
mod queue;
mod raised;
mod reading;
mod resolving;
#[cfg(feature = "sandbox")]
mod sandboxing;
mod selecting;
mod settings;
mod shipping;
mod stopping;
mod storages;
mod traces;
#[cfg(feature = "sandbox")]
mod virtual_time;
mod webhooks;

/// The native part of `kopf`.
#[pyo3::pymodule]
mod _kopf {
    #[pymodule_export]
    use crate::bodies::{BodySource, ReviewedSource};
    #[pymodule_export]
    use crate::call::PyCall;
    #[pymodule_export]
    use crate::conditions::apply_conditions;
    #[pymodule_export]
    use crate::convert::is_json;
    #[pymodule_export]
    use crate::engine::{Engine, check_endpoint, check_namespace, py_logger_names};
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use crate::exploring::explore;
    #[pymodule_export]
    use crate::inspecting::inspect;
    #[pymodule_export]
    use crate::pausing::{freeze, resume};
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use crate::sandboxing::{Sandbox, export_data, import_data};
    #[pymodule_export]
    use crate::shipping::{manifests, new_project, peering, rbac};
    #[pymodule_export]
    use crate::stopping::StopFlag;
    #[pymodule_export]
    use crate::webhooks::{
        Answer, NativeServer, PyServing, announced_webhook_service, build_certificate,
        check_webhook_service,
    };
}
