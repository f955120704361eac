//! Return types of login handlers, and the built-in login methods.

use kopf_client::connection::{ConnectionInfo, Options};
use kopf_client::vault::{self, Credentials};
use kopf_core::settings::Settings;
use kopf_engine::invocation::HandlerResult;

use crate::error::{Error, Result};
use crate::outcome::IntoError;

/// A return value of login handlers: [`ConnectionInfo`] or [`Credentials`], optionally in an
/// `Option` or a `Result`. `()` and `None` mean that this login method has no credentials.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned from a login handler",
    label = "not credentials",
    note = "return `kopf::ConnectionInfo` or `kopf::Credentials`, or an `Option` or a `kopf::Result` of them"
)]
pub trait IntoCredentials {
    /// Converts the value.
    ///
    /// # Errors
    /// If the function failed.
    fn into_credentials(self) -> Result<Option<Credentials>>;
}

impl IntoCredentials for () {
    fn into_credentials(self) -> Result<Option<Credentials>> {
        Ok(None)
    }
}

impl IntoCredentials for Credentials {
    fn into_credentials(self) -> Result<Option<Credentials>> {
        Ok(Some(self))
    }
}

impl IntoCredentials for ConnectionInfo {
    fn into_credentials(self) -> Result<Option<Credentials>> {
        Ok(Some(self.into()))
    }
}

impl<T: IntoCredentials> IntoCredentials for Option<T> {
    fn into_credentials(self) -> Result<Option<Credentials>> {
        self.map_or(Ok(None), T::into_credentials)
    }
}

impl<T: IntoCredentials, E: IntoError> IntoCredentials for std::result::Result<T, E> {
    fn into_credentials(self) -> Result<Option<Credentials>> {
        self.map_err(E::into_error)?.into_credentials()
    }
}

/// Passes the credentials to the engine outside of the JSON result, so that they are neither stored
/// nor logged.
pub(crate) fn deliver(result: impl IntoCredentials) -> HandlerResult {
    let credentials = result.into_credentials().map_err(Error::into_engine)?;
    if let Some(credentials) = credentials {
        let call = kopf_engine::current().ok_or_else(|| {
            crate::permanent("a login handler was called outside of a login").into_engine()
        })?;
        call.slot.put(credentials);
    }
    Ok(None)
}

/// Returns the credentials of the kubeconfigs in `$KUBECONFIG` or `~/.kube/config`; `None` if there
/// are none. For login handlers:
///
/// ```
/// use kopf::Settings;
/// use kopf::prelude::*;
/// use kopf::{Credentials, login_with_kubeconfig, login_with_service_account};
///
/// #[kopf::on::login(retries = 3)]
/// fn login_fn(settings: Settings) -> Option<Credentials> {
///     login_with_service_account(&settings).or_else(|| login_with_kubeconfig(&settings))
/// }
/// ```
///
/// The files are read when the credentials are first used, and again at each login.
pub fn login_with_kubeconfig(settings: &Settings) -> Option<Credentials> {
    vault::login_with_kubeconfig(&options(settings))
}

/// Returns the credentials of the pod in which the operator runs; `None` outside of pods and
/// without a service account. For login handlers, like [`login_with_kubeconfig`].
///
/// The token is read when the credentials are first used, once a minute, and at each login.
pub fn login_with_service_account(settings: &Settings) -> Option<Credentials> {
    vault::login_with_service_account(&options(settings))
}

fn options(settings: &Settings) -> Options {
    let mut options = Options::default();
    options.trust_env = settings.networking.trust_env;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_results_are_converted() {
        let info = || {
            let mut info = ConnectionInfo::new("https://server");
            info.priority = 5;
            info
        };
        let priority = |result: Result<Option<Credentials>>| {
            result
                .ok()
                .flatten()
                .map(|credentials| credentials.priority())
        };
        assert_eq!(priority(info().into_credentials()), Some(5));
        assert_eq!(
            priority(Credentials::from(info()).into_credentials()),
            Some(5)
        );
        assert_eq!(priority(Some(info()).into_credentials()), Some(5));
        let result: Result<Option<ConnectionInfo>> = Ok(Some(info()));
        assert_eq!(priority(result.into_credentials()), Some(5));
        assert!(().into_credentials().is_ok_and(|none| none.is_none()));
        assert!(
            None::<Credentials>
                .into_credentials()
                .is_ok_and(|none| none.is_none())
        );
    }

    #[test]
    fn login_errors_are_passed_on() {
        let failed: Result<Option<ConnectionInfo>> = Err(crate::permanent("no such user"));
        let error = failed.into_credentials().unwrap_err();
        assert_eq!(error.to_string(), "no such user");
        let failed: std::result::Result<Credentials, std::fmt::Error> = Err(std::fmt::Error);
        assert!(failed.into_credentials().is_err());
    }
}
