//! Requests as a tap sees them, and the decisions about them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, header};
use kopf_sandbox_schema::protobuf::Expected;
use kopf_sandbox_schema::rights::UserInfo;
use serde_json::Value;

use crate::fault::{RequestFacts, Verb, rejection};
use crate::request::body::{content_type, read_as, user_agent};
use crate::request::decode;
use crate::request::path::ResourcePath;
use crate::status::ApiError;

/// A request to a resource.
#[non_exhaustive]
pub struct TapRequest {
    /// The number of the request, from 1, in the order of arrival at this sandbox.
    pub number: u64,
    /// The endpoint that accepted the request: that of the listener, or `in-process`.
    pub endpoint: Arc<str>,
    /// The name of the user, after impersonation.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The `User-Agent` header; empty without one.
    pub user_agent: String,
    /// The verb, as in rules of RBAC.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, e.g. `v1`.
    pub version: String,
    /// The plural name of the resource.
    pub resource: String,
    /// The subresource, e.g. `status`.
    pub subresource: Option<String>,
    /// The namespace; `None` for cluster-scoped resources and for all namespaces.
    pub namespace: Option<String>,
    /// The name of the object; `None` for collections.
    pub name: Option<String>,
    /// The query parameters in their order, decoded.
    pub query: Vec<(String, String)>,
    /// The `Content-Type` header; empty without one.
    pub content_type: String,
    body: Bytes,
    /// The kind of the resource, for bodies in protobuf.
    kind: Option<String>,
    parsed: OnceLock<Option<Value>>,
}

impl fmt::Debug for TapRequest {
    /// Omits the body: it may be a secret, and `Debug` output is logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TapRequest")
            .field("number", &self.number)
            .field("endpoint", &self.endpoint)
            .field("user", &self.user)
            .field("verb", &self.verb)
            .field("group", &self.group)
            .field("resource", &self.resource)
            .field("subresource", &self.subresource)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The origin of a request: its number, endpoint and user.
pub(crate) struct Sender<'a> {
    pub(crate) number: u64,
    pub(crate) endpoint: Arc<str>,
    pub(crate) user: &'a UserInfo,
}

impl TapRequest {
    /// `kind` is the name of the kind, if it is known.
    pub(crate) fn new(
        sender: Sender<'_>,
        verb: Verb,
        path: &ResourcePath,
        kind: Option<String>,
        parts: &Parts,
        body: Bytes,
    ) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let query = form_urlencoded::parse(query.as_bytes());
        Self {
            number: sender.number,
            endpoint: sender.endpoint,
            user: sender.user.username.clone(),
            groups: sender.user.groups.clone(),
            user_agent: user_agent(&parts.headers),
            verb,
            group: path.group.clone(),
            version: path.version.clone(),
            resource: path.plural.clone(),
            subresource: path.subresource.clone(),
            namespace: path.namespace.clone(),
            name: path.name.clone(),
            query: query.into_owned().collect(),
            content_type: content_type(&parts.headers).to_owned(),
            body,
            kind,
            parsed: OnceLock::new(),
        }
    }

    /// Returns the value of a query parameter, e.g. `resourceVersion` or `labelSelector`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut query = self.query.iter();
        let found = query.find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as it was sent.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// Returns the decoded body: JSON, YAML or protobuf. `None` without a body, or if it is
    /// malformed. It is decoded when it is read for the first time.
    pub fn body(&self) -> Option<&Value> {
        let parsed = self.parsed.get_or_init(|| self.decoded());
        parsed.as_ref()
    }

    fn decoded(&self) -> Option<Value> {
        if self.body.is_empty() {
            return None;
        }
        if self.content_type.contains("protobuf") {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, self.content_type.parse().ok()?);
            let api_version = match &*self.group {
                "" => self.version.clone(),
                group => format!("{group}/{}", self.version),
            };
            let expected = match self.verb {
                Verb::Delete | Verb::DeleteCollection => Expected {
                    api_version: "meta.k8s.io/v1",
                    kind: "DeleteOptions",
                },
                _ => Expected {
                    api_version: &api_version,
                    kind: self.kind.as_deref()?,
                },
            };
            let decoded = read_as(Some(expected), &headers, &self.body);
            return Some(decoded.ok()?.value);
        }
        if let Ok(value) = serde_json::from_slice(&self.body) {
            return Some(value);
        }
        let is_yaml = self.content_type.contains("yaml");
        let decoded = is_yaml.then(|| decode::yaml(&self.body))?;
        Some(decoded.ok()?.value)
    }

    /// Returns `true` if the request can change objects: it is a create, update, patch or deletion,
    /// and not a dry run. Reviews of access and tokens are creations, too.
    pub fn is_write(&self) -> bool {
        !self.verb.is_read() && self.parameter("dryRun").is_none_or(str::is_empty)
    }

    /// Returns `true` if the request is a server-side apply.
    pub fn is_apply(&self) -> bool {
        self.verb == Verb::Patch && self.content_type.contains("apply-patch")
    }

    /// Returns `plural` or `plural.group`, as in errors and names of CRDs.
    pub fn qualified_resource(&self) -> String {
        match &*self.group {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    fn facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            verb: self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: self.subresource.as_deref(),
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
            user: &self.user,
        }
    }
}

/// The decision about a request before it is carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It is carried out.
    #[default]
    Proceed,
    /// It is not carried out; the client gets an error.
    Reject(TapRejection),
    /// It is not carried out, and the connection is reset without a response, as by
    /// [`Fault::reset`](crate::fault::Fault::reset).
    Break,
}

/// The decision about a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The response is sent.
    #[default]
    Send,
    /// The connection is reset: the request was carried out, but the client does not know it.
    Break,
}

/// An error response instead of a request.
///
/// ```
/// use kopf_sandbox::tap::{Decision, TapRejection};
///
/// let overloaded = Decision::Reject(TapRejection::new(429).retry_after(1));
/// let unlucky = Decision::Reject(TapRejection::new(500).message("etcdserver: leader changed"));
/// # let _ = (overloaded, unlucky);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct TapRejection {
    code: u16,
    reason: Option<String>,
    message: Option<String>,
    retry_after: Option<u32>,
}

impl TapRejection {
    /// Returns a rejection with this HTTP status and the usual `Status` for it. Codes below 400 or
    /// above 599 become 500.
    pub fn new(code: u16) -> Self {
        let is_error = (400..600).contains(&code);
        Self {
            code: if is_error { code } else { 500 },
            reason: None,
            message: None,
            retry_after: None,
        }
    }

    /// Sets the `reason` of the `Status`, e.g. `Conflict`.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the message of the `Status`.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Sets the `Retry-After` header and `retryAfterSeconds`, in seconds. The default for 429 is 1.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the error for a request.
    pub(crate) fn error(self, request: &TapRequest) -> ApiError {
        let usual = rejection(self.code, self.retry_after, &request.facts());
        if self.reason.is_none() && self.message.is_none() {
            return usual;
        }
        let mut status = usual.body();
        for (field, value) in [("reason", self.reason), ("message", self.message)] {
            if let Some(value) = value {
                status[field] = Value::String(value);
            }
        }
        ApiError::Verbatim {
            code: self.code,
            retry_after: usual.retry_after(),
            status: Box::new(status),
        }
    }
}
