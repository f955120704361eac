//! Impersonation (`kubectl --as`): allowed to users with the right to impersonate.

use std::collections::BTreeMap;

use http::HeaderMap;
use kopf_sandbox_schema::rights::Access;
use kopf_sandbox_schema::rights::{AUTHENTICATED, UNAUTHENTICATED, UserInfo};
use serde_json::json;

use super::IsAllowed;
use crate::status::{ApiError, Reason, Result};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ANONYMOUS: &str = "system:anonymous";

/// Returns the user for whom a request is carried out: the sender, or the user in the headers.
pub(super) fn impersonate(
    headers: &HeaderMap,
    sender: UserInfo,
    is_allowed: IsAllowed<'_>,
) -> Result<UserInfo> {
    let text = |name: &str| {
        let value = headers.get(name)?.to_str().ok()?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let groups: Vec<String> = headers
        .get_all(GROUP)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(str::to_owned)
        .collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) else {
            continue;
        };
        extra
            .entry(unescaped(key))
            .or_default()
            .push(value.to_owned());
    }
    let uid = text(UID);
    let Some(username) = text(USER) else {
        if groups.is_empty() && extra.is_empty() && uid.is_none() {
            return Ok(sender);
        }
        return Err(ApiError::bad_request(format!(
            "requested {} without impersonating a user name",
            printed(uid.as_deref().unwrap_or_default(), &groups, &extra)
        )));
    };
    let account = service_account(&username);
    if !sender.is_master() {
        let is_plain = uid.is_none() && extra.is_empty();
        if !is_plain || !may_act_as(&sender, &username, &groups, is_allowed) {
            return Err(forbidden(&sender, &username));
        }
    }
    let groups = match account {
        Some((namespace, name)) if groups.is_empty() => {
            UserInfo::of_service_account(namespace, name, "").groups
        }
        _ => groups,
    };
    Ok(with_standard_group(UserInfo {
        uid: uid.unwrap_or_default(),
        extra,
        groups,
        username,
    }))
}

/// Returns `true` if a user has the rights to act as another one with these groups.
fn may_act_as(
    sender: &UserInfo,
    username: &str,
    groups: &[String],
    is_allowed: IsAllowed<'_>,
) -> bool {
    let impersonate = |resource: &'static str, namespace, name| {
        let access = Access {
            verb: "impersonate",
            resource,
            namespace,
            name,
            ..Access::default()
        };
        is_allowed(sender, access)
    };
    let user = match service_account(username) {
        Some((namespace, name)) => impersonate("serviceaccounts", Some(namespace), name),
        None => impersonate("users", None, username),
    };
    user && groups
        .iter()
        .all(|group| impersonate("groups", None, group))
}

/// Adds the group of authenticated or anonymous users.
fn with_standard_group(mut user: UserInfo) -> UserInfo {
    let has = |group: &str| user.groups.iter().any(|known| known == group);
    if user.username == ANONYMOUS {
        if !has(UNAUTHENTICATED) {
            user.groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// Formats a user without a name in the syntax of the real server's message.
fn printed(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> String {
    let strings = |list: &[String]| {
        let items: Vec<String> = list.iter().map(|item| format!("{item:?}")).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = if groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        strings(groups)
    };
    let extra = if extra.is_empty() {
        "(nil)".to_owned()
    } else {
        let items: Vec<String> = extra
            .iter()
            .map(|(key, values)| format!("{key:?}:{}", strings(values)))
            .collect();
        format!("{{{}}}", items.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:map[string][]string{extra}}}"
    )
}

/// Splits `system:serviceaccount:NAMESPACE:NAME` into namespace and name.
fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

fn forbidden(sender: &UserInfo, username: &str) -> ApiError {
    let (resource, name, place) = match service_account(username) {
        Some((namespace, name)) => (
            "serviceaccounts",
            name,
            format!("in the namespace {namespace:?}"),
        ),
        None => ("users", username, "at the cluster scope".to_owned()),
    };
    let message = format!(
        "{resource} {name:?} is forbidden: User {:?} cannot impersonate resource {resource:?} \
         in API group \"\" {place}",
        sender.username
    );
    ApiError::new(403, Reason::Forbidden, message)
        .with_details(json!({ "name": name, "kind": resource }))
}

/// Decodes a key of extra data, which is percent-encoded. A broken escape is kept as it is.
fn unescaped(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let Some((code, tail)) = tail.split_at_checked(2) else {
            return key.to_owned();
        };
        let decoded = std::str::from_utf8(code)
            .ok()
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        let Some(byte) = decoded else {
            return key.to_owned();
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    /// Impersonates without any right granted by a role.
    fn acting(headers: &HeaderMap, sender: UserInfo) -> Result<UserInfo> {
        impersonate(headers, sender, &|_, _| false)
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let name: HeaderName = name.parse().unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            })
    }

    fn admin() -> UserInfo {
        UserInfo::new("root", ["system:masters"])
    }

    #[test]
    fn without_headers_nothing_changes() {
        assert_eq!(acting(&HeaderMap::new(), admin()).unwrap(), admin());
    }

    #[test]
    fn masters_can_impersonate() {
        let headers = headers(&[
            ("Impersonate-User", "ann"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Extra-acme.com%2fproject", "x"),
            ("Impersonate-Extra-broken%zz", "y"),
        ]);
        let user = acting(&headers, admin()).unwrap();
        assert_eq!(user.username, "ann");
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.uid, "7");
        assert_eq!(user.extra["acme.com/project"], ["x"]);
        assert_eq!(user.extra["broken%zz"], ["y"]);
    }

    #[test]
    fn impersonated_service_accounts_and_anonymous_get_their_groups() {
        let robot = headers(&[("Impersonate-User", "system:serviceaccount:ns:robot")]);
        assert_eq!(
            acting(&robot, admin()).unwrap().groups,
            [
                "system:serviceaccounts",
                "system:serviceaccounts:ns",
                "system:authenticated"
            ]
        );
        let anonymous = headers(&[("Impersonate-User", "system:anonymous")]);
        assert_eq!(
            acting(&anonymous, admin()).unwrap().groups,
            ["system:unauthenticated"]
        );
    }

    #[test]
    fn impersonation_requires_a_right() {
        let error = acting(
            &headers(&[("Impersonate-User", "ann")]),
            UserInfo::new("bob", ["staff"]),
        )
        .unwrap_err();
        assert_eq!(error.code(), 403);
        assert_eq!(
            error.message(),
            r#"users "ann" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
    }

    #[test]
    fn groups_without_a_user_are_rejected() {
        for (header, user) in [
            (
                ("Impersonate-Group", "a"),
                r#"{Name:"", UID:"", Groups:[]string{"a"}, Extra:map[string][]string(nil)}"#,
            ),
            (
                ("Impersonate-Uid", "a"),
                r#"{Name:"", UID:"a", Groups:[]string(nil), Extra:map[string][]string(nil)}"#,
            ),
            (
                ("Impersonate-Extra-foo", "a"),
                r#"{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"foo":[]string{"a"}}}"#,
            ),
        ] {
            let error = acting(&headers(&[header]), admin()).unwrap_err();
            assert_eq!(error.code(), 400);
            assert_eq!(
                error.message(),
                format!("requested &user.DefaultInfo{user} without impersonating a user name")
            );
        }
    }
}
