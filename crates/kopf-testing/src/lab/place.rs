//! The API of a lab: a sandbox in process, a sandbox over TLS, or a given cluster.

use kopf_sandbox::{Listen, Listening, Sandbox};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The API that a builder asks for.
#[derive(Default)]
pub(super) enum Wanted {
    #[default]
    InProcess,
    OverTls,
    Cluster(Client),
}

impl std::fmt::Debug for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::InProcess => "InProcess",
            Self::OverTls => "OverTls",
            Self::Cluster(_) => "Cluster",
        })
    }
}

/// The API of a running lab.
pub(super) enum Place {
    InProcess(Sandbox),
    /// The listener serves for as long as it exists.
    OverTls(Sandbox, Listening),
    Cluster,
}

impl Place {
    /// Starts the API, and connects to it.
    pub(super) async fn open(wanted: Wanted, seed: Option<u64>) -> (Self, Client) {
        match wanted {
            Wanted::Cluster(client) => (Self::Cluster, client),
            Wanted::InProcess => {
                let sandbox = sandbox(seed);
                let client = Client::new(sandbox.service(), "default");
                (Self::InProcess(sandbox), client)
            }
            Wanted::OverTls => {
                let sandbox = sandbox(seed);
                let listening = sandbox.listen(Listen::default()).await;
                let listening =
                    listening.unwrap_or_else(|error| panic!("the sandbox cannot listen: {error}"));
                let client = connected(&listening).await;
                (Self::OverTls(sandbox, listening), client)
            }
        }
    }

    /// Returns the sandbox. Panics on a given cluster.
    pub(super) fn sandbox(&self) -> &Sandbox {
        match self {
            Self::InProcess(sandbox) | Self::OverTls(sandbox, _) => sandbox,
            Self::Cluster => panic!("the lab runs on a given cluster, which is not a sandbox"),
        }
    }

    pub(super) async fn close(self) {
        match self {
            Self::InProcess(sandbox) => sandbox.shutdown().await,
            Self::OverTls(sandbox, listening) => {
                drop(listening);
                sandbox.shutdown().await;
            }
            Self::Cluster => {}
        }
    }
}

fn sandbox(seed: Option<u64>) -> Sandbox {
    let mut builder = Sandbox::builder();
    if let Some(seed) = seed {
        builder = builder.seed(seed);
    }
    let sandbox = builder.build();
    sandbox.unwrap_or_else(|error| panic!("cannot build the sandbox: {error}"))
}

/// Returns a client with the kubeconfig of a listener.
async fn connected(listening: &Listening) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig())
        .unwrap_or_else(|error| panic!("the kubeconfig of the sandbox is broken: {error}"));
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config =
        config.unwrap_or_else(|error| panic!("cannot use the kubeconfig of the sandbox: {error}"));
    Client::try_from(config)
        .unwrap_or_else(|error| panic!("cannot connect to the sandbox: {error}"))
}
