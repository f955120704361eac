//! Settings of the persistence of state on objects.

use std::sync::Arc;
use std::time::Duration;

use crate::diffbase::{AnnotationsDiffBaseStorage, DiffBaseStorage};
use crate::progress::{ProgressStorage, SmartProgressStorage};
use crate::secrets::SecretValues;

/// Persistence of state on objects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Persistence {
    /// The finalizer that blocks the deletion of objects before they are handled. Default:
    /// `kopf.zalando.org/KopfFinalizerMarker`. If it is changed, objects keep the old one.
    pub finalizer: String,
    /// The storage of the progress of handlers between attempts and restarts. Default: in
    /// annotations, and read from the status as well.
    pub progress_storage: Arc<dyn ProgressStorage>,
    /// The storage of the diff-base. Default: in an annotation.
    pub diffbase_storage: Arc<dyn DiffBaseStorage>,
    /// The time to wait for the operator's own write to arrive on the watch before handling
    /// continues. Default: 5 seconds; zero does not wait, and handlers can see an outdated object.
    pub consistency_timeout: Duration,
    /// Wakes delayed handlers by changing the object, as the original does. Default: false, they
    /// are woken in memory, which saves a request and an event each.
    pub touching: bool,
    /// Writes the status of an object before its annotations, where these are two requests. Default:
    /// false, the annotations go first, as in the original: a process that dies in between has
    /// recorded a success and lost its result. Otherwise, the handler is called again. Not meant for
    /// progress that is kept in the status.
    pub results_first: bool,
    /// Accepts that a change is lost for a handler that has finished while other handlers of the
    /// same cause still run or wait, as in the original. Default: false, an update with the missed
    /// changes follows; until then, the annotation `attempted-essences` is kept on the object.
    pub lost_updates: bool,
    /// The field manager of children that are applied: see
    /// [`children`](crate::children). Default: `None`, the name of the operator in its events,
    /// `posting.reporting_component`.
    pub field_manager: Option<String>,
    /// The form in which the values of Secrets are stored in the diff-base. Default: as they are, as in
    /// the original; operators in Rust store digests. Handlers find digests in `old`, `new` and `diff`
    /// then, and values in the body.
    pub secret_values: SecretValues,
}

impl Default for Persistence {
    fn default() -> Self {
        Self {
            finalizer: "kopf.zalando.org/KopfFinalizerMarker".to_owned(),
            progress_storage: Arc::new(SmartProgressStorage::default()),
            diffbase_storage: Arc::new(AnnotationsDiffBaseStorage::default()),
            consistency_timeout: Duration::from_secs(5),
            touching: false,
            results_first: false,
            lost_updates: false,
            field_manager: None,
            secret_values: SecretValues::Plain,
        }
    }
}
