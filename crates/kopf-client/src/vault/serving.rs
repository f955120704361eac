//! The one who logs in when the vault is empty.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::credentials::{Credentials, Held};
use super::error::LoginError;
use super::{Login, Retrieved, Vault};
use crate::connection::blocking;

/// Where the original writes of it.
pub(super) const LOGGER: &str = "kopf.activities.authentication";

/// How long to wait before a login that follows one in vain: whose credentials were refused without
/// having worked once, or are the same as those that have just stopped working. Files are rewritten,
/// and revocations spread, not all in one moment.
const PATIENCE: [Duration; 9] = [
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

/// How far it goes with those that expire unused, such as while the server cannot be reached.
const UNUSED: usize = 5;

impl Vault {
    /// Logs in for the first request, and whenever no credentials are left for one. It ends only when that is in vain
    /// for good; requests that wait for credentials get the same error.
    ///
    /// # Cancellation
    ///
    /// When dropped, requests go on with the credentials that there are, and fail when there are
    /// none.
    pub async fn serve(&self, login: &dyn Login) -> LoginError {
        let _closing = Closing(self);
        let error = self.keep_logged_in(login).await;
        self.close(error.clone());
        error
    }

    async fn keep_logged_in(&self, login: &dyn Login) -> LoginError {
        let mut title = "Initial authentication";
        // Whether there were good credentials before those that are refused now.
        let mut trusted = false;
        let mut vain = 0;
        loop {
            self.wanted().await;
            let (worked, was_refused) = self.state().end_of_last();
            if worked {
                trusted = true;
                vain = 0;
            } else if !was_refused {
                vain = vain.min(UNUSED);
            }
            let reasons = loop {
                let Some(wait) = PATIENCE.get(vain) else {
                    return LoginError::Unusable {
                        reasons: "the server refuses all that are retrieved".to_owned(),
                    };
                };
                sleep(*wait).await;
                vain += 1;
                info!(target: LOGGER, "{title} has been initiated.");
                let retrieved = match login.login().await {
                    Ok(retrieved) => retrieved,
                    Err(error) => return error,
                };
                if retrieved.is_empty() {
                    warn!(
                        target: LOGGER,
                        "{title} has failed: no credentials were retrieved from the login handlers."
                    );
                    return LoginError::Nothing;
                }
                let reasons = self.populate(retrieved).await;
                if reasons.is_empty() || !self.state().is_empty() || !trusted {
                    break reasons;
                }
                warn!(target: LOGGER, "{title} is repeated: {}.", reasons.join("; "));
            };
            if self.state().is_empty() {
                let reasons = reasons.join("; ");
                warn!(target: LOGGER, "{title} has failed: {reasons}.");
                return LoginError::Unusable { reasons };
            }
            for reason in reasons {
                warn!(target: LOGGER, "Ignoring some credentials: {reason}.");
            }
            info!(target: LOGGER, "{title} has finished.");
            title = "Re-authentication";
            self.tell();
        }
    }

    /// Waits until somebody waits for credentials.
    async fn wanted(&self) {
        let mut changes = self.0.changes.subscribe();
        while !self.state().is_wanting() && changes.changed().await.is_ok() {}
    }

    /// Takes over what is new and usable. Says what is not, and why.
    async fn populate(&self, retrieved: Retrieved) -> Vec<String> {
        let mut accepted = Vec::new();
        let mut reasons = Vec::new();
        for (id, credentials) in retrieved {
            match self.accept(&id, credentials).await {
                Ok(held) => accepted.push(held),
                Err(reason) => reasons.push(format!("those of {id:?} {reason}")),
            }
        }
        self.state().populate(accepted);
        reasons
    }

    async fn accept(&self, id: &str, credentials: Credentials) -> Result<Held, String> {
        let unusable = |error: crate::connection::Error| {
            format!("cannot be used: {}", crate::error::chain(&error))
        };
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
        if self.state().is_refused(id, &opened.identity) {
            return Err("are refused by the server".to_owned());
        }
        opened.prepare().await.map_err(unusable)?;
        let connected = blocking(move || opened.connect()).await;
        let connected = connected.map_err(unusable)?;
        Ok(Held::new(id, connected, priority, until))
    }

    fn close(&self, error: LoginError) {
        self.state().over.get_or_insert(error);
        self.tell();
    }
}

/// Nobody is to wait for a login that nobody does.
struct Closing<'a>(&'a Vault);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close(LoginError::Over);
    }
}
