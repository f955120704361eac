//! Admission of writes by webhooks.

use futures::FutureExt as _;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::Value;

use super::{Cluster, collection};
use crate::admission::{Attributes, Chain, Facts, Operation, ParamKind, ParamRef};
use crate::call::{Admission, Call};
use crate::scale;
use crate::status::Result;
use crate::store::Key;

impl Cluster {
    /// Passes an object through the mutating webhooks before it is written.
    pub(crate) async fn admit_mutating(
        &self,
        call: &Call,
        operation: Operation,
        object: Option<Value>,
        old: Option<&Value>,
        options: &Value,
    ) -> Result<Option<Value>> {
        let webhooks = self.webhooks();
        if webhooks.is_empty() || call.admission == Admission::Done {
            return Ok(object);
        }
        let namespace = self.namespace_labels(call);
        let attributes = self.attributes(call, operation, namespace.as_ref(), options);
        let apply = |document: &Value, patch: &[u8]| {
            let patch = serde_json::from_slice(patch).map_err(|error| error.to_string())?;
            kopf_sandbox_schema::patch::json::apply(document, patch)
                .map_err(|error| error.to_string())
        };
        let chain = Chain {
            webhooks: &webhooks,
            caller: &self.caller,
            attributes: &attributes,
            convert: &|object, version| self.in_other_version(call, object, version).boxed(),
            new_uid: &|| self.ids.uid(),
            find_service: &|namespace, name| self.find_service(namespace, name),
        };
        let object = match object {
            Some(object) if !webhooks.policies.is_empty() && !is_scale(call) => {
                let namespace = call
                    .namespace
                    .as_deref()
                    .and_then(|name| self.namespace(name));
                let facts = Facts {
                    attributes: &attributes,
                    object: None,
                    old,
                    namespace: namespace.as_ref(),
                    find_params: &|kind, reference| self.params(call, kind, reference),
                };
                let merge = |object: &Value, config: &Value| match call.tracker(String::new()) {
                    Ok(tracker) => tracker.merged(object, config),
                    Err(_) => Ok(object.clone()),
                };
                Some(webhooks.policies.mutate(&facts, object, &merge)?)
            }
            other => other,
        };
        let mut warnings = Vec::new();
        let outcome = if is_scale(call) {
            // Webhooks receive only the Scale. Of their changes, only the number of replicas is
            // applied.
            let shown = object
                .as_ref()
                .map(|object| scale::scale_of(call, object))
                .transpose()?;
            let shown_old = old.map(|old| scale::scale_of(call, old)).transpose()?;
            let scaled = chain
                .mutate(shown, shown_old.as_ref(), &apply, &mut warnings)
                .await;
            scaled.and_then(|scaled| scale::with_replicas(call, object, scaled.as_ref()))
        } else {
            chain.mutate(object, old, &apply, &mut warnings).await
        };
        // Includes the warnings of a webhook that denies.
        for warning in warnings {
            call.warn(warning);
        }
        outcome
    }

    /// Returns a Service, for webhooks behind it.
    pub(super) fn find_service(&self, namespace: &str, name: &str) -> Option<Value> {
        let key = Key::new(Some(namespace), name);
        Some(self.store.get("/services", &key)?.value())
    }

    /// Passes a write through the validating webhooks.
    pub(crate) async fn admit_validating(
        &self,
        call: &Call,
        operation: Operation,
        object: Option<&Value>,
        old: Option<&Value>,
        options: &Value,
    ) -> Result<()> {
        let webhooks = self.webhooks();
        if webhooks.is_empty() || call.admission == Admission::Done {
            return Ok(());
        }
        let namespace = self.namespace_labels(call);
        let attributes = self.attributes(call, operation, namespace.as_ref(), options);
        let chain = Chain {
            webhooks: &webhooks,
            caller: &self.caller,
            attributes: &attributes,
            convert: &|object, version| self.in_other_version(call, object, version).boxed(),
            new_uid: &|| self.ids.uid(),
            find_service: &|namespace, name| self.find_service(namespace, name),
        };
        let mut warnings = Vec::new();
        if !webhooks.policies.is_empty() {
            let namespace = call
                .namespace
                .as_deref()
                .and_then(|name| self.namespace(name));
            let facts = Facts {
                attributes: &attributes,
                object,
                old,
                namespace: namespace.as_ref(),
                find_params: &|kind, reference| self.params(call, kind, reference),
            };
            let judged = webhooks.policies.validate(&facts, &mut warnings);
            for warning in warnings.drain(..) {
                call.warn(warning);
            }
            judged?;
        }
        let outcome = if is_scale(call) {
            let shown = object
                .map(|object| scale::scale_of(call, object))
                .transpose()?;
            let shown_old = old.map(|old| scale::scale_of(call, old)).transpose()?;
            chain
                .validate(shown.as_ref(), shown_old.as_ref(), &mut warnings)
                .await
        } else {
            chain.validate(object, old, &mut warnings).await
        };
        for warning in warnings {
            call.warn(warning);
        }
        outcome
    }

    /// Finds the parameters of a policy binding.
    fn params(
        &self,
        call: &Call,
        kind: &ParamKind,
        reference: &ParamRef,
    ) -> std::result::Result<Vec<Value>, String> {
        let (group, version) = kind
            .api_version
            .rsplit_once('/')
            .unwrap_or(("", &kind.api_version));
        let kinds = self.kinds();
        let found = kinds.by_kind(group, &kind.kind).ok_or_else(|| {
            format!(
                "paramKind kind `{}/{version}, Kind={}` not known",
                group, kind.kind
            )
        })?;
        let namespace = match (found.namespaced, reference.namespace.as_str()) {
            (false, _) => None,
            (true, "") => Some(call.namespace.as_deref().ok_or_else(|| {
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned()
            })?),
            (true, given) => Some(given),
        };
        let selector = match &reference.selector {
            Some(selector) => Some(
                LabelSelector::from_object(selector, "spec.paramRef.selector")
                    .map_err(|_| "the selector of paramRef is invalid".to_owned())?,
            ),
            None => None,
        };
        let snapshot = self.store.list(&collection(found), namespace);
        let objects = snapshot
            .objects
            .iter()
            .map(|stored| Self::object(stored, found, version))
            .filter(|object| match &selector {
                Some(selector) => selector.matches(meta::labels(object)),
                None => meta::name(object) == reference.name,
            });
        Ok(objects.collect())
    }

    /// Returns an object of the call in another version.
    async fn in_other_version(&self, call: &Call, object: Value, version: String) -> Result<Value> {
        if is_scale(call) {
            return Ok(object); // a Scale is the same in all versions of the scaled resource
        }
        self.converted(&call.kind, object, &version).await
    }

    fn attributes<'a>(
        &self,
        call: &'a Call,
        operation: Operation,
        namespace_labels: Option<&'a Value>,
        options: &Value,
    ) -> Attributes<'a> {
        let mut options = options.clone();
        if let Some(map) = options.as_object_mut() {
            map.retain(|_, value| !value.is_null());
        }
        Attributes {
            operation,
            kind: &call.kind,
            version: &call.version,
            subresource: call.subresource.as_deref(),
            name: match call.admission {
                Admission::Unnamed => "",
                Admission::Whole | Admission::Done => &call.name,
            },
            namespace: call.namespace.as_deref(),
            namespace_labels,
            options,
            dry_run: call.options.dry_run,
            user: &call.user,
            authorizer: self.authorizer(),
        }
    }

    /// Returns the labels of the namespace, null if it has none, or `None` if it does not exist.
    fn namespace_labels(&self, call: &Call) -> Option<Value> {
        let namespace = self.namespace(call.namespace.as_deref()?)?;
        Some(meta::labels(&namespace).cloned().unwrap_or_default())
    }
}

fn is_scale(call: &Call) -> bool {
    call.subresource.as_deref() == Some("scale")
}
