//! `kopf ui`: objects, operators and errors on a local web page.
//!
//! Objects and their events are watched; a row per object is kept in memory, and sent to the page
//! as server-sent events. Bodies are not kept: the details of an object are read when it is opened.

mod access;
mod api;
mod operator;
mod rows;
mod server;
mod stream;
mod watched;
mod watching;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kopf_client::discovery::Groups;
use kopf_core::sync::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use self::access::Access;
use self::api::Api;
pub use self::operator::{PageHandle, PageOperator};
use self::rows::Rows;
use self::watched::Watched;
use crate::args::UiArgs;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::storages::Storages;

pub(crate) async fn run(args: &UiArgs, screen: &Screen) -> Result<(), Failure> {
    let storages = args.common.storages()?;
    let cluster = args.common.connect().await?;
    let page = Page::open(cluster, storages, &args.kinds, args.port).await?;
    let mut resources = page.resources().join(", ");
    if resources.is_empty() {
        "custom resources; there are none yet".clone_into(&mut resources);
    }
    screen.print(&format!(
        "Watching {resources}\nOpen {}\nCtrl-C ends it.\n",
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
    /// Without names of resources, the page shows all custom resources, also those that are defined
    /// later. With the port 0, it has a free one.
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
        let watched = Watched::new(names, &scan)?;
        let listener = listen(port).await?;
        let address = listener
            .local_addr()
            .map_err(|error| Failure::new("cannot listen", &error))?;
        let access = Access::new(address.port())
            .map_err(|_| Failure::plain("cannot create a token: the system has no randomness"))?;
        let api = Arc::new(Api {
            cluster,
            storages,
            operator: Mutex::default(),
            adopted: Notify::new(),
            watched,
            rows: Rows::default(),
            access,
        });
        Ok(Self { listener, api })
    }

    /// Returns the URL with its token.
    pub fn url(&self) -> String {
        self.api.access.url()
    }

    /// Returns a reference to the page, for the operator of the same process.
    pub fn handle(&self) -> PageHandle {
        PageHandle(Arc::clone(&self.api))
    }

    /// Returns the names of the resources.
    pub fn resources(&self) -> Vec<String> {
        self.api.watched.names()
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
