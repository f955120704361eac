//! The builder of labs.

use std::time::Duration;

use kopf::Operator;
use kopf_sandbox::Sandbox;
use kube::CustomResourceExt;
use serde_json::Value;
use tokio::time::Instant;

use super::access::Access;
use super::running::Runner;
use super::{Lab, Recorder};
use crate::Manifest;

/// A builder of labs; see [`Lab::new`].
///
/// ```
/// use kopf::prelude::*;
/// use kopf_testing::{Lab, manifest};
///
/// async fn create_fn() {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # tokio::time::pause();
/// let operator = Operator::builder().handler(on::create("configmaps", create_fn)).build().unwrap();
/// let lab = Lab::new()
///     .with(manifest!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}}))
///     .operator(operator)
///     .seed(42)
///     .start()
///     .await;
/// assert!(lab.exists("configmaps/obj").await);
/// # lab.finish().await;
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use = "a lab does nothing until `.start().await`"]
pub struct Builder {
    objects: Vec<Value>,
    operator: Option<Operator>,
    seed: Option<u64>,
}

impl Builder {
    /// Installs the CRD of this type, made with [`kopf::resource`] or [`kube::CustomResource`].
    ///
    /// ```
    /// #[kopf::resource(group = "kopf.dev", version = "v1", kind = "KopfExample", namespaced)]
    /// struct KopfExampleSpec {
    ///     field: Option<String>,
    /// }
    ///
    /// let lab = kopf_testing::Lab::new().crd::<KopfExample>();
    /// # let _ = lab;
    /// ```
    pub fn crd<K: CustomResourceExt>(self) -> Self {
        let definition = serde_json::to_value(K::crd())
            .unwrap_or_else(|error| panic!("cannot serialise the CRD: {error}"));
        self.with(definition)
    }

    /// Adds objects that exist before the operator starts: CRDs and any others. See
    /// [`manifest!`](crate::manifest!).
    ///
    /// ```
    /// use kopf_testing::{Lab, manifest};
    ///
    /// let lab = Lab::new()
    ///     .with(manifest!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}}));
    /// # let _ = lab;
    /// ```
    pub fn with(mut self, manifest: impl Into<Manifest>) -> Self {
        self.objects.extend(manifest.into().into_objects());
        self
    }

    /// Sets the operator under test.
    ///
    /// ```
    /// use kopf::prelude::*;
    ///
    /// async fn create_fn() {}
    ///
    /// let operator = Operator::builder().handler(on::create("configmaps", create_fn)).build()?;
    /// let lab = kopf_testing::Lab::new().operator(operator);
    /// # let _ = lab;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn operator(mut self, operator: Operator) -> Self {
        self.operator = Some(operator);
        self
    }

    /// Sets the seed of uids, generated names and faults, to make them reproducible.
    ///
    /// ```
    /// let lab = kopf_testing::Lab::new().seed(42);
    /// # let _ = lab;
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Starts the API, creates the objects, starts the operator, and waits until it watches.
    ///
    /// Existing objects may not be handled yet: see [`Lab::settled`].
    pub async fn start(self) -> Lab {
        let Some(operator) = self.operator else {
            panic!("a lab requires an operator: .operator(…)");
        };
        let mut sandbox = Sandbox::builder();
        if let Some(seed) = self.seed {
            sandbox = sandbox.seed(seed);
        }
        let sandbox = sandbox
            .build()
            .unwrap_or_else(|error| panic!("cannot build the sandbox: {error}"));
        let access = Access::new(kube::Client::new(sandbox.service(), "default"));
        for object in self.objects {
            let applied = access.apply(object).await;
            applied.unwrap_or_else(|refusal| panic!("cannot apply an object: {refusal}"));
        }
        let lab = Lab {
            runner: Runner::new(operator),
            recorder: Recorder::default(),
            paused: is_time_paused(),
            sandbox,
            access,
        };
        lab.start_operator().await;
        lab
    }
}

/// Returns `true` if time is virtual. Tokio has no API for this, but virtual time does not advance
/// during a blocking sleep.
fn is_time_paused() -> bool {
    let before = Instant::now();
    std::thread::sleep(Duration::from_micros(50));
    Instant::now() == before
}
