//! Progress records and diff-bases that cannot be parsed.

use kopf_core::storage::StorageError;

use crate::errors::describe;
use crate::logger::ObjectLogger;

/// Warns that unreadable state of an object counts as absent: the object is being deleted, and must
/// not stay because of it.
pub(crate) fn warn_unreadable(error: &StorageError, logger: &ObjectLogger) {
    let error = describe(error);
    logger.warning(format_args!(
        "The object is being deleted as if it had no such state: {error}"
    ));
}
