//! The commands, one per file.

mod explain;
mod get;
mod release;
mod retrigger;

use kopf_core::body::Body;
use kopf_core::resource::Resource;

use crate::INTERRUPTED;
use crate::args::{Command, NamespaceArgs, ScopeArgs};
use crate::cluster::Cluster;
use crate::failure::{Failure, request_failure};
use crate::object_ref::ObjectRef;
use crate::screen::Screen;
use crate::ui;
use crate::writing::absent;

/// Runs a command. Returns the exit code.
pub(crate) async fn run(command: &Command, screen: &Screen) -> Result<u8, Failure> {
    let running = async {
        match command {
            Command::Get(args) => get::run(args, screen).await,
            Command::Explain(args) => explain::run(args, screen).await,
            Command::Retrigger(args) => retrigger::run(args, screen).await,
            Command::Release(args) => release::run(args, screen).await,
            Command::Ui(args) => ui::run(args, screen).await,
        }
    };
    let code = tokio::select! {
        result = running => {
            result?;
            0
        }
        // Without a handler, Ctrl-C ends the process.
        Ok(()) = tokio::signal::ctrl_c() => match command {
            Command::Ui(_) => 0,
            _ => INTERRUPTED,
        },
    };
    Ok(code)
}

impl NamespaceArgs {
    /// Returns the namespace of an object; `None` for cluster-scoped resources.
    fn of(&self, cluster: &Cluster, resource: &Resource) -> Option<String> {
        let given = || self.namespace.clone();
        let namespace = || given().unwrap_or_else(|| cluster.namespace());
        resource.namespaced.then(namespace)
    }
}

impl ScopeArgs {
    /// Returns the namespace of a listing; `None` for all namespaces and cluster-scoped resources.
    fn of(&self, cluster: &Cluster, resource: &Resource) -> Option<String> {
        let given = || self.namespace.clone();
        let namespace = || given().unwrap_or_else(|| cluster.namespace());
        (resource.namespaced && !self.all_namespaces).then(namespace)
    }
}

/// Reads an object that must exist.
async fn need(cluster: &Cluster, object: ObjectRef<'_>) -> Result<Body, Failure> {
    let found = cluster
        .get(object.resource, object.namespace, object.name)
        .await
        .map_err(|error| request_failure(format!("cannot read {object}"), &error))?;
    found.ok_or_else(|| absent(object))
}
