//! Manifests: from files, folders and stdin to objects in a sandbox.
//!
//! [`Manifests::read`] and [`Manifests::parse`] perform all checks that need no server.
//! [`Manifests::load`] creates the objects in dependency order, through the same API as any other
//! client.

mod client;
mod document;
mod error;
mod kinds;
mod loading;
mod order;
mod owners;
mod parsing;
mod restoring;
mod sections;
mod source;
mod yaml;

use std::path::PathBuf;

#[doc(hidden)]
pub use self::client::segment;
pub use self::error::Error;
pub use self::loading::{Loaded, dropped_owners};

use self::client::Client;
use self::document::Document;
use crate::Sandbox;

/// Parsed objects in the order of their creation.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use kopf_sandbox::manifests::Manifests;
///
/// let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\n";
/// let manifests = Manifests::parse([("settings.yaml", text)])?;
///
/// let sandbox = kopf_sandbox::Sandbox::builder().build()?;
/// let loaded = manifests.load(&sandbox).await?;
/// assert_eq!(loaded[0].object, "namespace/shop"); // created for the next one
/// assert_eq!(loaded[1].object, "configmap/settings");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Manifests {
    documents: Vec<Document>,
}

impl Manifests {
    /// Reads files, folders (all `*.yaml`, `*.yml` and `*.json` in them, recursively) and, for `-`,
    /// stdin.
    pub fn read(names: &[PathBuf]) -> Result<Self, Error> {
        let mut texts = Vec::new();
        for source in source::expand(names)? {
            texts.push((source.name(), source.read()?));
        }
        Self::parse(texts)
    }

    /// Parses documents, given with their names for messages: YAML with any number of documents, or
    /// JSON. Lists are flattened.
    pub fn parse<N: AsRef<str>, T: AsRef<str>>(
        texts: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, Error> {
        let mut documents = Vec::new();
        for (name, text) in texts {
            documents.extend(parsing::parse(name.as_ref(), text.as_ref())?);
        }
        document::reject_duplicates(&documents)?;
        order::sort(&mut documents);
        Ok(Self { documents })
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Creates all objects: CRDs and namespaces first, webhook configurations last, owners before
    /// their dependents. Missing namespaces are created, the status is copied, and owner references
    /// get the new uids.
    ///
    /// Failures do not stop the loading, so that all errors are reported at once. Cancel-safe
    /// between any two objects.
    pub async fn load(&self, sandbox: &Sandbox) -> Result<Vec<Loaded>, Error> {
        loading::load(&Client::new(sandbox.service()), &self.documents).await
    }

    /// Stores all objects unchanged, for dumps of clusters (`kubectl get -A -o yaml`) and
    /// [exports](Sandbox::export): with their uids, status, owner references, field managers and
    /// timestamps.
    ///
    /// Types are checked; other validation, admission webhooks and policies are skipped. Objects of
    /// the same names are replaced, missing namespaces are created, and references to owners that
    /// are not among the objects are dropped. Terminating namespaces and CRDs are stored as not
    /// terminating.
    pub async fn restore(&self, sandbox: &Sandbox) -> Result<Vec<Loaded>, Error> {
        restoring::restore(sandbox, &self.documents).await
    }
}
