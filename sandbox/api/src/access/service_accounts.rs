//! Tokens of service accounts, issued on request with an expiry.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::rights::UserInfo;
use serde_json::{Value, json};

use super::Access;
use super::CREDENTIAL_ID;
use super::jwt::Signer;
use crate::status::{ApiError, Result};

/// The issuer of tokens, and their default audience: this server.
pub const ISSUER: &str = "https://kubernetes.default.svc";
const TEN_MINUTES: i64 = 600;
const ONE_HOUR: i64 = 3600;

/// The owner of a token.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// The object that a token is bound to, as its claims name it: the kind in lower case, name and uid.
#[derive(Debug, Clone)]
pub struct Bound {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// A parsed token request.
#[derive(Debug)]
pub struct Wanted {
    pub(crate) audiences: Vec<String>,
    pub seconds: i64,
    pub bound: Option<Bound>,
    /// The id of the token.
    pub id: String,
}

/// The tokens of one sandbox. They are signed and not stored.
#[derive(Default)]
pub(super) struct AccountTokens {
    signer: Signer,
    /// The uids of accounts that have tokens and still exist.
    accounts: BTreeSet<String>,
}

/// The owner of a valid token, and the audiences of the token.
#[derive(Debug)]
pub struct Reviewed {
    pub user: UserInfo,
    pub(crate) audiences: Vec<String>,
}

impl AccountTokens {
    pub(super) fn mint(
        &mut self,
        account: &Account<'_>,
        wanted: &Wanted,
        now: Timestamp,
    ) -> Result<String> {
        let mut own = json!({
            "namespace": account.namespace,
            "serviceaccount": { "name": account.name, "uid": account.uid },
        });
        if let Some(Bound { kind, name, uid }) = &wanted.bound {
            own[kind.as_str()] = json!({ "name": name, "uid": uid });
        }
        let issued = now.as_second();
        let token = self.signer.sign(&json!({
            "aud": wanted.audiences,
            "exp": issued.saturating_add(wanted.seconds),
            "iat": issued,
            "iss": ISSUER,
            "jti": wanted.id,
            "kubernetes.io": own,
            "nbf": issued,
            "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        }))?;
        self.accounts.insert(account.uid.to_owned());
        Ok(token)
    }

    /// Returns the owner of a token that is valid at `now`.
    pub(super) fn review(&self, token: &str, now: Timestamp) -> Option<Reviewed> {
        let claims = self.signer.verify(token)?;
        let time = |name: &str| claims.get(name).and_then(Value::as_i64);
        if time("exp")? <= now.as_second() || time("nbf")? > now.as_second() {
            return None;
        }
        let own = claims.get("kubernetes.io")?;
        let text = |pointer: &str| own.pointer(pointer).and_then(Value::as_str);
        let uid = text("/serviceaccount/uid")?;
        if !self.accounts.contains(uid) {
            return None;
        }
        let mut user =
            UserInfo::of_service_account(text("/namespace")?, text("/serviceaccount/name")?, uid);
        let id = claims.get("jti")?.as_str()?;
        let mut extra = |key: &str, value: &str| {
            let key = format!("authentication.kubernetes.io/{key}");
            user.extra.insert(key, vec![value.to_owned()]);
        };
        for kind in ["pod", "node"] {
            if let Some(name) = text(&format!("/{kind}/name")) {
                extra(&format!("{kind}-name"), name);
                extra(&format!("{kind}-uid"), text(&format!("/{kind}/uid"))?);
            }
        }
        user.extra
            .insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        let audiences = claims.get("aud")?.as_array()?;
        let audiences = audiences.iter().filter_map(Value::as_str);
        Some(Reviewed {
            user,
            audiences: audiences.map(str::to_owned).collect(),
        })
    }

    pub(super) fn revoke(&mut self, account_uid: &str) {
        self.accounts.remove(account_uid);
    }
}

impl Wanted {
    /// Parses a `TokenRequest`, except for the object that it is bound to.
    pub fn read(request: &Value, id: String) -> Result<std::result::Result<Self, Vec<FieldError>>> {
        let field = |name: &str| {
            let field = request.get("spec").and_then(|spec| spec.get(name));
            field.filter(|value| !value.is_null())
        };
        let seconds = match field("expirationSeconds") {
            None => ONE_HOUR,
            Some(value) => value.as_i64().ok_or_else(|| mistyped(value))?,
        };
        let audiences = field("audiences").and_then(Value::as_array);
        let audiences: Vec<String> = audiences
            .into_iter()
            .flatten()
            .filter_map(|audience| audience.as_str().map(str::to_owned))
            .collect();
        let path = "spec.expirationSeconds";
        if seconds < TEN_MINUTES {
            let why = "may not specify a duration less than 10 minutes";
            return Ok(Err(vec![FieldError::invalid(path, &json!(seconds), why)]));
        }
        if seconds > 1 << 32 {
            let why = "may not specify a duration larger than 2^32 seconds";
            return Ok(Err(vec![FieldError::invalid(path, &json!(seconds), why)]));
        }
        Ok(Ok(Self {
            audiences: if audiences.is_empty() {
                vec![ISSUER.to_owned()]
            } else {
                audiences
            },
            seconds,
            bound: None,
            id,
        }))
    }
}

fn mistyped(value: &Value) -> ApiError {
    let of = if value.is_string() {
        "string"
    } else {
        "number"
    };
    ApiError::bad_request(format!(
        "TokenRequest in version \"v1\" cannot be handled as a TokenRequest: json: cannot unmarshal {of} into Go \
         struct field TokenRequestSpec.spec.expirationSeconds of type int64"
    ))
}

/// Returns the `TokenRequest` with its status filled in.
pub fn token_request(
    access: &Access,
    account: &Account<'_>,
    request: &Value,
    wanted: &Wanted,
    now: Timestamp,
) -> Result<Value> {
    let expires = now
        .checked_add(SignedDuration::from_secs(wanted.seconds))
        .map_err(|_| ApiError::bad_request("the token would never expire"))?;
    let token = access.mint(account, wanted, now)?;
    let stamp = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let bound = request.pointer("/spec/boundObjectRef");
    Ok(json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "uid": account.uid,
            "creationTimestamp": stamp(now),
        },
        "spec": {
            "audiences": wanted.audiences,
            "expirationSeconds": wanted.seconds,
            "boundObjectRef": bound,
        },
        "status": { "token": token, "expirationTimestamp": stamp(expires) },
    }))
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

    fn wanted(request: &Value) -> Wanted {
        Wanted::read(request, "id".to_owned()).unwrap().unwrap()
    }

    #[test]
    fn token_is_valid_until_it_expires_or_its_account_is_deleted() {
        let access = Access::default();
        let wanted = wanted(&json!({ "spec": { "expirationSeconds": 600 } }));
        let token = access.mint(&ROBOT, &wanted, at(0)).unwrap();
        let reviewed = access.token_review(&token, at(599)).unwrap();
        assert_eq!(reviewed.user.username, "system:serviceaccount:ns:robot");
        assert_eq!(reviewed.user.extra[CREDENTIAL_ID], ["JTI=id".to_owned()]);
        assert_eq!(reviewed.audiences, [ISSUER]);
        assert!(access.token_review(&token, at(600)).is_none());
        assert!(access.token_review(&token, at(-1)).is_none());
        let mut wrong = token.clone();
        wrong.pop();
        assert!(access.token_review(&wrong, at(1)).is_none());
        access.revoke("u2");
        assert!(access.token_review(&token, at(1)).is_some());
        access.revoke("u1");
        assert!(access.token_review(&token, at(1)).is_none());
    }

    #[test]
    fn tokens_of_other_audiences_are_rejected() {
        let access = Access::default();
        let wanted = wanted(&json!({ "spec": { "audiences": ["vault"] } }));
        let token = access.mint(&ROBOT, &wanted, at(0)).unwrap();
        let header = format!("Bearer {token}").parse().unwrap();
        let headers = http::HeaderMap::from_iter([(http::header::AUTHORIZATION, header)]);
        assert!(access.authenticate(&headers, None, at(1)).is_none());
        assert_eq!(
            access.token_review(&token, at(1)).unwrap().audiences,
            ["vault"]
        );
    }

    #[test]
    fn token_requests_are_validated() {
        let access = Access::default();
        let request = json!({});
        let response = token_request(&access, &ROBOT, &request, &wanted(&request), at(0)).unwrap();
        assert_eq!(response["spec"]["expirationSeconds"], 3600);
        assert_eq!(
            response["status"]["expirationTimestamp"],
            "2027-01-15T09:00:00Z"
        );
        let token = response["status"]["token"].as_str().unwrap();
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
            let errors = Wanted::read(&request, String::new()).unwrap().unwrap_err();
            assert!(errors[0].message.ends_with(text), "{errors:?}");
        }
        let odd = json!({ "spec": { "expirationSeconds": "x" } });
        assert_eq!(Wanted::read(&odd, String::new()).unwrap_err().code(), 400);
    }
}
