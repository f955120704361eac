//! The credentials of a pod.

use kube::Config;

use super::Options;
use super::error::Error;
use super::proxy::Proxy;
use super::stack::Target;

/// From the files that every pod has. The token is read again when it changes; the authorities, when
/// they do not know the server any more, and it is logged in again.
pub(crate) fn load(options: &Options) -> Result<Target, Error> {
    // The environment is right also in pods without the cluster's DNS; the name is what the
    // original uses.
    let mut config = Config::incluster_env()
        .or_else(|_| Config::incluster_dns())
        .map_err(|error| Error::ServiceAccount {
            problem: error.to_string(),
        })?;
    let namespace = config.default_namespace.trim().to_owned();
    config.default_namespace = namespace;
    // A proxy that is wrong in the environment is not one that was asked for.
    let proxy = Proxy::find(None, options.trust_env, &config.cluster_url).unwrap_or_default();
    Ok(Target::new(config, proxy))
}
