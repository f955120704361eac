//! Parsed requests to resources, and the results of verbs.

use std::sync::Arc;

use kopf_sandbox_kinds::managers::{self, Conversions, Tracker};
use kopf_sandbox_schema::kind::{Kind, KindVersion};
use kopf_sandbox_schema::rights::UserInfo;
use kopf_sandbox_store::sync::Mutex;
use serde_json::Value;

use crate::request::accept::Accepted;
use crate::request::options::Options;
use crate::status::{ApiError, Result};
use crate::store::{Key, Stored};
use crate::view::CacheReader;

/// Maximum number of warnings of one response. Their total length is limited much earlier.
const MOST_WARNINGS: usize = 1000;

/// The object or collection of a request, within its kind.
#[derive(Debug, Default)]
pub struct Target {
    pub namespace: Option<String>,
    /// Empty for requests to a whole collection.
    pub name: String,
    pub subresource: Option<String>,
}

/// A parsed request to a resource: its target, user and options.
#[derive(Debug)]
pub struct Call {
    pub kind: Arc<Kind>,
    /// The API version of the request.
    pub version: Arc<str>,
    pub namespace: Option<String>,
    /// Empty for requests to a whole collection.
    pub name: String,
    pub subresource: Option<String>,
    pub options: Options,
    pub accepted: Accepted,
    pub user: UserInfo,
    pub(crate) is_patch: bool,
    /// The `User-Agent` of the client.
    pub agent: String,
    warnings: Arc<Mutex<Vec<String>>>,
    /// Conversions for the field managers of the object.
    pub(crate) conversions: Conversions,
    pub admission: Admission,
    /// The client, for reads from a cache.
    pub(crate) reader: CacheReader,
}

/// The participation of a call in admission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Admission {
    /// Webhooks and policies are called with the object.
    #[default]
    Whole,
    /// The same, without the name: the object is one of a deleted collection.
    Unnamed,
    /// The request was admitted before, as the creation of a subresource.
    Done,
}

impl Call {
    pub fn new(
        kind: Arc<Kind>,
        version: Arc<str>,
        target: Target,
        options: Options,
        accepted: Accepted,
        user: UserInfo,
    ) -> Self {
        Self {
            kind,
            version,
            namespace: target.namespace,
            name: target.name,
            subresource: target.subresource,
            options,
            accepted,
            user,
            is_patch: false,
            agent: String::new(),
            warnings: Arc::default(),
            conversions: Conversions::default(),
            admission: Admission::default(),
            reader: CacheReader::default(),
        }
    }

    /// Returns the call of a controller of the server, in the storage version.
    pub fn internal(kind: &Arc<Kind>, key: &Key, user: UserInfo) -> Self {
        let target = Target {
            namespace: key.namespace().map(str::to_owned),
            name: key.name.to_string(),
            subresource: None,
        };
        let version = Arc::clone(&kind.storage_version);
        let mut call = Self::new(
            Arc::clone(kind),
            version,
            target,
            Options::default(),
            Accepted::default(),
            user,
        );
        "kube-controller-manager".clone_into(&mut call.agent);
        call
    }

    /// Returns the same call for another object. Warnings go to the same response.
    #[must_use]
    pub fn about(&self, namespace: Option<&str>, name: &str) -> Self {
        Self {
            kind: Arc::clone(&self.kind),
            version: Arc::clone(&self.version),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            subresource: self.subresource.clone(),
            options: self.options.clone(),
            accepted: self.accepted,
            user: self.user.clone(),
            is_patch: self.is_patch,
            agent: self.agent.clone(),
            warnings: Arc::clone(&self.warnings),
            conversions: Conversions::default(),
            admission: self.admission,
            reader: self.reader.clone(),
        }
    }

    pub fn key(&self) -> Key {
        Key::new(self.namespace.as_deref(), &self.name)
    }

    /// Returns the kind's version of the request.
    pub(crate) fn kind_version(&self) -> Result<&KindVersion> {
        self.kind
            .version(&self.version)
            .ok_or_else(ApiError::no_such_path)
    }

    pub fn api_version(&self) -> String {
        self.kind.api_version(&self.version)
    }

    /// Returns the name of the field manager: the given one, or that of the client.
    pub fn manager(&self) -> String {
        match &self.options.field_manager {
            Some(name) => name.clone(),
            None => managers::name_of_agent(&self.agent),
        }
    }

    /// Returns the tracker of field managers for a write by this call at this time.
    pub fn tracker(&self, now: String) -> Result<Tracker<'_>> {
        let version = self.kind_version()?;
        Ok(Tracker::new(
            &self.kind,
            version,
            self.subresource.as_deref(),
            now,
            &self.conversions,
        ))
    }

    pub(crate) fn is_status(&self) -> bool {
        self.subresource.as_deref() == Some("status")
    }

    /// Adds a `Warning` header to the response.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.lock();
        if warnings.len() < MOST_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock())
    }
}

/// The tracking of field managers of a written object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// The manager of the call owns the changes of the write.
    Update,
    /// The object contains its managers: it was applied.
    Applied,
}

/// The payload of a response.
#[derive(Debug)]
pub enum Payload {
    /// A stored object.
    Stored(Arc<Stored>),
    /// An object in the version of the call, e.g. the result of a dry run.
    Object(Value),
    /// A `Status`, or another document without a table form.
    Document(Value),
}

/// Parses a resource version.
pub(crate) fn parse_version(version: &str) -> Result<u64> {
    version.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
        ))
    })
}
