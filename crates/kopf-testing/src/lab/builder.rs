//! The builder of labs.

use std::time::Duration;

use kopf::Operator;
use kopf_explore::scenario::Scenario;
use kube::CustomResourceExt;
use serde_json::Value;
use tokio::time::Instant;

use super::access::Access;
use super::exploring::Exploring;
use super::place::{Place, Wanted};
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
    place: Wanted,
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

    /// Serves the sandbox over TLS on a free port, and connects the operator and the lab to it, as in
    /// production.
    ///
    /// Sockets need real time: the lab panics if time is virtual.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let operator = Operator::builder().handler(on::create("configmaps", make)).build().unwrap();
    /// let lab = kopf_testing::Lab::new().over_tls().operator(operator).start().await;
    /// # lab.finish().await;
    /// # }
    /// ```
    pub fn over_tls(mut self) -> Self {
        self.place = Wanted::OverTls;
        self
    }

    /// Uses this cluster instead of a sandbox, such as a local one made with kind.
    ///
    /// The lab leaves its objects there. A cluster has neither faults nor virtual time;
    /// [`Lab::faults`] and [`Lab::sandbox`] panic.
    ///
    /// ```no_run
    /// # use kopf::prelude::*;
    /// # async fn make() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let operator = Operator::builder().handler(on::create("configmaps", make)).build()?;
    /// let client = kube::Client::try_default().await?;
    /// let lab = kopf_testing::Lab::new().cluster(client).operator(operator).start().await;
    /// # Ok(()) }
    /// ```
    pub fn cluster(mut self, client: kube::Client) -> Self {
        self.place = Wanted::Cluster(client);
        self
    }

    /// Explores the operator instead of starting it: the scenario is repeated with one thing going wrong
    /// each time, on a sandbox of its own.
    ///
    /// With virtual time, thousands of runs take a minute, and the [seed](Self::seed) repeats them exactly.
    /// Values that were given to the operator as [state](kopf::OperatorBuilder::state) survive its crashes.
    ///
    /// ```
    /// use kopf::prelude::*;
    /// use kopf_testing::explore::deviation::Family;
    /// use kopf_testing::explore::scenario;
    ///
    /// async fn note() -> kopf::Result<&'static str> { Ok("done") }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// let operator =
    ///     Operator::builder().handler(on::create("configmaps", note).id("note")).build().unwrap();
    /// let steps = "
    /// steps:
    /// - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: '1'}}
    /// ";
    /// kopf_testing::Lab::new()
    ///     .operator(operator)
    ///     .explore(scenario::parse("steps", steps).unwrap())
    ///     .only([Family::CrashAfter, Family::Reject])
    ///     .passes()
    ///     .await;
    /// # }
    /// ```
    pub fn explore(self, scenario: Scenario) -> Exploring {
        let Some(operator) = self.operator else {
            panic!("an exploration requires an operator: .operator(…)");
        };
        assert!(
            matches!(self.place, Wanted::InProcess),
            "an exploration is in process: it needs neither TLS nor a cluster"
        );
        Exploring::new(
            operator,
            &self.objects,
            scenario,
            self.seed,
            is_time_paused(),
        )
    }

    /// Starts the API, creates the objects, starts the operator, and waits until it watches.
    ///
    /// Existing objects may not be handled yet: see [`Lab::settled`].
    pub async fn start(self) -> Lab {
        let Some(operator) = self.operator else {
            panic!("a lab requires an operator: .operator(…)");
        };
        let paused = is_time_paused();
        assert!(
            !(paused && matches!(self.place, Wanted::OverTls)),
            "time is virtual, and sockets need real time: start the test with #[tokio::test]"
        );
        let (place, client) = Place::open(self.place, self.seed).await;
        let access = Access::new(client);
        for object in self.objects {
            let applied = access.apply(object).await;
            applied.unwrap_or_else(|refusal| panic!("cannot apply an object: {refusal}"));
        }
        let lab = Lab {
            runner: Runner::new(operator),
            recorder: Recorder::default(),
            paused,
            place,
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
