//! Jobs of the simulated controllers: triggered by writes, timers and scripts.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_sandbox_api::answers::Answers;
use kopf_sandbox_api::cluster::Cluster;
use kopf_sandbox_api::cluster::controllers::Job;
use kopf_sandbox_api::cluster::workloads::Workloads;
use kopf_sandbox_api::status::Result;
use kopf_sandbox_api::store::Key;
use kopf_sandbox_schema::kind::Kind;
use serde_json::Value;

use super::client::{Client, controller};
use super::simulator::Simulator;
use super::{Simulated, namespaces, pods};

impl Simulator {
    /// Creates nodes, and reconciles all existing objects.
    #[doc(hidden)]
    pub fn start(&self, cluster: &Cluster) {
        if self.simulates(Simulated::Pods) || self.simulates(Simulated::DaemonSets) {
            for number in 1..=self.settings.nodes {
                cluster.establish("", "nodes", pods::node(number, &cluster.clock.seconds()));
            }
        }
        for kind in &self.settings.kinds {
            reconcile_all(cluster, *kind);
        }
    }

    /// Runs timers and follows changes of scripts until the server ends.
    #[doc(hidden)]
    pub async fn run(self: Arc<Self>, cluster: Arc<Cluster>) {
        loop {
            tokio::select! {
                biased;
                () = self.scripts.changed() => {
                    for kind in [Simulated::Pods, Simulated::Claims, Simulated::Services] {
                        if self.simulates(kind) {
                            reconcile_all(&cluster, kind);
                        }
                    }
                }
                item = self.timers.next() => {
                    cluster.jobs.push(job(item.kind, item.key));
                }
            }
        }
    }

    /// Reconciles the pods of a namespace if the annotated behaviour of a workload has changed.
    fn follow_behaviour(&self, cluster: &Cluster, kind: Simulated, key: &Key) {
        let is_workload = !matches!(
            kind,
            Simulated::Pods | Simulated::Services | Simulated::Claims | Simulated::Namespaces
        );
        if !is_workload || !self.simulates(Simulated::Pods) {
            return;
        }
        let client = Client::new(cluster, "");
        let workload = client.get(kind.resource(), key);
        if workload.is_some_and(|workload| self.record(&workload)) {
            for stored in client.stored(super::PODS, key.namespace()) {
                cluster.jobs.push(job(Simulated::Pods, stored.key.clone()));
            }
        }
    }

    /// Reconciles an object.
    async fn simulate(&self, cluster: &Cluster, kind: Simulated, key: &Key) -> Result<()> {
        self.follow_behaviour(cluster, kind, key);
        match kind {
            Simulated::Pods => pods::reconcile(cluster, self, key).await,
            Simulated::ReplicaSets => super::replica_sets::reconcile(cluster, self, key).await,
            Simulated::Deployments => super::deployments::reconcile(cluster, self, key).await,
            Simulated::StatefulSets => super::stateful_sets::reconcile(cluster, key).await,
            Simulated::DaemonSets => super::daemon_sets::reconcile(cluster, key).await,
            Simulated::Jobs => super::jobs::reconcile(cluster, self, key).await,
            Simulated::Services => super::services::reconcile(cluster, self, key).await,
            Simulated::Claims => super::claims::reconcile(cluster, self, key).await,
            Simulated::Namespaces => namespaces::reconcile(cluster, key).await,
        }
    }

    /// Returns the job of the namespace of an object, if namespaces are simulated.
    fn namespace_of(&self, key: &Key) -> Option<Job> {
        let kind = Simulated::Namespaces;
        let key = Key::new(None, key.namespace()?);
        self.simulates(kind).then_some(job(kind, key))
    }
}

impl Workloads for Simulator {
    fn consequences(&self, cluster: &Cluster, kind: &Kind, key: &Key, object: &Value) -> Vec<Job> {
        let mut jobs = Vec::new();
        if let Some(kind) = self.kind_of(&kind.group, &kind.plural) {
            jobs.push(job(kind, key.clone()));
        }
        if let Some(owner) = controller(object)
            && let (Some(api_version), Some(owner_kind), Some(name)) = (
                owner["apiVersion"].as_str(),
                owner["kind"].as_str(),
                owner["name"].as_str(),
            )
        {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let plural = format!("{}s", owner_kind.to_lowercase());
            if let Some(kind) = self.kind_of(group, &plural) {
                let key = Key::new(key.namespace(), name);
                jobs.push(job(kind, key));
            }
        }
        match (&*kind.group, &*kind.plural) {
            ("", "pods") if self.simulates(Simulated::Services) => {
                for stored in Client::new(cluster, "").stored(super::SERVICES, key.namespace()) {
                    jobs.push(job(Simulated::Services, stored.key.clone()));
                }
            }
            ("", "serviceaccounts") if &*key.name == namespaces::ACCOUNT => {
                jobs.extend(self.namespace_of(key));
            }
            ("", "configmaps") if &*key.name == namespaces::ROOT_CA => {
                jobs.extend(self.namespace_of(key));
            }
            ("", "nodes") => {
                let kinds = [Simulated::DaemonSets, Simulated::Pods].into_iter();
                for kind in kinds.filter(|kind| self.simulates(*kind)) {
                    jobs.extend(reconciliations(cluster, kind));
                }
            }
            _ => {}
        }
        jobs
    }

    fn forget(&self, uid: &str) {
        self.forget_object(uid);
    }

    fn reconcile_namespaces(&self, cluster: &Cluster) {
        if self.simulates(Simulated::Namespaces) {
            reconcile_all(cluster, Simulated::Namespaces);
        }
    }

    fn reconcile<'a>(
        &'a self,
        cluster: &'a Cluster,
        plural: &'static str,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<()>> {
        let kind = Simulated::ALL
            .into_iter()
            .find(|kind| kind.name() == plural);
        async move {
            match kind {
                Some(kind) => self.simulate(cluster, kind, key).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn answers(&self) -> Option<&Answers> {
        self.simulates(Simulated::Pods).then_some(&self.answers)
    }
}

/// Returns the job that reconciles an object.
fn job(kind: Simulated, key: Key) -> Job {
    let plural = kind.name();
    Job::Workload { plural, key }
}

/// Returns a job for each object of a kind.
fn reconciliations(cluster: &Cluster, kind: Simulated) -> impl Iterator<Item = Job> + use<> {
    let objects = Client::new(cluster, "").stored(kind.resource(), None);
    objects
        .into_iter()
        .map(move |stored| job(kind, stored.key.clone()))
}

fn reconcile_all(cluster: &Cluster, kind: Simulated) {
    for job in reconciliations(cluster, kind) {
        cluster.jobs.push(job);
    }
}
