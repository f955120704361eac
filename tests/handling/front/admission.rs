//! Options of admission handlers.

use kopf_core::admission::{Operation, Review};
use kopf_core::filter::when_fn;
use kopf_engine::invocation::FilterContext;

use super::Declaration;

impl Declaration {
    pub(crate) fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.webhook.add_operations(operations);
        self
    }

    pub(crate) fn subresource(mut self, subresource: &str) -> Self {
        self.webhook.subresource = Some(subresource.to_owned());
        self
    }

    pub(crate) fn persistent(mut self) -> Self {
        self.webhook.persistent = true;
        self
    }

    pub(crate) fn side_effects(mut self) -> Self {
        self.webhook.side_effects = true;
        self
    }

    pub(crate) fn ignore_failures(mut self) -> Self {
        self.webhook.ignore_failures = true;
        self
    }

    /// Adds a filter by the admission request.
    pub(crate) fn when_asked<F>(mut self, filter: F) -> Self
    where
        F: Fn(&Review) -> bool + Send + Sync + 'static,
    {
        self.filters.when = Some(when_fn(move |_, context| {
            super::event_loop::check_thread();
            let context = context.downcast_ref::<FilterContext>();
            let admission = context.and_then(|context| context.admission.as_ref());
            Ok(filter(
                &admission
                    .expect("the filter is of an admission handler")
                    .review,
            ))
        }));
        self
    }
}
