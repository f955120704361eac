//! The vault: credentials that change while requests continue.
//!
//! A login fills the vault, and requests take credentials from it. Credentials that the server
//! rejects with 401 are removed, and so are expired ones. When none are left, all requests wait for
//! one common login, and are then sent again with the new credentials.
//!
//! ```text
//! Login ──► Vault::serve ──► credentials ──► Client, kube::Client ──► server
//!   ▲            ▲                                                      │
//!   └─ none left ┴───────────── 401: removed ◄──────────────────────────┘
//! ```
//!
//! Each of the credentials has its own connections. They are closed when the credentials are removed
//! and the last response on them has ended.

mod credentials;
mod defaults;
mod serving;
mod source;
mod state;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, MutexGuard};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kopf_core::sync::Mutex;
use tokio::sync::watch;

pub use self::credentials::Credentials;
pub use self::defaults::{DefaultLogin, login_with_kubeconfig, login_with_service_account};
use self::state::State;
use crate::client::Client;
pub use crate::clock::system_time;
use crate::connection;
pub use crate::error::LoginError;

/// The result of a login: credentials by the ids of the login handlers.
pub type Retrieved = Vec<(String, Credentials)>;

/// A way to get credentials, for the first time and whenever none are left.
pub trait Login: Send + Sync {
    /// Retrieves the credentials. An error is permanent: there is no other attempt.
    ///
    /// It must not use a client of the same vault, which waits for the result of this login.
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>>;
}

impl From<connection::Error> for LoginError {
    fn from(error: connection::Error) -> Self {
        Self::failed(&error)
    }
}

/// Credentials that change over time. Clones share them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::future::BoxFuture;
/// use http::{Request, Response};
/// use kopf_client::vault::{Credentials, Login, LoginError, Retrieved, Vault};
/// use kube::client::Body;
///
/// struct MyLogin;
///
/// impl Login for MyLogin {
///     fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
///         let server = tower::service_fn(|_: Request<Body>| async {
///             Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec())))
///         });
///         let credentials = Credentials::from_service(server, "default");
///         Box::pin(async { Ok(vec![("my_login".to_owned(), credentials)]) })
///     }
/// }
///
/// let vault = Vault::new(kopf_client::vault::system_time);
/// let client = vault.client();
/// tokio::select! {
///     error = vault.serve(&MyLogin) => return Err(error.into()),
///     version = client.get_json("/version") => println!("{}", version?),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Counts the changes that tasks wait for.
    changes: watch::Sender<u64>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    seed: u64,
}

impl Vault {
    /// Creates an empty vault. The clock is used for the expiration of credentials.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self(Arc::new(Inner {
            state: Mutex::new(State::new(seed)),
            changes: watch::Sender::new(0),
            clock: Box::new(clock),
            seed,
        }))
    }

    /// Creates a client that uses the current credentials for each request. Requests wait until the
    /// vault is [served](Self::serve).
    pub fn client(&self) -> Client {
        Client::from_source(Arc::new(self.clone()), self.0.seed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Wakes all tasks that wait for changes.
    fn notify(&self) {
        self.0
            .changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}
