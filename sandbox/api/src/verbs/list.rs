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
use crate::store::{Key, Range, Snapshot, Stored};
use crate::view;

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
    /// Returns the objects that the call selects. Only a page of them is looked at, as far as selectors
    /// allow.
    pub async fn list(&self, call: &Call) -> Result<Page> {
        check_options(&call.options)?;
        let filter = Filter::of(call)?;
        let limit = limit(&call.options);
        // One more than the page shows whether there are others.
        let wanted = limit.saturating_add(1);
        let most = if filter.selects_all() {
            wanted
        } else {
            wanted.max(AT_ONCE)
        };
        let token = token(&call.options)?;
        let after = token.as_ref().map(ContinueToken::last);
        let range = Range {
            namespace: call.namespace.as_deref(),
            after: after.as_ref(),
            most,
        };
        let mut part = self.snapshot(call, token.as_ref(), range).await?;
        let revision = part.revision;
        let mut items = Vec::new();
        loop {
            let last = part.objects.last().filter(|_| part.objects.len() == most);
            let last = last.map(|last| last.key.clone());
            self.select(call, &filter, part.objects, wanted, &mut items)
                .await?;
            let Some(last) = last.filter(|_| items.len() < wanted) else {
                break;
            };
            let after = Some(&last);
            let rest = Range { after, ..range };
            let next = self.store.list_at(&collection(&call.kind), rest, revision);
            part = next.map_err(|_| expired_token(&ContinueToken::after(&last, revision, None)))?;
        }
        self.page(call, &filter, token.as_ref(), revision, items)
            .await
    }

    /// Adds the matching candidates up to a number. Selectors match objects in the version of the call.
    /// Other tasks run while selectors are evaluated.
    async fn select(
        &self,
        call: &Call,
        filter: &Filter,
        candidates: Vec<Arc<Stored>>,
        wanted: usize,
        items: &mut Vec<Arc<Stored>>,
    ) -> Result<()> {
        let candidates = candidates
            .into_iter()
            .filter(|stored| filter.matches_key(&stored.key));
        if filter.selects_all() {
            items.extend(candidates);
            return Ok(());
        }
        let candidates = self.all_in_version(candidates.collect(), &call.kind, &call.version);
        for (at, stored) in candidates.await?.into_iter().enumerate() {
            if at % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            if items.len() == wanted {
                break;
            }
            if filter.matches(&call.kind, &stored) {
                items.push(stored);
            }
        }
        Ok(())
    }

    /// Returns the page of these items. The last one belongs to the next page if there are more than the
    /// limit.
    async fn page(
        &self,
        call: &Call,
        filter: &Filter,
        token: Option<&ContinueToken>,
        revision: u64,
        mut items: Vec<Arc<Stored>>,
    ) -> Result<Page> {
        let limit = limit(&call.options);
        let has_more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| has_more);
        // With selectors, a real server does not count the remaining objects.
        let remaining = last.filter(|_| filter.selects_all()).and_then(|last| {
            let known = token.and_then(ContinueToken::left);
            known
                .map(|left| left.saturating_sub(items.len()))
                .or_else(|| {
                    let range = Range {
                        after: Some(&last.key),
                        ..call.namespace.as_deref().into()
                    };
                    let counted = self
                        .store
                        .count_at(&collection(&call.kind), range, revision);
                    counted.ok()
                })
        });
        let continue_token =
            last.map(|last| ContinueToken::after(&last.key, revision, remaining).encode());
        // A real server has no such field in lists of custom resources.
        let shard = filter.shards.as_ref().filter(|_| !call.kind.is_custom());
        let shard = shard.map(ToString::to_string);
        let items = self
            .all_in_version(items, &call.kind, &call.version)
            .await?;
        Ok(Page {
            revision,
            items,
            continue_token,
            remaining,
            shard,
        })
    }

    /// Returns the objects of a range at the requested revision. Lists without a version are consistent:
    /// they are not read from a lagging cache.
    async fn snapshot(
        &self,
        call: &Call,
        token: Option<&ContinueToken>,
        range: Range<'_>,
    ) -> Result<Snapshot> {
        let collection = collection(&call.kind);
        if let Some(token) = token {
            return Ok(match token.revision() {
                None => self.store.list(&collection, range),
                Some(revision) => {
                    self.reached(call, revision).await?;
                    self.store
                        .list_at(&collection, range, revision)
                        .map_err(|_| expired_token(token))?
                }
            });
        }
        let wanted = match call.options.resource_version.as_deref() {
            None => return Ok(self.store.list(&collection, range)),
            Some(version) => parse_version(version)?,
        };
        let reached = self.reached(call, wanted).await?;
        let exact = match call.options.version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            // The behaviour of servers without this parameter.
            None => call.options.limit.is_some() && wanted > 0,
        };
        if !exact {
            return Ok(match reached {
                Some(revision) => view::list(&self.store, &collection, range, revision),
                None => self.store.list(&collection, range),
            });
        }
        let listed = self.store.list_at(&collection, range, wanted);
        listed.map_err(|expired| {
            ApiError::expired(format!(
                "The resourceVersion for the provided list is too old: {wanted} (oldest is {})",
                expired.oldest
            ))
        })
    }

    /// Waits until the cache has reached a version. Returns its position; `None` if it is up to date.
    async fn reached(&self, call: &Call, wanted: u64) -> Result<Option<u64>> {
        let reached = call.reader.reach(&self.views, &self.store, wanted).await?;
        let present = self.store.revision();
        if reached.is_none() && wanted > present {
            return Err(view::too_large(wanted, present));
        }
        Ok(reached)
    }
}

/// Returns the largest number of objects on a page.
fn limit(options: &Options) -> usize {
    options.limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// Returns the continue token of a call.
fn token(options: &Options) -> Result<Option<ContinueToken>> {
    let token = options.continue_token.as_deref().map(|text| {
        let token = ContinueToken::decode(text);
        token.ok_or_else(|| {
            ApiError::bad_request("continue key is not valid: the token is malformed")
        })
    });
    token.transpose()
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
