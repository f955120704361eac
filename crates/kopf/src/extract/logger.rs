//! The log, in the name of the object, or of what happens to the operator.

use std::fmt::Display;
use std::sync::Arc;

use kopf_core::wording::Level;
use kopf_engine::logger::ObjectLogger;

use super::{Context, Extract, FilterExtract, Rejection};

/// The logger of the object; in activities, such as `on::startup`, the logger of the activity. Cheap
/// to clone.
///
/// Records of level INFO and above are also posted as k8s-events of the object, unless the settings
/// disable that (`posting.loggers`, `posting.level`). Records of reviews are never posted: the object
/// may never be stored.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(logger: Logger, Spec(spec): Spec) {
///     logger.debug(&*spec);
///     logger.info("It is created.");
///     logger.warn(format_args!("The field is {}.", spec["field"]));
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Logger(ObjectLogger);

impl Logger {
    /// What is interesting only when something goes wrong.
    pub fn debug(&self, message: impl Display) {
        self.0.debug(message);
    }

    /// What has happened.
    pub fn info(&self, message: impl Display) {
        self.0.info(message);
    }

    /// What can be a problem.
    pub fn warn(&self, message: impl Display) {
        self.0.warning(message);
    }

    /// What went wrong.
    pub fn error(&self, message: impl Display) {
        self.0.error(message);
    }

    /// A record of any level.
    pub fn log(&self, level: Level, message: impl Display) {
        self.0.log(level, message);
    }

    /// The same logger, but its records are not posted as events of the object.
    #[must_use]
    pub fn local(&self) -> Self {
        Self(self.0.local())
    }

    /// Whether records for debugging go anywhere: to avoid preparing them otherwise.
    pub fn is_debug_enabled(&self) -> bool {
        self.0.is_debug_enabled()
    }
}

/// A logger of no object, to call a handler with in a test.
impl Default for Logger {
    fn default() -> Self {
        Self(ObjectLogger::new(Arc::default(), None))
    }
}

impl Extract for Logger {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(context.logger().clone()))
    }
}

impl FilterExtract for Logger {}
