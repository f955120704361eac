//! Default roles and bindings of a cluster.

use std::sync::LazyLock;

use serde_json::Value;

/// Returns the roles and bindings that a real server creates on startup.
pub fn defaults() -> &'static [Value] {
    static DEFAULTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
        serde_json::from_str(crate::recorded::ROLES)
            .expect("the recorded roles are part of the build")
    });
    &DEFAULTS
}
