//! Service accounts of pods.

use kube::Config;

use super::Options;
use super::error::Error;
use super::proxy::Proxy;
use super::stack::Target;

/// Loads the files that are mounted into every pod. The token is read again every minute; the CA, at
/// the next login.
pub(crate) fn load(options: &Options) -> Result<Target, Error> {
    // The environment works even without the cluster's DNS. The original uses the DNS name.
    let mut config = Config::incluster_env()
        .or_else(|_| Config::incluster_dns())
        .map_err(|error| Error::ServiceAccount {
            problem: error.to_string(),
        })?;
    let namespace = config.default_namespace.trim().to_owned();
    config.default_namespace = namespace;
    // An invalid proxy of the environment is ignored.
    let proxy = Proxy::find(None, options.trust_env, &config.cluster_url).unwrap_or_default();
    Ok(Target::new(config, proxy))
}
