//! The Python frontend: operators in Python on the engine.
//!
//! The engine runs in a thread without an interpreter. Calls of functions, log records and tasks
//! with callbacks go through one queue (`front::queue`) to the event loop of the user, which drains it
//! (`bridge::drain`).
//! All public classes are written in Python (`python/kopf/_front`); this crate converts values,
//! declares handlers and calls functions.
//!
//! The folders have the names of those in `python/kopf/_front`. `front` is below all of them: it is the
//! state of one operator that they share. A folder imports only those before it: `front`, `objects`,
//! `declare`, `serving`, `state`, `tools`, `bridge`.
//!
//! Two rules prevent deadlocks: a thread detaches from the interpreter before it waits, and no lock
//! is held while Python code runs, except for that of a hosted task, which only the drain acquires.

mod bridge;
mod declare;
mod front;
#[cfg(test)]
mod interpreter;
mod objects;
mod serving;
mod state;
mod tools;

/// The native part of `kopf`.
#[pyo3::pymodule]
mod _kopf {
    #[pymodule_export]
    use crate::bridge::engine::{Engine, check_endpoint, py_logger_names};
    #[pymodule_export]
    use crate::declare::executing::execute;
    #[pymodule_export]
    use crate::front::convert::is_json;
    #[pymodule_export]
    use crate::objects::bodies::{BodySource, ReviewedSource};
    #[pymodule_export]
    use crate::objects::call::PyCall;
    #[pymodule_export]
    use crate::objects::conditions::apply_conditions;
    #[pymodule_export]
    use crate::objects::stopping::StopFlag;
    #[pymodule_export]
    use crate::serving::webhooks::{
        Answer, NativeServer, PyServing, announced_webhook_service, build_certificate,
        check_webhook_service,
    };
    #[pymodule_export]
    use crate::state::login::finish_login;
    #[pymodule_export]
    use crate::state::scope::check_namespace;
    #[pymodule_export]
    use crate::state::settings::set_settings;
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use crate::tools::exploring::explore;
    #[pymodule_export]
    use crate::tools::inspecting::inspect;
    #[pymodule_export]
    use crate::tools::pausing::{freeze, resume};
    #[cfg(feature = "sandbox")]
    #[pymodule_export]
    use crate::tools::sandboxing::{Sandbox, export_data, import_data};
    #[pymodule_export]
    use crate::tools::shipping::{manifests, new_project, peering, rbac};
}
