//! `kopf ui`: objects, operators and errors on a local web page.
//!
//! Objects and their events are watched; a row per object is kept in memory, and sent to the page
//! as server-sent events. Bodies are not kept: the details of an object are read when it is opened.

mod access;
mod api;
mod rows;
mod server;
mod stream;
mod watching;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kopf_client::discovery::{Groups, Scan};
use kopf_core::peering::GROUPS;
use kopf_core::resource::Resource;
use tokio::net::TcpListener;

use self::access::Access;
use self::api::Api;
use self::rows::Rows;
use crate::args::UiArgs;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kinds::{full, resolve};
use crate::screen::Screen;
use crate::storages::Storages;

pub(crate) async fn run(args: &UiArgs, screen: &Screen) -> Result<(), Failure> {
    let storages = args.common.storages()?;
    let cluster = args.common.connect().await?;
    let page = Page::open(cluster, storages, &args.kinds, args.port).await?;
    screen.print(&format!(
        "Watching {}\nOpen {}\nCtrl-C ends it.\n",
        page.resources().join(", "),
        page.url()
    ));
    page.serve(args.namespace()).await;
    Ok(())
}

/// The web page of `kopf ui`, on the loopback interface.
#[derive(Debug)]
pub struct Page {
    listener: TcpListener,
    api: Arc<Api>,
}

impl Page {
    /// Discovers the resources and binds the port. Requests wait until [`serve`](Self::serve) runs.
    ///
    /// Without names of resources, the page shows all custom resources that exist now. With the
    /// port 0, it has a free one.
    ///
    /// # Errors
    /// If the cluster cannot be read, if it does not have these resources, or if the port is in use.
    pub async fn open(
        cluster: Cluster,
        storages: Storages,
        names: &[String],
        port: u16,
    ) -> Result<Self, Failure> {
        let scan = cluster.scan(&Groups::All).await?;
        let kinds = chosen(names, &scan)?;
        if kinds.is_empty() {
            return Err(Failure::plain("the cluster has no custom resources")
                .advise("apply a CRD, or specify the resources: kopf ui KIND…"));
        }
        let listener = listen(port).await?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::new("cannot listen", &error))?;
        let access = Access::new(address.port())
            .map_err(|_| Failure::plain("cannot create a token: the system has no randomness"))?;
        let api = Arc::new(Api {
            cluster,
            storages,
            kinds: kinds.into_iter().map(Arc::new).collect(),
            rows: Rows::default(),
            access,
        });
        Ok(Self { listener, api })
    }

    /// Returns the URL with its token.
    pub fn url(&self) -> String {
        self.api.access.url()
    }

    /// Returns the names of the resources.
    pub fn resources(&self) -> Vec<String> {
        self.api.kinds.iter().map(|kind| full(kind)).collect()
    }

    /// Watches the resources and serves the page until it is dropped.
    pub async fn serve(self, namespace: Option<&str>) {
        let Self { listener, api } = self;
        tokio::select! {
            () = watching::run(&api, namespace) => {}
            () = server::serve(listener, Arc::clone(&api)) => {}
        }
    }
}

async fn listen(port: u16) -> Result<TcpListener, Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(format!("cannot listen on {address}"), &error)
            .advise("choose another --port, or 0 for a free one")
    })
}

/// Returns the named resources, or all custom ones that can be watched.
fn chosen(names: &[String], scan: &Scan) -> Result<Vec<Resource>, Failure> {
    let mut kinds: Vec<Resource> = Vec::new();
    if names.is_empty() {
        kinds.extend(scan.resources.iter().filter(|one| is_custom(one)).cloned());
        return Ok(kinds);
    }
    for name in names {
        let resource = resolve(name, scan)?;
        if !kinds.iter().any(|known| full(known) == full(&resource)) {
            kinds.push(resource);
        }
    }
    Ok(kinds)
}

/// Returns `true` unless the group has no dot or ends with `k8s.io`: those are Kubernetes' own.
fn is_custom(resource: &Resource) -> bool {
    let group = resource.group.as_str();
    let is_builtin = !group.contains('.') || group.ends_with(".k8s.io");
    let is_watched = ["list", "watch"]
        .iter()
        .all(|verb| resource.verbs.contains(*verb));
    let is_peering = GROUPS.contains(&group) && resource.plural.ends_with("peerings");
    resource.preferred && is_watched && !is_builtin && !is_peering
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, plural: &str) -> Resource {
        Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            verbs: ["list", "watch"].map(str::to_owned).into(),
            preferred: true,
            ..Resource::default()
        }
    }

    #[test]
    fn custom_resources_are_chosen_by_default() {
        let scan = Scan {
            resources: vec![
                resource("", "pods"),
                resource("apps", "deployments"),
                resource("coordination.k8s.io", "leases"),
                resource("kopf.dev", "kopfpeerings"),
                resource("kopf.dev", "kopfexamples"),
                resource("example.com", "bakeries"),
            ],
            failed: Vec::new(),
        };
        let names = |chosen: Vec<Resource>| chosen.iter().map(full).collect::<Vec<_>>();
        let all = chosen(&[], &scan).unwrap();
        assert_eq!(
            names(all),
            ["kopfexamples.kopf.dev", "bakeries.example.com"]
        );
        let named = ["pods", "bakeries", "pods"].map(str::to_owned);
        assert_eq!(
            names(chosen(&named, &scan).unwrap()),
            ["pods", "bakeries.example.com"]
        );
        assert!(chosen(&["absent".to_owned()], &scan).is_err());
    }
}
