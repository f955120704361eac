//! The credentials of a pod.

use kube::Config;

use super::error::Error;
use super::stack::Target;

/// From the files that every pod has. Tokens and authorities are read again when they change.
pub(super) fn load() -> Result<Target, Error> {
    // The environment is right also in pods without the cluster's DNS; the name is what the
    // original uses.
    let mut config = Config::incluster_env()
        .or_else(|_| Config::incluster_dns())
        .map_err(|error| Error::ServiceAccount {
            problem: error.to_string(),
        })?;
    config.default_namespace = config.default_namespace.trim().to_owned();
    Ok(Target {
        config,
        proxy: None,
    })
}
