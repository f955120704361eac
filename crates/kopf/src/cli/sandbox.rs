//! `run --sandbox`: the operator with an embedded Kubernetes API server.
//!
//! The operator calls it without a socket; kubectl connects to a local port, and browsers to the
//! page of `kopf ui`. It stops with the process.

use std::io::Write as _;
use std::path::Path;

use kopf_client::Client;
use kopf_engine::inspect::Inspect;
use kopf_engine::invocation::Registry;
use kopf_inspect::{Cluster, Page, PageHandle, PageOperator, Storages};
use kopf_sandbox::manifests::{self, Loaded, Manifests};
use kopf_sandbox::{KubeconfigFile, Listen, Listening, Sandbox};
use tokio::task::JoinSet;

use super::failure::{Failure, of_manifests};
use super::options::SandboxOptions;

/// A sandbox with its manifests, before the start.
pub(super) struct Prepared {
    manifests: Manifests,
    port: u16,
}

impl Prepared {
    /// Reads the manifests. Nothing is started yet, so that invalid manifests need no cleanup.
    pub(super) fn read(options: &SandboxOptions) -> Result<Self, Failure> {
        let SandboxOptions { filenames, port } = options;
        let manifests = Manifests::read(filenames).map_err(of_manifests)?;
        if !filenames.is_empty() && manifests.is_empty() {
            let names: Vec<_> = filenames.iter().map(|name| shown(name)).collect();
            tracing::warn!("No objects to load in {}.", names.join(", "));
        }
        Ok(Self {
            manifests,
            port: *port,
        })
    }

    /// Starts the sandbox and loads the objects.
    pub(super) async fn start(self) -> Result<Embedded, Failure> {
        let sandbox = Sandbox::builder()
            .build()
            .map_err(|error| Failure::new("The sandbox cannot be started", &error))?;
        let loaded = self.manifests.load(&sandbox).await.map_err(of_manifests)?;
        if let Some(warning) = manifests::dropped_owners(&loaded) {
            tracing::warn!("{warning}");
        }
        let mut listen = Listen::default();
        listen.port = self.port;
        let listening = sandbox.listen(listen).await.map_err(|error| {
            Failure::new("The sandbox cannot listen", &error).advise(
                "check that the port is free; without --sandbox-port, any free port is used",
            )
        })?;
        let kubeconfig = KubeconfigFile::write(None, &listening)
            .map_err(|error| Failure::new("The kubeconfig cannot be written", &error))?;
        let mut tasks = JoinSet::new();
        let (page, handle) = open_page(&sandbox, &mut tasks).await?;
        Ok(Embedded {
            sandbox,
            listening,
            kubeconfig,
            loaded,
            page,
            handle,
            tasks,
        })
    }
}

/// Serves the page of `kopf ui`. Returns its URL and a reference to it.
async fn open_page(
    sandbox: &Sandbox,
    tasks: &mut JoinSet<()>,
) -> Result<(String, PageHandle), Failure> {
    let cluster = Cluster::new(&Client::from_service(sandbox.service(), "default"));
    let page = Page::open(cluster, Storages::default(), &[], 0).await;
    let page =
        page.map_err(|error| Failure::new("The page of kopf ui cannot be opened", &error))?;
    let (url, handle) = (page.url(), page.handle());
    tasks.spawn(async move { page.serve(None).await });
    Ok((url, handle))
}

fn shown(name: &Path) -> String {
    if name == Path::new("-") {
        "stdin".to_owned()
    } else {
        name.display().to_string()
    }
}

/// A running sandbox. The kubeconfig is deleted when it is dropped.
pub(super) struct Embedded {
    sandbox: Sandbox,
    listening: Listening,
    kubeconfig: KubeconfigFile,
    loaded: Vec<Loaded>,
    /// The URL of the page of `kopf ui`.
    page: String,
    handle: PageHandle,
    tasks: JoinSet<()>,
}

impl Embedded {
    pub(super) fn client(&self) -> Client {
        Client::from_service(self.sandbox.service(), "default")
    }

    /// Shows the objects of the operator on the page when its settings are final.
    pub(super) fn show(&mut self, inspect: Inspect, registry: Registry) {
        let page = self.handle.clone();
        self.tasks.spawn(async move {
            let settings = inspect.known_settings().await;
            page.adopt(PageOperator::new(settings, registry));
        });
    }

    /// Prints the usage to stdout, which is separate from the log.
    pub(super) fn greet(&self) {
        // Stdout may be closed.
        let _ = std::io::stdout()
            .lock()
            .write_all(self.greeting().as_bytes());
    }

    fn greeting(&self) -> String {
        let loaded = match self.loaded.len() {
            1 => "1 object".to_owned(),
            count => format!("{count} objects"),
        };
        format!(
            "The operator runs on a sandbox: a Kubernetes API in memory, without nodes.\n  \
               listens on  {}\n  \
               kubeconfig  {}\n  \
               loaded      {loaded}\n  \
               browser     {}\n\
             In another terminal:\n  \
               export KUBECONFIG={}\n  \
               kubectl get all -A\n\
             Ctrl-C ends it, and all objects with it.\n",
            self.listening.url(),
            self.kubeconfig.path().display(),
            self.page,
            self.kubeconfig.quoted_path(),
        )
    }

    pub(super) async fn shutdown(mut self) {
        drop(self.kubeconfig);
        self.tasks.shutdown().await;
        self.listening.shutdown().await;
        self.sandbox.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_manifests_are_rejected_before_the_start() {
        let options = SandboxOptions {
            filenames: vec!["absent.yaml".into()],
            port: 0,
        };
        let failure = Prepared::read(&options).map(|_| ()).unwrap_err();
        assert!(
            format!("{failure:?}").contains("cannot read absent.yaml"),
            "{failure:?}"
        );
    }

    #[tokio::test]
    async fn greeting_names_the_kubeconfig_which_is_deleted_at_shutdown() {
        let prepared = Prepared::read(&SandboxOptions::default()).unwrap();
        let embedded = prepared.start().await.unwrap();
        let path = embedded.kubeconfig.path().to_owned();
        let greeting = embedded.greeting();
        assert!(
            greeting.contains(&format!("\n  kubeconfig  {}\n", path.display())),
            "{greeting}"
        );
        assert!(
            greeting.contains("\n  loaded      0 objects\n"),
            "{greeting}"
        );
        let page = greeting.split_once("\n  browser     http://").unwrap().1;
        let (address, _) = page.split_once('/').unwrap();
        std::net::TcpStream::connect(address).unwrap();
        let version = embedded.client().get_json("/version").await.unwrap();
        assert!(version["gitVersion"].is_string());
        assert!(path.exists());
        embedded.shutdown().await;
        assert!(!path.exists());
    }
}
