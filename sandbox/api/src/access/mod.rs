//! Authentication: users by bearer token or client certificate, and impersonation.
//!
//! Authorization is in [`rights`]. Tokens never appear in `Debug` output and are compared in
//! constant time.

mod impersonation;
mod jwt;
mod peer;
mod service_accounts;
mod socket_token;

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use kopf_sandbox_schema::rights::{self, UserInfo};
use kopf_sandbox_store::sync::RwLock;

pub use self::peer::PeerCertificate;
use self::service_accounts::AccountTokens;
pub use self::service_accounts::{Account, Bound, ISSUER, Reviewed, Wanted, token_request};
pub use self::socket_token::protocols;
use self::socket_token::socket_token;
use crate::status::{ApiError, Result};

/// The key of a user's extra data that contains the id of the credential.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Returns `true` if a user has a right by its roles.
pub type IsAllowed<'a> = &'a dyn Fn(&UserInfo, rights::Access<'_>) -> bool;

/// The users of one sandbox.
#[derive(Default)]
pub struct Access {
    tokens: RwLock<Vec<(String, UserInfo)>>,
    accounts: RwLock<AccountTokens>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Assigns a token to a user. A known token is reassigned.
    pub fn add_token(&self, token: &str, user: UserInfo) {
        let mut tokens = self.tokens.write();
        tokens.retain(|(known, _)| known != token);
        tokens.push((token.to_owned(), user));
    }

    /// Removes a token. Requests that were already accepted with it are served to the end.
    pub fn remove_token(&self, token: &str) {
        let mut tokens = self.tokens.write();
        tokens.retain(|(known, _)| known != token);
    }

    /// Returns the user of a request.
    ///
    /// # Errors
    ///
    /// 401 without valid credentials, 403 for impersonation without the right to it, 400 for an
    /// ambiguous impersonated user.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
        now: Timestamp,
        is_allowed: IsAllowed<'_>,
    ) -> Result<UserInfo> {
        let user = self
            .authenticate(headers, peer, now)
            .ok_or_else(ApiError::unauthorized)?;
        impersonation::impersonate(headers, user, is_allowed)
    }

    /// Returns the user impersonated by a sender that needs no credentials.
    pub fn acting(
        headers: &HeaderMap,
        user: UserInfo,
        is_allowed: IsAllowed<'_>,
    ) -> Result<UserInfo> {
        impersonation::impersonate(headers, user, is_allowed)
    }

    /// Returns the authenticated sender of a request. A valid certificate takes precedence over a
    /// token, which is then ignored.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
        now: Timestamp,
    ) -> Option<UserInfo> {
        if let Some(peer) = peer {
            return Some(of_certificate(peer).authenticated());
        }
        let of_token = |token: &str| {
            let reviewed = self.token_review(token, now)?;
            let ours = reviewed.audiences.iter().any(|audience| audience == ISSUER);
            ours.then_some(reviewed.user)
        };
        let user = bearer_token(headers).and_then(of_token);
        user.or_else(|| of_token(&socket_token(headers)?))
    }

    /// Returns the owner of a token and the audiences that it is for.
    pub(crate) fn token_review(&self, token: &str, now: Timestamp) -> Option<Reviewed> {
        let tokens = self.tokens.read();
        // All tokens are compared, so that the timing does not reveal how close a guess is.
        let found = tokens.iter().fold(None, |found, (known, user)| {
            if is_same(known.as_bytes(), token.as_bytes()) {
                Some(user)
            } else {
                found
            }
        });
        if let Some(user) = found {
            return Some(Reviewed {
                user: user.clone().authenticated(),
                audiences: vec![ISSUER.to_owned()],
            });
        }
        drop(tokens);
        let accounts = self.accounts.read();
        let reviewed = accounts.review(token, now)?;
        Some(Reviewed {
            user: reviewed.user.authenticated(),
            ..reviewed
        })
    }

    /// Makes a token of a service account.
    pub(crate) fn mint(
        &self,
        account: &Account<'_>,
        wanted: &Wanted,
        now: Timestamp,
    ) -> Result<String> {
        let mut accounts = self.accounts.write();
        accounts.mint(account, wanted, now)
    }

    /// Revokes the tokens of a deleted service account.
    pub(crate) fn revoke(&self, account_uid: &str) {
        let mut accounts = self.accounts.write();
        accounts.revoke(account_uid);
    }
}

/// Returns the token of the `Authorization` header, parsed as leniently as by the real server.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Compares secrets in a time that depends only on their lengths.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differences = a
        .iter()
        .zip(b)
        .fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
    a.len() == b.len() && differences == 0
}

/// Returns the user of a client certificate.
fn of_certificate(peer: &PeerCertificate) -> UserInfo {
    let credential = format!("X509SHA256={}", peer.fingerprint);
    let mut user = UserInfo::new(peer.common_name.clone(), peer.organizations.clone());
    user.extra
        .insert(CREDENTIAL_ID.to_owned(), vec![credential]);
    user
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_schema::rights::{AUTHENTICATED, MASTERS};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-15T00:00:00Z".parse().unwrap()
    }

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    fn access() -> Access {
        let access = Access::default();
        access.add_token("secret", UserInfo::new("ann", ["staff"]));
        access.add_token("other", UserInfo::new("bob", ["staff"]));
        access
    }

    fn certificate() -> PeerCertificate {
        PeerCertificate {
            common_name: "kubernetes-admin".into(),
            organizations: vec![MASTERS.into()],
            fingerprint: "00ff".into(),
        }
    }

    #[test]
    fn tokens_identify_users() {
        for (header, user) in [
            ("Bearer secret", Some("ann")),
            ("bearer secret", Some("ann")),
            ("  Bearer other ", Some("bob")),
            ("Bearer secret trailing", Some("ann")),
            ("Bearer secre", None),
            ("Bearer secret2", None),
            ("Bearer  secret", None),
            ("Bearer", None),
            ("Basic secret", None),
            ("", None),
        ] {
            let found = access().authenticate(&headers(header), None, now());
            assert_eq!(
                found.map(|user| user.username).as_deref(),
                user,
                "{header:?}"
            );
        }
    }

    #[test]
    fn tokens_are_added_and_removed() {
        let access = access();
        access.remove_token("secret");
        assert!(access.token_review("secret", now()).is_none());
        assert!(access.token_review("other", now()).is_some());
        access.add_token("secret", UserInfo::new("eve", ["staff"]));
        assert_eq!(
            access.token_review("secret", now()).unwrap().user.username,
            "eve"
        );
    }

    #[test]
    fn authenticated_group_is_added_once() {
        let user = access().token_review("secret", now()).unwrap().user;
        assert_eq!(user.groups, ["staff", AUTHENTICATED]);
        assert_eq!(user.clone().authenticated(), user);
    }

    #[test]
    fn certificate_takes_precedence_over_a_wrong_token() {
        let user = access()
            .authenticate(&headers("Bearer wrong"), Some(&certificate()), now())
            .unwrap();
        assert_eq!(user.username, "kubernetes-admin");
        assert_eq!(user.groups, [MASTERS, AUTHENTICATED]);
        assert_eq!(
            user.extra["authentication.kubernetes.io/credential-id"],
            ["X509SHA256=00ff".to_owned()]
        );
    }

    #[test]
    fn missing_credentials_are_rejected() {
        let error = access()
            .identify(&HeaderMap::new(), None, now(), &|_, _| false)
            .unwrap_err();
        assert_eq!(error, ApiError::unauthorized());
    }

    #[test]
    fn tokens_are_absent_from_debug_output() {
        assert!(!format!("{:?}", access()).contains("secret"));
    }
}
