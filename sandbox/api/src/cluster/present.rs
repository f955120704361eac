//! Conversion of stored objects to the version of a request, under the current schema.
//!
//! Objects of kinds with a conversion webhook are converted on reading by
//! [`Cluster::in_version`]. Later steps handle them like objects stored in that version.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use kopf_sandbox_kinds::conversion;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::schema::Structural;
use serde_json::Value;

use super::Cluster;
use crate::conversion as webhook;
use crate::status::Result;
use crate::store::Stored;

/// Maximum number of concurrent conversions of one list.
const AT_ONCE: usize = 8;

impl Cluster {
    /// Returns `true` if clients of this version receive the stored bytes unchanged.
    pub(crate) fn is_as_stored(stored: &Stored, kind: &Arc<Kind>, version: &str) -> bool {
        Arc::ptr_eq(&stored.kind, kind) && &*stored.version == version
    }

    /// Returns the object in a version of its kind.
    pub fn object(stored: &Stored, kind: &Arc<Kind>, version: &str) -> Value {
        let mut object = stored.value();
        if !Self::is_as_stored(stored, kind, version) {
            conversion::convert(&mut object, &stored.kind, &stored.version, kind, version);
            // The schema may have changed since the write: new defaults apply immediately.
            if let Some(schema) = schema(kind, version) {
                schema.default(&mut object);
                schema.prune(&mut object);
            }
        }
        object
    }

    /// Returns the serialised object in a version of its kind.
    pub fn bytes(stored: &Stored, kind: &Arc<Kind>, version: &str) -> Bytes {
        if Self::is_as_stored(stored, kind, version) {
            return stored.raw.clone();
        }
        Bytes::from(Self::object(stored, kind, version).to_string())
    }

    /// Converts the object to a version of its kind by the webhook of its CRD.
    ///
    /// Objects that need no webhook are returned unchanged.
    pub(crate) async fn in_version(
        &self,
        stored: &Arc<Stored>,
        kind: &Arc<Kind>,
        version: &str,
    ) -> Result<Arc<Stored>> {
        if kind.conversion_webhook.is_none() || &*stored.version == version {
            return Ok(Arc::clone(stored));
        }
        let mut object = stored.value();
        if let Some(schema) = schema(kind, &stored.version) {
            schema.default(&mut object);
        }
        let object = self.converted(kind, object, version).await?;
        Ok(Arc::new(stored.converted(kind, version, object)))
    }

    /// Converts several objects, in order.
    pub(crate) async fn all_in_version(
        &self,
        stored: Vec<Arc<Stored>>,
        kind: &Arc<Kind>,
        version: &str,
    ) -> Result<Vec<Arc<Stored>>> {
        if kind.conversion_webhook.is_none() {
            return Ok(stored);
        }
        let conversions = stored.into_iter().map(|stored| async move {
            let converted = self.in_version(&stored, kind, version);
            converted.await
        });
        futures::stream::iter(conversions)
            .buffered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Converts an object to another version of its kind, by the webhook of the CRD if it has one.
    pub(crate) async fn converted(
        &self,
        kind: &Kind,
        mut object: Value,
        version: &str,
    ) -> Result<Value> {
        let Some(webhook) = &kind.conversion_webhook else {
            let from = object.get("apiVersion").and_then(Value::as_str);
            let from = from.and_then(|text| text.rsplit('/').next());
            let from = from.unwrap_or_default().to_owned();
            conversion::convert(&mut object, kind, &from, kind, version);
            return Ok(object);
        };
        let uid = self.ids.uid();
        let find_service = |namespace: &str, name: &str| self.find_service(namespace, name);
        let converting = webhook::convert(
            &self.caller,
            webhook,
            kind,
            object,
            version,
            &uid,
            &find_service,
        );
        let mut object = converting.await?;
        if let Some(schema) = schema(kind, version) {
            schema.prune(&mut object);
        }
        Ok(object)
    }
}

fn schema<'a>(kind: &'a Kind, version: &str) -> Option<&'a Arc<Structural>> {
    kind.version(version)?.schema.as_ref()
}
