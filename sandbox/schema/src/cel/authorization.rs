//! The variable `authorizer`: checks of rights in expressions of admission.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;

use super::evaluate::Outcome;
use crate::object::names;
use crate::rights::UserInfo;
use crate::rights::{Access, Action, Authorizer};

/// Cost of one check, as on a real server: an expression can have two.
pub(super) const CHECK_COST: u64 = 350_000;

/// A user whose rights are checked, and the rights of all users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    pub authorizer: Authorizer,
    pub user: UserInfo,
}

/// A resource whose access is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resource {
    pub group: String,
    pub plural: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// A value of the library of authorization.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Authorization {
    /// The requester, and the resource of the request.
    Authorizer(Requester, Resource),
    PathCheck(Requester, String),
    GroupCheck(Requester, String),
    ResourceCheck(Requester, Resource),
    /// The reason if the access is allowed.
    Decision(Option<String>),
}

impl Opaque for Authorization {
    fn runtime_type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(..) => "kubernetes.authorization.Authorizer",
            Self::PathCheck(..) => "kubernetes.authorization.PathCheck",
            Self::GroupCheck(..) => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck(..) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

impl From<Authorization> for Value {
    fn from(value: Authorization) -> Self {
        Self::Opaque(Arc::new(value))
    }
}

/// Returns the variable `authorizer` of a request.
pub fn authorizer(requester: Requester, request: Resource) -> Value {
    Authorization::Authorizer(requester, request).into()
}

fn read(value: &Value) -> Option<&Authorization> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref(),
        _ => None,
    }
}

/// Returns `true` for values with the method `check`.
pub(super) fn is_check(value: &Value) -> bool {
    matches!(
        read(value),
        Some(Authorization::PathCheck(..) | Authorization::ResourceCheck(..))
    )
}

/// Returns a field of `authorizer`.
pub(super) fn field(value: &Value, name: &str) -> Option<Value> {
    match (read(value)?, name) {
        (Authorization::Authorizer(requester, request), "requestResource") => {
            Some(Authorization::ResourceCheck(requester.clone(), request.clone()).into())
        }
        _ => None,
    }
}

/// Calls a method of `authorizer` or of one of its checks. Returns `None` for other values.
pub(super) fn call(name: &str, all: &[&Value]) -> Option<Outcome> {
    let (value, args) = all.split_first()?;
    let mut texts = Vec::with_capacity(args.len());
    for arg in args {
        let Value::String(text) = arg else {
            return None;
        };
        texts.push(text.as_str());
    }
    let value = read(value)?;
    match value {
        Authorization::Authorizer(requester, request) => {
            of_authorizer(name, &texts, requester, request)
        }
        Authorization::GroupCheck(requester, group) => of_group(name, &texts, requester, group),
        Authorization::PathCheck(requester, path) => match (name, texts.as_slice()) {
            ("check", [verb]) => Some(Ok(requester.decision(Action::Url { verb, path }))),
            _ => None,
        },
        Authorization::ResourceCheck(requester, resource) => {
            of_resource(name, &texts, requester, resource)
        }
        Authorization::Decision(allowed) => of_decision(name, allowed.as_deref()),
    }
}

fn of_authorizer(
    name: &str,
    texts: &[&str],
    requester: &Requester,
    request: &Resource,
) -> Option<Outcome> {
    Some(match (name, texts) {
        ("path", [""]) => Err("path must not be empty".to_owned()),
        ("path", [path]) => {
            Ok(Authorization::PathCheck(requester.clone(), (*path).to_owned()).into())
        }
        ("group", [group]) => {
            Ok(Authorization::GroupCheck(requester.clone(), (*group).to_owned()).into())
        }
        ("serviceAccount", [_, name]) if !names::subdomain(name).is_empty() => {
            Err("Invalid service account name".to_owned())
        }
        ("serviceAccount", [namespace, _]) if !names::label(namespace).is_empty() => {
            Err("Invalid service account namespace".to_owned())
        }
        ("serviceAccount", [namespace, name]) => {
            let requester = Requester {
                user: UserInfo::of_service_account(namespace, name, ""),
                ..requester.clone()
            };
            Ok(authorizer(requester, request.clone()))
        }
        _ => return None,
    })
}

fn of_group(name: &str, texts: &[&str], requester: &Requester, group: &str) -> Option<Outcome> {
    Some(match (name, texts) {
        ("resource", [""]) => Err("resource must not be empty".to_owned()),
        ("resource", [resource]) => {
            let resource = Resource {
                group: group.to_owned(),
                plural: (*resource).to_owned(),
                ..Resource::default()
            };
            Ok(Authorization::ResourceCheck(requester.clone(), resource).into())
        }
        _ => return None,
    })
}

fn of_resource(
    name: &str,
    texts: &[&str],
    requester: &Requester,
    resource: &Resource,
) -> Option<Outcome> {
    let [text] = texts else {
        return None;
    };
    let mut resource = resource.clone();
    match name {
        "check" => {
            let namespace = Some(&*resource.namespace).filter(|namespace| !namespace.is_empty());
            return Some(Ok(requester.decision(Action::Resource(Access {
                verb: text,
                group: &resource.group,
                resource: &resource.plural,
                subresource: &resource.subresource,
                namespace,
                name: &resource.name,
            }))));
        }
        "subresource" => (*text).clone_into(&mut resource.subresource),
        "namespace" => (*text).clone_into(&mut resource.namespace),
        "name" => (*text).clone_into(&mut resource.name),
        // Roles do not depend on selectors.
        "fieldSelector" | "labelSelector" => {}
        _ => return None,
    }
    Some(Ok(Authorization::ResourceCheck(
        requester.clone(),
        resource,
    )
    .into()))
}

fn of_decision(name: &str, allowed: Option<&str>) -> Option<Outcome> {
    let text = |text: &str| Value::String(Arc::new(text.to_owned()));
    Some(Ok(match name {
        "allowed" => Value::Bool(allowed.is_some()),
        "reason" => text(allowed.unwrap_or_default()),
        "errored" => Value::Bool(false),
        "error" => text(""),
        _ => return None,
    }))
}

impl Requester {
    fn decision(&self, action: Action<'_>) -> Value {
        Authorization::Decision(self.authorizer.allows(&self.user, action)).into()
    }
}
