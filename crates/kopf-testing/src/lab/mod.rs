//! An operator and a sandbox in one process.

mod access;
mod builder;
mod objects;
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
pub use self::objects::ObjectRef;
pub use self::refusal::Refusal;
use self::running::Runner;
use crate::Manifest;
use crate::recording::{Breakpoint, Call, Moment, Recorder};

/// For how long an operator may be busy before the test gives up on it: longer than any request
/// is tried.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The same where seconds are real ones.
const REAL_PATIENCE: Duration = Duration::from_secs(60);

/// An operator and a Kubernetes API of its own, in one process; see the [crate](crate).
///
/// Everything ends when it is dropped; [`finish`](Self::finish) ends it gracefully.
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
/// lab.restart_operator().await; // what it knew is on the object
/// lab.advance(4 * 3600).await;
/// let annotations = &lab.get(&object).await["metadata"]["annotations"];
/// assert!(annotations["kopf.zalando.org/make"].is_null(), "it is done");
/// # lab.finish().await;
/// # }
/// ```
pub struct Lab {
    sandbox: Sandbox,
    access: Access,
    recorder: Recorder,
    runner: Runner,
    paused: bool,
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab")
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

/// Starting and the operator's life.
impl Lab {
    /// Begins a lab: say what is in it, then [`start`](Builder::start) it.
    #[allow(clippy::new_ret_no_self, reason = "a lab without an operator is none")]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Waits until the operator has nothing to do now: all that has happened is seen, handled
    /// and written.
    ///
    /// It may still wait for something: for the next attempt of a handler that failed, for example.
    /// [`advance`](Self::advance) goes on to that. Fails the test if the operator has ended by an
    /// error, or never comes to rest.
    pub async fn settled(&self) {
        // With virtual time, a millisecond passes only when nobody can do anything without it.
        // With real time, this is the best guess.
        let (pause, rounds, patience) = if self.paused {
            (Duration::from_millis(1), 2, PATIENCE)
        } else {
            (Duration::from_millis(10), 10, REAL_PATIENCE)
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
                "the operator does not come to rest: {:?}, {} requests are not answered",
                self.runner,
                self.recorder.pending(),
            );
        }
    }

    /// Lets so much time pass (in seconds, or as a [`Duration`]), with all that happens meanwhile, and waits until the operator has
    /// [settled](Self::settled).
    ///
    /// Fails the test unless time is virtual (`#[tokio::test(start_paused = true)]`).
    pub async fn advance(&self, time: impl IntoDuration) {
        let time = time
            .into_duration()
            .unwrap_or_else(|error| panic!("time cannot be advanced: {error}"));
        assert!(
            self.paused,
            "time is real here: begin the test with #[tokio::test(start_paused = true)]"
        );
        // Not tokio::time::advance, which would jump over all deadlines at once.
        sleep(time).await;
        self.settled().await;
    }

    /// Stops the operator as in production: by asking it to, and with the time it needs.
    pub async fn stop_operator(&self) {
        self.runner.stop().await;
    }

    /// Ends the operator as a power failure would: from now on, nothing of it reaches the API.
    pub async fn kill_operator(&self) {
        self.runner.kill().await;
    }

    /// Starts the operator again, after it was stopped or killed. It knows nothing but what is in
    /// the API.
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
        self.sandbox.shutdown().await;
    }
}

/// What users do to objects. None of it is among the [`calls`](Lab::calls).
impl Lab {
    /// Creates an object, or merges it into the existing one. Returns the object after that.
    ///
    /// Of several objects in the manifest, all are created, and the last one is returned. Namespaces that do not
    /// exist are created. Fails the test if the API refuses an object; see [`try_apply`](Self::try_apply).
    pub async fn apply(&self, manifest: impl Into<Manifest>) -> Value {
        let applied = self.try_apply(manifest).await;
        applied.unwrap_or_else(|refusal| panic!("cannot apply an object: {refusal}"))
    }

    /// As [`apply`](Self::apply), for requests that the API may refuse: by the schema, by an admission handler.
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
    /// The refusal of the API. Objects before the refused one in the manifest are applied.
    pub async fn try_apply(&self, manifest: impl Into<Manifest>) -> Result<Value, Refusal> {
        let mut last = Value::Null;
        for object in manifest.into().into_objects() {
            last = self.access.apply(object).await?;
        }
        Ok(last)
    }

    /// The object as it is now; null if there is none.
    ///
    /// Objects are named by what was given by [`apply`](Self::apply), or by texts: `"kopfexamples/obj"`
    /// for the namespace `default`, or `"kopfexamples/namespace/obj"`.
    pub async fn get(&self, object: impl Into<ObjectRef>) -> Value {
        self.access.get(&object.into()).await
    }

    /// Whether the object exists.
    pub async fn exists(&self, object: impl Into<ObjectRef>) -> bool {
        !self.get(object).await.is_null()
    }

    /// All objects of a kind, in all namespaces: `"kopfexamples"`, `"deployments.apps"`.
    pub async fn list(&self, resource: &str) -> Vec<Value> {
        self.access.list(resource).await
    }

    /// Changes the object by a merge-patch (null removes). Returns the object after that.
    pub async fn patch(&self, object: impl Into<ObjectRef>, patch: Value) -> Value {
        let object = object.into();
        let patched = self.try_patch(object.clone(), patch).await;
        patched.unwrap_or_else(|refusal| panic!("cannot patch {object:?}: {refusal}"))
    }

    /// As [`patch`](Self::patch), for requests that the API may refuse.
    ///
    /// # Errors
    /// The refusal of the API.
    pub async fn try_patch(
        &self,
        object: impl Into<ObjectRef>,
        patch: Value,
    ) -> Result<Value, Refusal> {
        self.access.patch(&object.into(), None, &patch).await
    }

    /// Changes the status of an object whose resource has the subresource `status`, by a merge-patch:
    /// `json!({"status": {…}})`.
    pub async fn patch_status(&self, object: impl Into<ObjectRef>, patch: Value) -> Value {
        let object = object.into();
        let patched = self.try_patch_status(object.clone(), patch).await;
        patched.unwrap_or_else(|refusal| panic!("cannot patch the status of {object:?}: {refusal}"))
    }

    /// As [`patch_status`](Self::patch_status), for requests that the API may refuse.
    ///
    /// # Errors
    /// The refusal of the API.
    pub async fn try_patch_status(
        &self,
        object: impl Into<ObjectRef>,
        patch: Value,
    ) -> Result<Value, Refusal> {
        let subresource = Some("status");
        self.access.patch(&object.into(), subresource, &patch).await
    }

    /// Deletes the object, or marks it for deletion if it has finalizers.
    pub async fn delete(&self, object: impl Into<ObjectRef>) {
        let object = object.into();
        let deleted = self.try_delete(object.clone()).await;
        deleted.unwrap_or_else(|refusal| panic!("cannot delete {object:?}: {refusal}"));
    }

    /// As [`delete`](Self::delete), for requests that the API may refuse.
    ///
    /// # Errors
    /// The refusal of the API; one with the code 404 if the object does not exist.
    pub async fn try_delete(&self, object: impl Into<ObjectRef>) -> Result<(), Refusal> {
        self.access.delete(&object.into()).await
    }

    /// The k8s-events of the object, in their order.
    pub async fn events(&self, object: impl Into<ObjectRef>) -> Vec<Value> {
        self.access.events(&object.into()).await
    }
}

/// Behind the scenes.
impl Lab {
    /// Faults of the API: errors, broken connections, lost events.
    ///
    /// They strike the lab's own requests, too; limit them by verb, kind or number.
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
        self.sandbox.faults()
    }

    /// All that the operator has written so far, k8s-events included.
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
    /// has done it, so that something else can happen at that moment. K8s-events are not counted.
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
    /// lab.kill_operator().await; // it never learns that its write has succeeded
    /// lab.start_operator().await;
    /// lab.settled().await;
    /// assert_eq!(lab.calls().iter().filter(|call| call.verb == "patch").count(), 1);
    /// # }
    /// ```
    pub fn breakpoint(&self, nth: u64, moment: Moment) -> Breakpoint {
        self.recorder.breakpoint(nth, moment)
    }

    /// A client of the API for anything else. What it does is not recorded.
    pub fn client(&self) -> kube::Client {
        self.access.client()
    }

    /// The API.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}
