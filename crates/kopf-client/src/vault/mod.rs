//! The vault: credentials that come and go while requests go on.
//!
//! A login fills it, requests take from it. What the server refuses with 401 is thrown away, and so
//! is what has expired; when nothing is left, all requests wait while it is logged in again, once
//! for all of them, and then go on. They are sent again with the new credentials: nobody notices.
//!
//! ```text
//! Login ──► Vault::serve ──► credentials ──► Client, kube::Client ──► server
//!   ▲            ▲                                                      │
//!   └─ none left ┴───────────── 401: not these ◄────────────────────────┘
//! ```
//!
//! Each of the credentials has its own connections, which are closed when it is thrown away and the
//! last answer on them has ended.

mod credentials;
mod defaults;
mod error;
mod serving;
mod state;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body as Outgoing;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::BoxError;

pub use self::credentials::Credentials;
pub(crate) use self::credentials::Held;
pub use self::defaults::{DefaultLogin, login_with_kubeconfig, login_with_service_account};
pub use self::error::LoginError;
use self::state::State;
use crate::Client;
use crate::connection::trust::is_distrust;
use crate::transport::Incoming;

/// What a login has brought: credentials by the ids of whoever has got them.
pub type Retrieved = Vec<(String, Credentials)>;

/// A way to get credentials, at first and whenever there are none left.
pub trait Login: Send + Sync {
    /// Gets the credentials, or fails for good: then there is no other try.
    ///
    /// Not to be done with a client of the same vault: that one waits for the outcome of this.
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>>;
}

/// Credentials that come and go. Cheap to clone: clones are the same vault.
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
    /// Goes up with every change that somebody can wait for.
    changes: watch::Sender<u64>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    seed: u64,
}

/// The time of the system, for vaults that are not part of anything with a clock of its own.
pub fn system_time() -> Timestamp {
    Timestamp::now()
}

impl Vault {
    /// An empty vault. The clock says when credentials expire.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let seed = RandomState::new().build_hasher().finish();
        Self(Arc::new(Inner {
            state: Mutex::new(State::new(seed)),
            changes: watch::Sender::new(0),
            clock: Box::new(clock),
            seed,
        }))
    }

    /// A client that uses whatever credentials there are at the time of each request. Requests wait
    /// until the vault is [served](Self::serve).
    pub fn client(&self) -> Client {
        Client::from_vault(self.clone(), self.0.seed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can leave it in an impossible state.
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.0
            .changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The credentials for one request. Waits for the login if there are none.
    pub(crate) async fn pick(&self) -> Result<Arc<Held>, LoginError> {
        if let Some(picked) = self.try_pick() {
            return picked;
        }
        let mut changes = self.0.changes.subscribe();
        loop {
            if let Some(picked) = self.try_pick() {
                return picked;
            }
            // The sender is in the vault, so it is there.
            if changes.changed().await.is_err() {
                return Err(LoginError::Over);
            }
        }
    }

    fn try_pick(&self) -> Option<Result<Arc<Held>, LoginError>> {
        let mut state = self.state();
        let was_wanting = state.is_wanting();
        if let Some(held) = state.pick(Instant::now()) {
            return Some(Ok(held));
        }
        let over = state.over.clone();
        drop(state);
        if !was_wanting {
            self.tell();
        }
        over.map(Err)
    }

    /// The credentials that would be used now, if there are any.
    pub(crate) fn peek(&self) -> Option<Arc<Held>> {
        self.state().peek()
    }

    /// Throws away credentials that were refused by the server.
    pub(crate) fn invalidate(&self, refused: &Arc<Held>) {
        let is_news = self.state().invalidate(refused);
        if is_news {
            let id = &refused.id;
            // Those that were good for a while are presumably just old.
            if refused.has_worked() {
                tracing::debug!(
                    target: serving::LOGGER,
                    "The credentials of {id:?} are refused by the server, and not used any more."
                );
            } else {
                tracing::warn!(
                    target: serving::LOGGER,
                    "The credentials of {id:?} are refused by the server, though they are new."
                );
            }
            self.tell();
        }
    }

    /// Throws away credentials with which there is no connection, because one side does not accept
    /// the certificate of the other. They are welcome again: it can be the fault of the server.
    pub(crate) fn distrust(&self, held: &Arc<Held>, error: &dyn fmt::Display) {
        let Some(is_worth_telling) = self.state().distrust(held) else {
            return;
        };
        let id = &held.id;
        if is_worth_telling {
            tracing::warn!(
                target: serving::LOGGER,
                "There is no connection with the credentials of {id:?}, and they are retrieved \
                 again, with the certificates as they are now: {error}"
            );
        } else {
            tracing::debug!(
                target: serving::LOGGER,
                "There is still no connection with the credentials of {id:?}: {error}"
            );
        }
        self.tell();
    }

    /// Sends a request of kube's client, as often as there are credentials to be tried.
    pub(crate) async fn carry(
        &self,
        request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await?;
        loop {
            let held = self.pick().await?;
            let request = Request::from_parts(head.clone(), Outgoing::from(body.clone()));
            let answer = match held.lane().send(request).await {
                Ok(answer) => answer,
                Err(error) => {
                    let cause: &(dyn std::error::Error + 'static) = &*error;
                    if is_distrust(cause) {
                        self.distrust(&held, &crate::error::chain(cause));
                    }
                    return Err(error);
                }
            };
            if answer.status() != StatusCode::UNAUTHORIZED {
                held.note_success();
                return Ok(answer);
            }
            self.invalidate(&held);
        }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").finish_non_exhaustive()
    }
}
