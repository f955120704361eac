//! The clock of the system.

use jiff::Timestamp;

/// Returns the time of the system, for vaults outside of operators. Operators have a clock that
/// tests can pause.
pub fn system_time() -> Timestamp {
    Timestamp::now()
}
