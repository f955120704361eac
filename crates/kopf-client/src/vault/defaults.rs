//! The default login: kubeconfigs and service accounts.

use std::env;
use std::path::Path;

use futures::future::BoxFuture;

use super::credentials::Credentials;
use super::{Login, LoginError, Retrieved};
use crate::connection::Options;

/// The priorities of the original: in a pod, its service account is preferred.
const KUBECONFIG: i32 = 10;
const SERVICE_ACCOUNT: i32 = 20;

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Returns the credentials of the kubeconfigs in `$KUBECONFIG`, or of `~/.kube/config`, in the
/// current context; `None` if there is no such file and `$KUBECONFIG` is not set. The kubeconfig
/// and the context of the options take precedence.
///
/// The files are read when the credentials are first used, and again at each login.
pub fn login_with_kubeconfig(options: &Options) -> Option<Credentials> {
    let is_there = options.kubeconfig.is_some()
        || env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty())
        || env::home_dir().is_some_and(|home| home.join(".kube/config").exists());
    is_there.then(|| Credentials::from_kubeconfig(options, KUBECONFIG))
}

/// Returns the credentials of the pod in which this process runs; `None` outside of a pod, or
/// without a service account.
///
/// The token is read when the credentials are first used, when it is a minute old, and at each
/// login.
pub fn login_with_service_account(options: &Options) -> Option<Credentials> {
    let is_there = Path::new(TOKEN).exists();
    is_there.then(|| Credentials::from_service_account(options, SERVICE_ACCOUNT))
}

/// A login with all available credentials: [`login_with_kubeconfig`] and
/// [`login_with_service_account`]. Unusable ones are ignored if others are usable.
#[derive(Clone, Debug, Default)]
pub struct DefaultLogin(Options);

impl DefaultLogin {
    /// Creates a login with options.
    pub fn new(options: Options) -> Self {
        Self(options)
    }
}

impl Login for DefaultLogin {
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
        let found = [
            ("login_with_kubeconfig", login_with_kubeconfig(&self.0)),
            (
                "login_with_service_account",
                login_with_service_account(&self.0),
            ),
        ];
        let retrieved = found
            .into_iter()
            .filter_map(|(id, credentials)| Some((id.to_owned(), credentials?)))
            .collect();
        Box::pin(async { Ok(retrieved) })
    }
}
