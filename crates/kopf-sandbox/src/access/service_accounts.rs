//! Tokens of service accounts, made on request and good for a while.
//!
//! They are opaque random strings, not signed documents: nobody but this server can check them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::user::CREDENTIAL_ID;
use super::{Access, UserInfo, is_same};
use crate::field_error::FieldError;
use crate::status::{ApiError, Result};

/// More tokens than this are not kept: those that would expire first go first.
const MAX_TOKENS: usize = 10_000;
const TEN_MINUTES: i64 = 600;
const ONE_HOUR: i64 = 3600;

/// Whose token it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// A new token.
pub(crate) struct Minted {
    pub(crate) token: String,
    pub(crate) expires: Timestamp,
}

/// The tokens in use, by their public half.
#[derive(Default)]
pub(super) struct AccountTokens {
    by_id: BTreeMap<String, Token>,
}

struct Token {
    secret: String,
    expires: Timestamp,
    user: UserInfo,
}

impl AccountTokens {
    pub(super) fn mint(
        &mut self,
        account: &Account<'_>,
        seconds: i64,
        now: Timestamp,
    ) -> Result<Minted> {
        let expires = now
            .checked_add(SignedDuration::from_secs(seconds))
            .map_err(|_| ApiError::bad_request("the token would never expire"))?;
        if self.by_id.len() >= MAX_TOKENS {
            self.by_id.retain(|_, token| token.expires > now);
        }
        while self.by_id.len() >= MAX_TOKENS {
            let first = self.by_id.iter().min_by_key(|(_, token)| token.expires);
            let Some(id) = first.map(|(id, _)| id.clone()) else {
                break;
            };
            self.by_id.remove(&id);
        }
        let id = hex(&random::<12>()?);
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        let mut user = UserInfo::of_service_account(account.namespace, account.name, account.uid);
        user.extra
            .insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        let token = format!("sandbox.{id}.{secret}");
        self.by_id.insert(
            id,
            Token {
                secret,
                expires,
                user,
            },
        );
        Ok(Minted { token, expires })
    }

    /// The user of a token that is still good.
    pub(super) fn user(&self, token: &str, now: Timestamp) -> Option<UserInfo> {
        let (id, secret) = token.strip_prefix("sandbox.")?.split_once('.')?;
        let known = self.by_id.get(id)?;
        let right = is_same(known.secret.as_bytes(), secret.as_bytes());
        (right && known.expires > now).then(|| known.user.clone())
    }

    pub(super) fn revoke(&mut self, account_uid: &str) {
        self.by_id.retain(|_, token| token.user.uid != account_uid);
    }
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| ApiError::internal("no random numbers are available"))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Answers `POST …/serviceaccounts/NAME/token`: the `TokenRequest` with its status filled in,
/// or what is wrong with it.
pub(crate) fn token_request(
    access: &Access,
    account: &Account<'_>,
    request: &Value,
    now: Timestamp,
) -> Result<std::result::Result<Value, Vec<FieldError>>> {
    let spec = request.get("spec");
    let field = |name: &str| {
        spec.and_then(|spec| spec.get(name))
            .filter(|value| !value.is_null())
    };
    let seconds = match field("expirationSeconds") {
        None => ONE_HOUR,
        Some(value) => match value.as_i64() {
            Some(seconds) => seconds,
            None => {
                return Err(ApiError::bad_request(format!(
                    "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: json: cannot \
                     unmarshal {} into Go struct field TokenRequestSpec.spec.expirationSeconds of \
                     type int64",
                    if value.is_string() {
                        "string"
                    } else {
                        "number"
                    }
                )));
            }
        },
    };
    let path = "spec.expirationSeconds";
    if seconds < TEN_MINUTES {
        let why = "may not specify a duration less than 10 minutes";
        return Ok(Err(vec![FieldError::invalid(path, &json!(seconds), why)]));
    }
    if seconds > 1 << 32 {
        let why = "may not specify a duration larger than 2^32 seconds";
        return Ok(Err(vec![FieldError::invalid(path, &json!(seconds), why)]));
    }
    let minted = access.mint(account, seconds, now)?;
    let audiences = field("audiences")
        .filter(|audiences| audiences.as_array().is_some_and(|list| !list.is_empty()))
        .cloned()
        .unwrap_or_else(|| json!(["https://kubernetes.default.svc"]));
    let stamp = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Ok(Ok(json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "uid": account.uid,
            "creationTimestamp": stamp(now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": field("boundObjectRef"),
        },
        "status": { "token": minted.token, "expirationTimestamp": stamp(minted.expires) },
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROBOT: Account<'_> = Account {
        namespace: "ns",
        name: "robot",
        uid: "u1",
    };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let access = Access::default();
        let minted = access.mint(&ROBOT, 600, at(0)).unwrap();
        let user = access.token_review(&minted.token, at(599)).unwrap();
        assert_eq!(user.username, "system:serviceaccount:ns:robot");
        assert!(access.token_review(&minted.token, at(600)).is_none());
        let mut wrong = minted.token.clone();
        wrong.pop();
        assert!(access.token_review(&wrong, at(1)).is_none());
        access.revoke("u2");
        assert!(access.token_review(&minted.token, at(1)).is_some());
        access.revoke("u1");
        assert!(access.token_review(&minted.token, at(1)).is_none());
    }

    #[test]
    fn the_table_is_bounded() {
        let mut tokens = AccountTokens::default();
        let first = tokens.mint(&ROBOT, 600, at(0)).unwrap();
        for _ in 0..MAX_TOKENS {
            tokens.mint(&ROBOT, 3600, at(0)).unwrap();
        }
        assert_eq!(tokens.by_id.len(), MAX_TOKENS);
        assert!(tokens.user(&first.token, at(1)).is_none());
        tokens.mint(&ROBOT, 600, at(3600)).unwrap();
        assert_eq!(tokens.by_id.len(), 1, "expired ones make room");
    }

    #[test]
    fn requests_are_answered_or_refused() {
        let access = Access::default();
        let answer = token_request(&access, &ROBOT, &json!({}), at(0))
            .unwrap()
            .unwrap();
        assert_eq!(answer["spec"]["expirationSeconds"], 3600);
        assert_eq!(
            answer["status"]["expirationTimestamp"],
            "2027-01-15T09:00:00Z"
        );
        let token = answer["status"]["token"].as_str().unwrap();
        assert!(access.token_review(token, at(3599)).is_some());
        for (seconds, text) in [
            (
                json!(599),
                "may not specify a duration less than 10 minutes",
            ),
            (
                json!(1_i64 << 33),
                "may not specify a duration larger than 2^32 seconds",
            ),
        ] {
            let request = json!({ "spec": { "expirationSeconds": seconds } });
            let errors = token_request(&access, &ROBOT, &request, at(0))
                .unwrap()
                .unwrap_err();
            assert!(errors[0].message.ends_with(text), "{errors:?}");
        }
        let odd = json!({ "spec": { "expirationSeconds": "x" } });
        assert_eq!(
            token_request(&access, &ROBOT, &odd, at(0))
                .err()
                .unwrap()
                .code,
            400
        );
    }
}
