//! Clients from credentials: service accounts, kubeconfigs, explicit connection info.
//!
//! The kube crate provides kubeconfigs, OIDC and TLS. This module combines them with token files and
//! credential plugins into one transport, without kube's own queue and retries. Credentials never
//! appear in errors, logs, or `Debug` output.

mod error;
pub(crate) mod http2;
mod identity;
mod info;
mod kubeconfig;
pub(crate) mod limit;
mod pacing;
mod plugin;
mod proxy;
mod service_account;
mod stack;
pub(crate) mod stale;
#[cfg(test)]
mod tests;
mod token_file;
pub(crate) mod trust;

use std::path::{Path, PathBuf};

pub use self::error::Error;
pub use self::info::ConnectionInfo;
pub(crate) use self::kubeconfig::load as kubeconfig;
pub(crate) use self::service_account::load as service_account;
pub(crate) use self::stack::Target;
use crate::Client;

/// Options for the choice of a connection.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The kubeconfig. Default: those in `$KUBECONFIG`, or `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// The context. Default: the current one of the kubeconfig.
    pub context: Option<String>,
    /// Uses the proxies of the environment (`HTTPS_PROXY`, `NO_PROXY`…), as
    /// `settings.networking.trust_env` does. Default: `false`.
    pub trust_env: bool,
}

/// Creates a client with the service account of the pod if there is one, otherwise with the
/// kubeconfig.
pub async fn infer() -> Result<Client, Error> {
    infer_with(Options::default()).await
}

/// Creates a client as [`infer`] does. A given kubeconfig or context has precedence over the pod.
pub async fn infer_with(options: Options) -> Result<Client, Error> {
    let found = blocking(move || {
        let explicit = options.kubeconfig.is_some() || options.context.is_some();
        let in_cluster = match service_account::load(&options) {
            Ok(target) if !explicit => return Ok(target),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        match (kubeconfig::load(&options), in_cluster) {
            (Ok(target), _) => Ok(target),
            (Err(error), Some(service_account)) if !explicit => Err(Error::Nowhere {
                service_account: Box::new(service_account),
                kubeconfig: Box::new(error),
            }),
            (Err(error), _) => Err(error),
        }
    });
    client(found.await?).await
}

async fn client(mut target: Target) -> Result<Client, Error> {
    target.prepare().await?;
    blocking(move || target.client()).await
}

/// Creates a client from a kubeconfig file, in its current context or in the given one.
pub async fn from_kubeconfig_file(
    path: impl AsRef<Path>,
    context: Option<&str>,
) -> Result<Client, Error> {
    let options = Options {
        kubeconfig: Some(path.as_ref().to_owned()),
        context: context.map(str::to_owned),
        trust_env: false,
    };
    client(blocking(move || kubeconfig::load(&options)).await?).await
}

/// Creates a client with the service account of the pod in which this process runs.
pub async fn in_cluster() -> Result<Client, Error> {
    client(blocking(|| service_account::load(&Options::default())).await?).await
}

/// Creates a client from explicit values.
pub async fn from_info(info: ConnectionInfo) -> Result<Client, Error> {
    client(blocking(move || info.target()).await?).await
}

/// Runs work that reads files on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::Invalid {
            what: "connection",
            problem: error.to_string(),
        }),
    }
}
