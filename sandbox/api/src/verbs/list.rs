//! The verb `list`: whole collections or pages.

use std::sync::Arc;

use kopf_sandbox_kinds::selectable::{self, field_value};
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::selectors::{FieldSelector, LabelSelector, ShardField, ShardSelector};
use serde_json::Value;

use super::Call;
use super::continue_token::ContinueToken;
use crate::call::parse_version;
use crate::cluster::{Cluster, collection};
use crate::request::options::{Options, VersionMatch};
use crate::respond::Page;
use crate::status::{ApiError, Result};
use crate::store::{Key, Snapshot, Stored};

/// Number of objects whose selectors are evaluated at once.
const AT_ONCE: usize = 256;

/// The objects that a list or watch selects.
#[derive(Debug, Clone)]
pub struct Filter {
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub shards: Option<ShardSelector>,
}

impl Filter {
    /// Parses the selectors of a call.
    pub fn of(call: &Call) -> Result<Self> {
        let labels = match &call.options.label_selector {
            Some(text) => LabelSelector::parse(text).map_err(ApiError::bad_request)?,
            None => LabelSelector::default(),
        };
        let fields = match &call.options.field_selector {
            Some(text) => FieldSelector::parse(text).map_err(ApiError::bad_request)?,
            None => FieldSelector::default(),
        };
        selectable::check(&fields, &call.kind, &call.version).map_err(ApiError::bad_request)?;
        let shards = call.options.shard_selector.as_deref();
        let shards = shards.map(ShardSelector::parse).transpose();
        let shards = shards.map_err(|why| {
            ApiError::without_reason(500, format!("invalid shard selector: {why}"))
        })?;
        let name = (!call.name.is_empty()).then(|| call.name.clone());
        Ok(Self {
            namespace: call.namespace.clone(),
            name,
            labels,
            fields,
            shards,
        })
    }

    /// Returns `true` if there are no selectors.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shards.is_none()
    }

    /// Returns `true` if the key of an object matches.
    pub(crate) fn matches_key(&self, key: &Key) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| *namespace == *key.namespace)
            && self.name.as_deref().is_none_or(|name| *name == *key.name)
    }

    /// Returns `true` if an object is in the shard. Its uid and namespace never change.
    pub(crate) fn matches_shard(&self, stored: &Stored) -> bool {
        match &self.shards {
            None => true,
            Some(shards) => match shards.field() {
                ShardField::Uid => shards.matches(&crate::store::uid_of(&stored.raw)),
                ShardField::Namespace => shards.matches(&stored.key.namespace),
            },
        }
    }

    pub(crate) fn matches_labels(&self, labels: &Value) -> bool {
        self.labels.is_empty() || self.labels.matches(Some(labels))
    }

    /// Returns `true` if the fields of an object match. It is parsed only if other fields than the
    /// key are selected.
    pub(crate) fn matches_fields(&self, kind: &Kind, stored: &Stored) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let parsed = std::cell::OnceCell::new();
        self.fields.matches(|field| match field {
            "metadata.name" => Some(stored.key.name.to_string()),
            "metadata.namespace" => Some(stored.key.namespace.to_string()),
            field => field_value(kind, parsed.get_or_init(|| stored.value()), field),
        })
    }

    fn matches(&self, kind: &Kind, stored: &Stored) -> bool {
        self.matches_key(&stored.key)
            && self.matches_shard(stored)
            && (self.labels.is_empty()
                || self.matches_labels(&crate::store::labels_of(&stored.raw)))
            && self.matches_fields(kind, stored)
    }
}

impl Cluster {
    /// Returns the objects that the call selects.
    pub async fn list(&self, call: &Call) -> Result<Page> {
        check_options(&call.options)?;
        let filter = Filter::of(call)?;
        let (snapshot, token) = self.snapshot(call)?;
        let candidates: Vec<Arc<Stored>> = snapshot
            .objects
            .into_iter()
            .filter(|stored| {
                token
                    .as_ref()
                    .is_none_or(|token| token.precedes(&stored.key))
            })
            .filter(|stored| filter.matches_key(&stored.key))
            .collect();
        // Selectors match objects in the version of the call; without selectors, only one page is
        // converted.
        let candidates = if filter.selects_all() {
            candidates
        } else {
            self.all_in_version(candidates, &call.kind, &call.version)
                .await?
        };
        let mut page = page(call, &filter, snapshot.revision, candidates).await;
        page.items = self
            .all_in_version(page.items, &call.kind, &call.version)
            .await?;
        Ok(page)
    }

    /// Returns the objects at the requested revision.
    fn snapshot(&self, call: &Call) -> Result<(Snapshot, Option<ContinueToken>)> {
        let collection = collection(&call.kind);
        let namespace = call.namespace.as_deref();
        if let Some(text) = &call.options.continue_token {
            let token = ContinueToken::decode(text).ok_or_else(|| {
                ApiError::bad_request("continue key is not valid: the token is malformed")
            })?;
            let snapshot = match token.revision() {
                None => self.store.list(&collection, namespace),
                Some(revision) => self
                    .store
                    .list_at(&collection, namespace, revision)
                    .map_err(|_| expired_token(&token))?,
            };
            return Ok((snapshot, Some(token)));
        }
        let wanted = match call.options.resource_version.as_deref() {
            None | Some("0") => return Ok((self.store.list(&collection, namespace), None)),
            Some(version) => self.check_not_too_new(version)?,
        };
        let exact = match call.options.version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            None => call.options.limit.is_some(), // the behaviour of servers without this parameter
        };
        if !exact {
            return Ok((self.store.list(&collection, namespace), None));
        }
        let snapshot = self
            .store
            .list_at(&collection, namespace, wanted)
            .map_err(|expired| {
                ApiError::expired(format!(
                    "The resourceVersion for the provided list is too old: {wanted} (oldest is {})",
                    expired.oldest
                ))
            })?;
        Ok((snapshot, None))
    }
}

/// Returns the first page of the matching candidates. Other tasks run while selectors are
/// evaluated.
async fn page(call: &Call, filter: &Filter, revision: u64, candidates: Vec<Arc<Stored>>) -> Page {
    // A real server has no such field in lists of custom resources.
    let shard = filter.shards.as_ref().filter(|_| !call.kind.is_custom());
    let shard = shard.map(ToString::to_string);
    let limit = call.options.limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let selects_all = filter.selects_all();
    let mut items = Vec::new();
    let mut left = 0;
    for (at, stored) in candidates.into_iter().enumerate() {
        if !selects_all && at % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        if !filter.matches(&call.kind, &stored) {
            continue;
        }
        if items.len() < limit {
            items.push(stored);
            continue;
        }
        left += 1;
        if !selects_all {
            break; // with selectors, a real server does not count the remaining objects
        }
    }
    let more = items.last().filter(|_| left > 0);
    let continue_token = more.map(|last| ContinueToken::after(&last.key, revision).encode());
    let remaining = (left > 0 && selects_all).then_some(left);
    Page {
        revision,
        items,
        continue_token,
        remaining,
        shard,
    }
}

/// Returns the error of a continue token whose revision is compacted. The response contains a token
/// for the current list.
fn expired_token(token: &ContinueToken) -> ApiError {
    let error = ApiError::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let mut body = error.body();
    body["metadata"]["continue"] = Value::String(token.of_the_present().encode());
    ApiError::Verbatim {
        code: error.code(),
        retry_after: None,
        status: Box::new(body),
    }
}

/// Rejects invalid combinations of options.
pub(crate) fn check_options(options: &Options) -> Result<()> {
    let errors = combination_errors(options);
    if !errors.is_empty() {
        return Err(ApiError::invalid_named(
            "meta.k8s.io",
            "ListOptions",
            "",
            &errors,
        ));
    }
    let version = options.resource_version.as_deref();
    if options.continue_token.is_some() && version.is_some_and(|version| version != "0") {
        return Err(ApiError::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    if let Some(version) = version {
        parse_version(version)?;
    }
    Ok(())
}

fn combination_errors(options: &Options) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(version_match) = options.version_match {
        let field = "resourceVersionMatch";
        match options.resource_version.as_deref() {
            None if options.send_initial_events.is_none() => errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            Some("0") if version_match == VersionMatch::Exact => {
                errors.push(FieldError::forbidden(
                    field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            _ => {}
        }
        if options.continue_token.is_some() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if options.watch && options.send_initial_events.is_none() {
            errors.push(FieldError::forbidden(
                field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
    }
    if options.send_initial_events.is_some() {
        if !options.watch {
            errors.push(FieldError::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        } else if options.version_match != Some(VersionMatch::NotOlderThan) {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
    }
    errors
}
