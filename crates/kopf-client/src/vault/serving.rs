//! Serving of a vault: logins whenever it is empty.

use std::time::Duration;

use kopf_core::failure::describe;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::credentials::Credentials;
use super::state::LastEnd;
use super::{Login, Retrieved, Vault};
use crate::connection::{self, blocking};
use crate::error::LoginError;
use crate::grant::Grant;

/// The logger of the original for this activity.
pub(super) const LOGGER: &str = "kopf.activities.authentication";

/// Delays before logins that follow useless ones: their credentials were rejected without having
/// worked once, or are the same as those that have just stopped working. Files are rewritten and
/// revocations spread with some delay. After the last one, the login has failed permanently.
const DELAYS: [Duration; 9] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
    Duration::from_secs(5),
    Duration::from_secs(8),
    Duration::from_secs(13),
    Duration::from_secs(21),
];

/// The last of the delays for credentials that expire unused, such as while the server is
/// unreachable, or that work for some requests and are rejected for others.
const HARMLESS: usize = 5;

/// Credentials that worked and lived for this long were useful.
const USEFUL: Duration = Duration::from_secs(10);

/// The history of the logins of a vault.
struct Logins {
    title: &'static str,
    /// `true` if any credentials have worked before the current ones.
    has_worked: bool,
    /// The number of useless logins in a row.
    useless: usize,
    /// The number of logins in a row whose credentials worked, but not for long.
    short_lived: usize,
    last: Option<Instant>,
}

impl Logins {
    /// Updates the history by the end of the last credentials.
    fn note(&mut self, end: LastEnd) {
        self.has_worked |= end.has_worked;
        let is_old = self.last.is_none_or(|last| last.elapsed() >= USEFUL);
        if end.has_worked {
            let short_lived = self.short_lived.saturating_add(1);
            self.short_lived = if is_old { 0 } else { short_lived };
            // Once is ordinary: the credentials were replaced right after the login.
            self.useless = self.short_lived.saturating_sub(1).min(HARMLESS);
        } else if !end.was_rejected {
            self.useless = self.useless.min(HARMLESS);
        }
    }
}

impl Vault {
    /// Logs in for the first request, and whenever no credentials are left for one. Returns when
    /// the login fails permanently; requests that wait for credentials get the same error.
    ///
    /// # Cancellation
    ///
    /// When dropped, requests continue with the current credentials, and fail when none are left.
    pub async fn serve(&self, login: &dyn Login) -> LoginError {
        let _closing = Closing(self);
        let error = self.keep_logged_in(login).await;
        self.close(error.clone());
        error
    }

    async fn keep_logged_in(&self, login: &dyn Login) -> LoginError {
        let mut logins = Logins {
            title: "Initial authentication",
            has_worked: false,
            useless: 0,
            short_lived: 0,
            last: None,
        };
        loop {
            self.wanted().await;
            logins.note(self.state().take_last_end());
            let reasons = match self.log_in(login, &mut logins).await {
                Ok(reasons) => reasons,
                Err(error) => return error,
            };
            let title = logins.title;
            if self.state().is_empty() {
                let reasons = reasons.join("; ");
                warn!(target: LOGGER, "{title} has failed: {reasons}.");
                return LoginError::Unusable { reasons };
            }
            for reason in reasons {
                warn!(target: LOGGER, "Ignoring some credentials: {reason}.");
            }
            info!(target: LOGGER, "{title} has finished.");
            logins.title = "Re-authentication";
            logins.last = Some(Instant::now());
            self.notify();
        }
    }

    /// Logs in until there are new credentials, and returns the problems of unusable ones. The
    /// first login is not repeated: its credentials are wrong, and not outdated.
    async fn log_in(
        &self,
        login: &dyn Login,
        logins: &mut Logins,
    ) -> Result<Vec<String>, LoginError> {
        let title = logins.title;
        loop {
            let Some(delay) = DELAYS.get(logins.useless) else {
                return Err(LoginError::Unusable {
                    reasons: "the server rejects all that are retrieved".to_owned(),
                });
            };
            sleep(*delay).await;
            logins.useless += 1;
            info!(target: LOGGER, "{title} has been initiated.");
            let retrieved = login.login().await?;
            if retrieved.is_empty() {
                warn!(
                    target: LOGGER,
                    "{title} has failed: no credentials were retrieved from the login handlers."
                );
                return Err(LoginError::Nothing);
            }
            let reasons = self.populate(retrieved).await;
            if reasons.is_empty() || !self.state().is_empty() || !logins.has_worked {
                return Ok(reasons);
            }
            warn!(target: LOGGER, "{title} is repeated: {}.", reasons.join("; "));
        }
    }

    /// Waits until a request waits for credentials.
    async fn wanted(&self) {
        let mut changes = self.0.changes.subscribe();
        while !self.state().is_wanting() && changes.changed().await.is_ok() {}
    }

    /// Adds new and usable credentials. Returns the problems of the others.
    async fn populate(&self, retrieved: Retrieved) -> Vec<String> {
        let mut accepted = Vec::new();
        let mut reasons = Vec::new();
        for (id, credentials) in retrieved {
            match self.accept(&id, credentials).await {
                Ok(grant) => accepted.push(grant),
                Err(reason) => reasons.push(format!("those of {id:?} {reason}")),
            }
        }
        self.state().populate(accepted);
        reasons
    }

    async fn accept(&self, id: &str, credentials: Credentials) -> Result<Grant, String> {
        let unusable = |error: connection::Error| format!("cannot be used: {}", describe(&error));
        let priority = credentials.priority();
        let until = match credentials.expiration() {
            None => None,
            Some(expiration) => {
                let left = expiration.duration_since((self.0.clock)());
                match Duration::try_from(left) {
                    Ok(left) if !left.is_zero() => Instant::now().checked_add(left),
                    _ => return Err(format!("have expired already, at {expiration}")),
                }
            }
        };
        let opened = blocking(move || credentials.open()).await;
        let mut opened = opened.map_err(unusable)?;
        if self.state().is_rejected(id, &opened.identity) {
            return Err("are rejected by the server".to_owned());
        }
        opened.prepare().await.map_err(unusable)?;
        let id = id.to_owned();
        let connected = blocking(move || opened.connect(&id)).await;
        let mut grant = connected.map_err(unusable)?;
        grant.priority = priority;
        grant.until = until;
        Ok(grant)
    }

    fn close(&self, error: LoginError) {
        self.state().over.get_or_insert(error);
        self.notify();
    }
}

/// Fails the requests that wait for a login when the vault is no longer served.
struct Closing<'a>(&'a Vault);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close(LoginError::Over);
    }
}
