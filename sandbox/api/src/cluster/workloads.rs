//! The interface to controllers of workloads, which a layer above implements.

use std::fmt;

use futures::future::BoxFuture;
use kopf_sandbox_schema::kind::Kind;
use serde_json::Value;

use super::Cluster;
use super::controllers::Job;
use crate::answers::Answers;
use crate::status::Result;
use crate::store::Key;

/// Controllers of workloads. They write through the verbs, and are triggered by
/// [jobs](Job::Workload).
pub trait Workloads: fmt::Debug + Send + Sync {
    /// Returns jobs for the objects that a write affects. Called before the write; the jobs are
    /// queued after it.
    fn consequences(&self, cluster: &Cluster, kind: &Kind, key: &Key, object: &Value) -> Vec<Job>;

    /// Removes the state of a deleted object.
    fn forget(&self, uid: &str);

    /// Reconciles all namespaces, after the certificate authority was published.
    fn reconcile_namespaces(&self, cluster: &Cluster);

    /// Reconciles an object of the workload with this plural name.
    fn reconcile<'a>(
        &'a self,
        cluster: &'a Cluster,
        plural: &'static str,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<()>>;

    /// Returns the answers of containers, if they are simulated.
    fn answers(&self) -> Option<&Answers>;
}
