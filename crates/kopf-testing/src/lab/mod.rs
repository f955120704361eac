//! An operator and a sandbox in one process.

mod access;
mod builder;
mod exploring;
mod objects;
mod place;
mod refusal;
mod running;

use std::fmt;
use std::time::Duration;

use kopf::IntoDuration;
use kopf_sandbox::Sandbox;
use kopf_sandbox::fault::Faults;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use self::access::Access;
pub use self::builder::Builder;
pub use self::exploring::Exploring;
pub use self::objects::ObjectRef;
use self::place::Place;
pub use self::refusal::Refusal;
use self::running::Runner;
use crate::Manifest;
use crate::recording::{Breakpoint, Call, Moment, Recorder};

/// Time limit for an operator to settle; exceeds the retries of any request.
const VIRTUAL_TIMEOUT: Duration = Duration::from_secs(3600);
/// Time limit in real time.
const REAL_TIMEOUT: Duration = Duration::from_secs(60);

/// An operator and its own Kubernetes API in one process; see the [crate](crate).
///
/// Dropping it stops both; [`finish`](Self::finish) shuts them down gracefully.
///
/// ```
/// use kopf::prelude::*;
/// use kopf_testing::{Lab, manifest};
///
/// async fn make(Retry(retry): Retry) -> kopf::Result<()> {
///     if retry < 3 { Err(kopf::temporary("not yet").delay(3600)) } else { Ok(()) }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # tokio::time::pause();
/// let operator =
///     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
/// let lab = Lab::new().operator(operator).start().await;
/// let object = lab
///     .apply(manifest!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}}))
///     .await;
/// lab.settled().await;
/// assert!(lab.get(&object).await["metadata"]["annotations"]["kopf.zalando.org/make"].is_string());
///
/// lab.restart_operator().await; // its progress is stored on the object
/// lab.advance(4 * 3600).await;
/// let annotations = &lab.get(&object).await["metadata"]["annotations"];
/// assert!(annotations["kopf.zalando.org/make"].is_null(), "the handler is finished");
/// # lab.finish().await;
/// # }
/// ```
pub struct Lab {
    place: Place,
    access: Access,
    recorder: Recorder,
    runner: Runner,
    paused: bool,
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab")
            .field("operator", &self.runner)
            .finish_non_exhaustive()
    }
}

/// The lifecycle of the lab and the operator.
impl Lab {
    /// Returns a builder. Configure and [`start`](Builder::start) it.
    #[allow(clippy::new_ret_no_self, reason = "a lab requires an operator")]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Waits until the operator is idle: all events are received and handled, and all patches are
    /// sent.
    ///
    /// It may still wait for deadlines, such as the next attempt of a failed handler;
    /// [`advance`](Self::advance) lets these pass. Panics if the operator failed or does not
    /// settle.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// lab.apply(manifest).await;
    /// lab.settled().await; // the creation is handled
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn settled(&self) {
        // Virtual time advances by a millisecond only when all tasks are idle. In real time, this
        // is a heuristic.
        let (pause, rounds, patience) = if self.paused {
            (Duration::from_millis(1), 2, VIRTUAL_TIMEOUT)
        } else {
            (Duration::from_millis(10), 10, REAL_TIMEOUT)
        };
        let since = Instant::now();
        let mut quiet = 0;
        while quiet < rounds {
            let before = self.recorder.requests();
            sleep(pause).await;
            self.runner.check();
            let busy = !self.runner.is_settled() || self.recorder.pending() > 0;
            quiet = if busy || self.recorder.requests() != before {
                0
            } else {
                quiet + 1
            };
            assert!(
                since.elapsed() < patience,
                "the operator does not settle: {:?}, {} pending requests",
                self.runner,
                self.recorder.pending(),
            );
        }
    }

    /// Waits until the object satisfies a condition, and returns it. A missing object is null. `what`
    /// completes the sentence "timed out waiting for the object to be …".
    ///
    /// Prefer [`settled`](Self::settled) in virtual time. On a [cluster](Builder::cluster), other
    /// controllers may still act when the operator has settled.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// let object = lab.apply(manifest).await;
    /// lab.until(&object, "handled", |object| object["metadata"]["annotations"].is_object()).await;
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn until(
        &self,
        object: impl Into<ObjectRef>,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let reference = object.into();
        // An hour of virtual time takes as many requests as a minute of real time.
        let (patience, longest) = if self.paused {
            (VIRTUAL_TIMEOUT, Duration::from_secs(5))
        } else {
            (REAL_TIMEOUT, Duration::from_millis(200))
        };
        let since = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            let object = self.access.get(&reference).await;
            if is_so(&object) {
                return object;
            }
            self.runner.check();
            assert!(
                since.elapsed() < patience,
                "timed out waiting for the object to be {what}: {object:#}"
            );
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Lets this time pass (in seconds, or as a [`Duration`]) with all events in it, and waits
    /// until the operator has [settled](Self::settled).
    ///
    /// Panics unless time is virtual (`#[tokio::test(start_paused = true)]`).
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// lab.advance(24 * 3600).await; // takes milliseconds
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn advance(&self, time: impl IntoDuration) {
        let time = time
            .into_duration()
            .unwrap_or_else(|error| panic!("cannot advance the time: {error}"));
        assert!(
            self.paused,
            "time is real: start the test with #[tokio::test(start_paused = true)]"
        );
        // `tokio::time::advance` would skip all deadlines at once.
        sleep(time).await;
        self.settled().await;
    }

    /// Stops the operator gracefully, as in production.
    pub async fn stop_operator(&self) {
        self.runner.stop().await;
    }

    /// Kills the operator, as by a power failure: none of its requests reach the API any more.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// lab.kill_operator().await;
    /// lab.apply(manifest).await; // unnoticed
    /// lab.start_operator().await;
    /// lab.settled().await; // handled as a creation
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn kill_operator(&self) {
        self.runner.kill().await;
    }

    /// Starts the operator after it was stopped or killed. Its only state is in the API.
    pub async fn start_operator(&self) {
        self.runner.start(&self.access, &self.recorder).await;
    }

    /// Stops the operator and starts it again.
    pub async fn restart_operator(&self) {
        self.stop_operator().await;
        self.start_operator().await;
    }

    /// Stops the operator and the API.
    pub async fn finish(self) {
        self.runner.stop().await;
        drop(self.access);
        self.place.close().await;
    }
}

/// Requests of users. They are not among the [`calls`](Lab::calls).
impl Lab {
    /// Creates an object, or merges it into the existing one. Returns the result.
    ///
    /// Of several objects in the manifest, all are created, and the last one is returned. Missing
    /// namespaces are created. Panics if the API rejects an object; see
    /// [`try_apply`](Self::try_apply).
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// let object = lab.apply(manifest).await;
    /// assert_eq!(object["metadata"]["namespace"], "default");
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn apply(&self, manifest: impl Into<Manifest>) -> Value {
        let applied = self.try_apply(manifest).await;
        applied.unwrap_or_else(|refusal| panic!("cannot apply an object: {refusal}"))
    }

    /// Like [`apply`](Self::apply), for requests that the API may reject, such as by the schema or
    /// by an admission handler.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// let invalid = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A B"}});
    /// let refusal = lab.try_apply(invalid).await.unwrap_err();
    /// assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
    /// # lab.finish().await;
    /// # }
    /// ```
    ///
    /// # Errors
    /// The rejection by the API. Earlier objects in the manifest remain applied.
    pub async fn try_apply(&self, manifest: impl Into<Manifest>) -> Result<Value, Refusal> {
        let mut last = Value::Null;
        for object in manifest.into().into_objects() {
            last = self.access.apply(object).await?;
        }
        Ok(last)
    }

    /// Returns the object; null if it does not exist.
    ///
    /// Objects are identified by the result of [`apply`](Self::apply), or by strings:
    /// `"kopfexamples/obj"` in the namespace `default`, or `"kopfexamples/namespace/obj"`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// lab.apply(manifest).await;
    /// assert_eq!(lab.get("configmaps/obj").await["kind"], "ConfigMap");
    /// assert!(lab.get("configmaps/other/obj").await.is_null());
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn get(&self, object: impl Into<ObjectRef>) -> Value {
        self.access.get(&object.into()).await
    }

    /// Returns `true` if the object exists.
    pub async fn exists(&self, object: impl Into<ObjectRef>) -> bool {
        !self.get(object).await.is_null()
    }

    /// Returns all objects of a resource in all namespaces: `"kopfexamples"`, `"deployments.apps"`.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// lab.apply(manifest).await;
    /// assert_eq!(lab.list("configmaps").await.len(), 1);
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn list(&self, resource: &str) -> Vec<Value> {
        self.access.list(resource).await
    }

    /// Changes the object by a merge-patch (null removes). Returns the result.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// let object = lab.apply(manifest).await;
    /// let patched = lab.patch(&object, json!({"data": {"key": "value"}})).await;
    /// assert_eq!(patched["data"]["key"], "value");
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn patch(&self, object: impl Into<ObjectRef>, patch: Value) -> Value {
        let object = object.into();
        let patched = self.try_patch(object.clone(), patch).await;
        patched.unwrap_or_else(|refusal| panic!("cannot patch {object:?}: {refusal}"))
    }

    /// Like [`patch`](Self::patch), for requests that the API may reject.
    ///
    /// # Errors
    /// The rejection by the API.
    pub async fn try_patch(
        &self,
        object: impl Into<ObjectRef>,
        patch: Value,
    ) -> Result<Value, Refusal> {
        self.access.patch(&object.into(), None, &patch).await
    }

    /// Changes the status of an object by a merge-patch, `json!({"status": {…}})`. The resource
    /// must have the subresource `status`.
    pub async fn patch_status(&self, object: impl Into<ObjectRef>, patch: Value) -> Value {
        let object = object.into();
        let patched = self.try_patch_status(object.clone(), patch).await;
        patched.unwrap_or_else(|refusal| panic!("cannot patch the status of {object:?}: {refusal}"))
    }

    /// Like [`patch_status`](Self::patch_status), for requests that the API may reject.
    ///
    /// # Errors
    /// The rejection by the API.
    pub async fn try_patch_status(
        &self,
        object: impl Into<ObjectRef>,
        patch: Value,
    ) -> Result<Value, Refusal> {
        let subresource = Some("status");
        self.access.patch(&object.into(), subresource, &patch).await
    }

    /// Deletes the object, or marks it for deletion if it has finalizers.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// let object = lab.apply(manifest).await;
    /// lab.settled().await;
    /// lab.delete(&object).await;
    /// lab.settled().await;
    /// assert!(!lab.exists(&object).await);
    /// # lab.finish().await;
    /// # }
    /// ```
    pub async fn delete(&self, object: impl Into<ObjectRef>) {
        let object = object.into();
        let deleted = self.try_delete(object.clone()).await;
        deleted.unwrap_or_else(|refusal| panic!("cannot delete {object:?}: {refusal}"));
    }

    /// Like [`delete`](Self::delete), for requests that the API may reject.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}});
    /// let refusal = lab.try_delete("configmaps/unknown").await.unwrap_err();
    /// assert_eq!(refusal.code, 404);
    /// # lab.finish().await;
    /// # }
    /// ```
    ///
    /// # Errors
    /// The rejection by the API; with the code 404 if the object does not exist.
    pub async fn try_delete(&self, object: impl Into<ObjectRef>) -> Result<(), Refusal> {
        self.access.delete(&object.into()).await
    }

    /// Returns the k8s-events of the object, in their order.
    pub async fn events(&self, object: impl Into<ObjectRef>) -> Vec<Value> {
        self.access.events(&object.into()).await
    }
}

/// Faults, records and breakpoints.
impl Lab {
    /// Returns the faults of the API: errors, broken connections, lost events.
    ///
    /// They affect the requests of the lab as well; limit them by verb, kind or number. Panics if the
    /// lab runs on a given [`cluster`](Builder::cluster).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # async fn make() {}
    /// # let handler = kopf::on::create("configmaps", make);
    /// # let operator = kopf::Operator::builder().handler(handler).build().unwrap();
    /// use kopf_sandbox::fault::{Fault, Verb};
    ///
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// lab.faults().inject(Fault::error(503).verb(Verb::Patch).times(2));
    /// lab.faults().kill_watches();
    /// # }
    /// ```
    pub fn faults(&self) -> &Faults {
        self.place.sandbox().faults()
    }

    /// Returns all writes of the operator so far, including k8s-events.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// # lab.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}})).await;
    /// lab.settled().await;
    /// let patches: Vec<_> = lab.calls().into_iter().filter(|call| call.verb == "patch").collect();
    /// assert_eq!(patches.len(), 1);
    /// assert_eq!(patches[0].name.as_deref(), Some("obj"));
    /// # }
    /// ```
    pub fn calls(&self) -> Vec<Call> {
        self.recorder.calls()
    }

    /// Stops the operator's `nth` write from now on (the first is 1), before or after the server
    /// executes it, to test concurrent events. K8s-events are not counted.
    ///
    /// ```
    /// # use kopf::prelude::*;
    /// # async fn make() -> kopf::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # tokio::time::pause();
    /// # let operator =
    /// #     Operator::builder().handler(on::create("configmaps", make).id("make")).build().unwrap();
    /// # let lab = kopf_testing::Lab::new().operator(operator).start().await;
    /// use kopf_testing::recording::Moment;
    ///
    /// let written = lab.breakpoint(1, Moment::After);
    /// lab.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "obj"}})).await;
    /// written.reached().await;
    /// lab.kill_operator().await; // it does not receive the response
    /// lab.start_operator().await;
    /// lab.settled().await;
    /// assert_eq!(lab.calls().iter().filter(|call| call.verb == "patch").count(), 1);
    /// # }
    /// ```
    pub fn breakpoint(&self, nth: u64, moment: Moment) -> Breakpoint {
        self.recorder.breakpoint(nth, moment)
    }

    /// Returns a client of the API for other requests, which are not recorded.
    pub fn client(&self) -> kube::Client {
        self.access.client()
    }

    /// Returns the sandbox. Panics if the lab runs on a given [`cluster`](Builder::cluster).
    pub fn sandbox(&self) -> &Sandbox {
        self.place.sandbox()
    }
}
