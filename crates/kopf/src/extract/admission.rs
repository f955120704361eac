//! Arguments of admission handlers: the request and its user.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use kopf_core::admission::Operation;
use kopf_engine::admission;
use serde_json::{Map, Value};

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};
use crate::view::View;

impl Extract for Operation {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let review = &context.admission("Operation")?.review;
        review.operation.ok_or(Rejection::other(
            "the request has no operation; use an Option to accept this",
        ))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.admission("Operation")
    }
}

impl OptionalExtract for Operation {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        let admission = context.admission("Operation").ok();
        Ok(admission.and_then(|admission| admission.review.operation))
    }
}

impl FilterExtract for Operation {}

/// The reviewed subresource, as in `status`; `None` for the object itself.
///
/// ```
/// use kopf::Subresource;
/// use kopf::prelude::*;
///
/// #[kopf::on::validate("kopfexamples", subresource = "*")]
/// fn check(Subresource(subresource): Subresource, logger: Logger) {
///     match subresource.as_deref() {
///         Some("status") => logger.info("The status is changed."),
///         Some(other) => logger.info(format_args!("The subresource {other} is changed.")),
///         None => logger.info("The object itself is changed."),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subresource(pub Option<String>);

/// `true` for dry runs, in which nothing is stored and handlers must not have side effects.
///
/// ```
/// use kopf::DryRun;
/// use kopf::prelude::*;
///
/// #[kopf::on::validate("kopfexamples", side_effects = true)]
/// async fn reserve(DryRun(dry): DryRun, logger: Logger) {
///     if !dry {
///         logger.info("Reserved.");
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DryRun(pub bool);

/// The user of the request, as sent by the API server.
///
/// ```
/// use kopf::UserInfo;
/// use kopf::prelude::*;
///
/// #[kopf::on::validate("kopfexamples", operation = "DELETE")]
/// fn only_admins(user: UserInfo) -> kopf::Result<()> {
///     if user.groups().any(|group| group == "admins") {
///         return Ok(());
///     }
///     let name = user.username().unwrap_or("unknown user");
///     Err(kopf::denied(format!("{name} may not do this")).code(403))
/// }
///
/// let user = UserInfo(json!({"username": "root", "groups": ["admins"]}).into());
/// assert!(only_admins(user).is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct UserInfo(pub View);

impl UserInfo {
    /// Returns the name in the cluster: `system:serviceaccount:…` for pods.
    pub fn username(&self) -> Option<&str> {
        self.0.get("username")?.as_str()
    }

    /// Returns the groups of the user.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let groups = self.0.get("groups").and_then(Value::as_array);
        groups.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// The HTTP headers of the request to the webhook server.
///
/// ```
/// use kopf::Headers;
/// use kopf::prelude::*;
///
/// let headers = Headers([("User-Agent".to_owned(), "kube-apiserver-admission".to_owned())].into());
/// assert_eq!(headers.get("user-agent"), Some("kube-apiserver-admission"));
/// assert_eq!(headers.get("authorization"), None);
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
    /// Returns the value of a header. The name is case-insensitive.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut headers = self.0.iter();
        let (_, value) = headers.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

/// Shows only the names: values can be secret.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The verified client certificate of the connection to the webhook server; an empty object if
/// there is none.
///
/// It has the format of the original, that of Python's `getpeercert()`.
///
/// ```
/// use kopf::SslPeer;
/// use kopf::prelude::*;
///
/// let peer = SslPeer(json!({"subject": [[["organizationName", "x"]], [["commonName", "apiserver"]]]}).into());
/// assert_eq!(peer.common_name(), Some("apiserver"));
/// ```
#[derive(Debug, Clone)]
pub struct SslPeer(pub View);

impl SslPeer {
    /// Returns the common name of the subject.
    pub fn common_name(&self) -> Option<&str> {
        let parts = self.0.get("subject")?.as_array()?;
        let pairs = parts.iter().filter_map(Value::as_array).flatten();
        pairs
            .filter(|pair| pair.get(0).is_some_and(|name| name == "commonName"))
            .find_map(|pair| pair.get(1)?.as_str())
    }
}

/// Warnings for the client, which are sent with any response: `kubectl` prints them. Cheap to
/// clone: clones share the list.
///
/// All handlers of one request share the list. The API server truncates long warnings: they should
/// have at most 120 characters.
///
/// ```
/// use kopf::Warnings;
/// use kopf::prelude::*;
///
/// #[kopf::on::validate("kopfexamples")]
/// fn check(Spec(spec): Spec, warnings: Warnings) {
///     if !spec["legacy"].is_null() {
///         warnings.push("spec.legacy is deprecated");
///     }
/// }
///
/// let warnings = Warnings::default();
/// check(Spec(json!({"legacy": 1}).into()), warnings.clone());
/// assert_eq!(warnings.list(), ["spec.legacy is deprecated"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Warnings(admission::Warnings);

impl Warnings {
    /// Adds a warning.
    pub fn push(&self, warning: impl Display) {
        self.0.push(warning.to_string());
    }

    /// Returns the warnings of all handlers.
    pub fn list(&self) -> Vec<String> {
        self.0.list()
    }
}

macro_rules! review_arguments {
    ($($name:ident, $argument:literal, $make:expr;)*) => {$(
        impl Extract for $name {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                let make: fn(&admission::Admission) -> Self = $make;
                Ok(make(context.admission($argument)?))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.admission($argument)
            }
        }

        impl OptionalExtract for $name {
            fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
                Ok(Self::extract(context).ok())
            }
        }

        impl FilterExtract for $name {}
    )*};
}

review_arguments! {
    Subresource, "Subresource", |admission| Self(admission.review.subresource.clone());
    DryRun, "DryRun", |admission| Self(admission.review.dryrun);
    UserInfo, "UserInfo", |admission| Self(View::from(admission.review.userinfo.clone()));
    Headers, "Headers", |admission| Self(admission.review.headers.clone());
    SslPeer, "SslPeer", |admission| Self(View::from(
        admission.review.sslpeer.clone().unwrap_or_else(|| Value::Object(Map::new()))
    ));
    Warnings, "Warnings", |admission| Self(admission.warnings.clone());
}
