//! The operator of a page that is served by the same process.

use std::fmt;
use std::sync::Arc;

use kopf_core::registry::Registry;
use kopf_core::resource::Resource;
use kopf_core::settings::Settings;

use super::api::Api;
use crate::storages::Storages;

type Ids = Arc<dyn Fn(&Resource) -> Vec<String> + Send + Sync>;

/// The storages and the handlers of an operator.
#[derive(Clone)]
pub struct PageOperator {
    pub(super) storages: Storages,
    ids: Ids,
}

impl PageOperator {
    /// Takes over the final settings and the handlers.
    pub fn new<F: Send + Sync + 'static>(settings: &Settings, registry: Registry<F>) -> Self {
        let ids = move |resource: &Resource| {
            let handlers = registry.for_resource(resource);
            let lasting = handlers.changing.iter().chain(&handlers.spawning);
            lasting.map(|handler| handler.id.to_string()).collect()
        };
        Self {
            storages: Storages::of_settings(settings),
            ids: Arc::new(ids),
        }
    }

    /// Returns the ids of the change handlers, daemons and timers for a resource. Objects without
    /// them are only indexed or watched: nothing about that is stored on them.
    pub(super) fn ids(&self, resource: &Resource) -> Vec<String> {
        (self.ids)(resource)
    }
}

impl fmt::Debug for PageOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageOperator").finish_non_exhaustive()
    }
}

/// A reference to a served page.
#[derive(Clone, Debug)]
pub struct PageHandle(pub(super) Arc<Api>);

impl PageHandle {
    /// Shows the objects that this operator handles, as the operator stores their state.
    pub fn adopt(&self, operator: PageOperator) {
        self.0.adopt(operator);
    }
}
