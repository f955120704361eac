//! Manifests: from files, folders and stdin to objects in a sandbox.
//!
//! [`Manifests::read`] and [`Manifests::parse`] understand and check all that can be known without a
//! server, before anything starts; [`Manifests::load`] creates the objects in the order in which they
//! need each other. What the server would say of an object is not decided here: objects go through
//! the same API as everybody's.

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

pub use self::error::Error;
pub use self::loading::{Loaded, dropped_owners};

use self::client::Client;
use self::document::Document;
use crate::Sandbox;

/// Objects that are read and not loaded yet, in the order of their creation.
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
/// assert_eq!(loaded[0].object, "namespace/shop"); // made for the next one
/// assert_eq!(loaded[1].object, "configmap/settings");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Manifests {
    documents: Vec<Document>,
}

impl Manifests {
    /// Reads files, folders (all `*.yaml`, `*.yml` and `*.json` in them and below) and, for `-`, stdin.
    pub fn read(names: &[PathBuf]) -> Result<Self, Error> {
        let mut texts = Vec::new();
        for source in source::expand(names)? {
            texts.push((source.name(), source.read()?));
        }
        Self::parse(texts)
    }

    /// Understands texts, given with their names for messages: YAML with any number of documents, or
    /// JSON; lists are taken apart.
    pub fn parse<N: AsRef<str>, T: AsRef<str>>(
        texts: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, Error> {
        let mut documents = Vec::new();
        for (name, text) in texts {
            documents.extend(parsing::parse(name.as_ref(), text.as_ref())?);
        }
        document::refuse_repeated(&documents)?;
        order::sort(&mut documents);
        Ok(Self { documents })
    }

    /// Whether there is nothing to load.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Creates all objects: definitions and namespaces first, webhook configurations last, owners
    /// before what they own. Missing namespaces are created, a status is copied, and references to
    /// owners follow their new uids.
    ///
    /// All are tried, so that one look at the error is enough to mend them all. Can be dropped between
    /// any two objects.
    pub async fn load(&self, sandbox: &Sandbox) -> Result<Vec<Loaded>, Error> {
        loading::load(&Client::new(sandbox.service()), &self.documents).await
    }

    /// Stores all objects as they are, for dumps of clusters (`kubectl get -A -o yaml`) and
    /// [exports](Sandbox::export): with their uids, statuses, owners, field managers and times.
    ///
    /// Types are checked; other rules, admission webhooks and policies are not applied. Objects of the same
    /// names are replaced, missing namespaces are created, and references to owners that are not among the
    /// objects are dropped. Namespaces and CRDs that are terminating are stored as if they were not.
    pub async fn restore(&self, sandbox: &Sandbox) -> Result<Vec<Loaded>, Error> {
        restoring::restore(sandbox, &self.documents).await
    }
}
