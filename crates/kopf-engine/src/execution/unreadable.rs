//! Progress records and diff-bases that cannot be parsed.

use kopf_core::storage::StorageError;

use crate::errors::describe;
use crate::logger::ObjectLogger;

/// Warns that unreadable state of an object counts as absent, because it must not block the
/// deletion.
pub(crate) fn warn_unreadable(error: &StorageError, logger: &ObjectLogger) {
    let error = describe(error);
    logger.warning(format_args!(
        "The deletion ignores unreadable state of the object: {error}"
    ));
}
