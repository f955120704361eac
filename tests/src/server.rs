//! The API server under test, and the connection to it.

use std::path::PathBuf;
use std::sync::OnceLock;

use http::Method;
use kube::{
    Client, Config,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use crate::RequestBuilder;

/// The server under test, chosen by the environment variable `KOPF_TEST_API`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// `sandbox`, or unset: one sandbox per test, called in process.
    Sandbox,
    /// `sandbox-tls`: one sandbox per test, over TLS.
    SandboxTls,
    /// `control-plane`: the running kube-apiserver of the kubeconfig file in
    /// `KOPF_TEST_KUBECONFIG`, with its etcd at the URL in `KOPF_TEST_ETCD`. All tests share it.
    ControlPlane,
}

impl Server {
    /// Returns the server selected by the environment. Fails the test if its name is unknown.
    pub fn from_env() -> Self {
        match std::env::var("KOPF_TEST_API").as_deref() {
            Err(_) | Ok("" | "sandbox") => Self::Sandbox,
            Ok("sandbox-tls") => Self::SandboxTls,
            Ok("control-plane") => Self::ControlPlane,
            Ok(other) => {
                panic!("KOPF_TEST_API={other:?}: expected sandbox, sandbox-tls or control-plane")
            }
        }
    }

    /// Returns the variant of this server with a socket, for cases about connections.
    #[must_use]
    pub fn over_tls(self) -> Self {
        match self {
            Self::Sandbox => Self::SandboxTls,
            other => other,
        }
    }
}

/// RBAC of a sandbox; a control plane always checks requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rbac {
    Off,
    On,
}

/// A client and the resources that it needs.
pub(crate) struct Connection {
    pub(crate) client: Client,
    // Only for servers with a socket.
    kubeconfig: Option<Kubeconfig>,
    sandbox: Option<(kopf_sandbox::Sandbox, Option<kopf_sandbox::Listening>)>,
    // Of a sandbox, written on first use.
    kubeconfig_file: OnceLock<kopf_sandbox::KubeconfigFile>,
}

impl Connection {
    pub(crate) async fn open(server: Server, rbac: Rbac) -> Self {
        match server {
            Server::ControlPlane => {
                let file = control_plane_kubeconfig();
                let kubeconfig = Kubeconfig::read_from(&file)
                    .unwrap_or_else(|error| panic!("cannot use {}: {error:?}", file.display()));
                Self {
                    client: client(kubeconfig.clone()).await,
                    kubeconfig: Some(kubeconfig),
                    sandbox: None,
                    kubeconfig_file: OnceLock::new(),
                }
            }
            Server::Sandbox => {
                let sandbox = sandbox(rbac);
                let client = Client::new(sandbox.service(), "default");
                Self {
                    client,
                    kubeconfig: None,
                    sandbox: Some((sandbox, None)),
                    kubeconfig_file: OnceLock::new(),
                }
            }
            Server::SandboxTls => {
                let sandbox = sandbox(rbac);
                let listening = sandbox
                    .listen(kopf_sandbox::Listen::default())
                    .await
                    .unwrap_or_else(|error| panic!("the sandbox cannot listen: {error:?}"));
                let kubeconfig = Kubeconfig::from_yaml(&listening.kubeconfig())
                    .unwrap_or_else(|error| panic!("a broken kubeconfig: {error:?}"));
                Self {
                    client: client(kubeconfig.clone()).await,
                    kubeconfig: Some(kubeconfig),
                    sandbox: Some((sandbox, Some(listening))),
                    kubeconfig_file: OnceLock::new(),
                }
            }
        }
    }

    /// Returns a client without credentials.
    pub(crate) async fn anonymous_client(&self) -> Client {
        let mut kubeconfig = self
            .kubeconfig
            .clone()
            .expect("a case about connections starts over TLS");
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo::default());
        }
        client(kubeconfig).await
    }

    /// Returns the kubeconfig as a file, for other programs.
    pub(crate) fn kubeconfig_path(&self) -> PathBuf {
        let Some((_, listening)) = &self.sandbox else {
            return control_plane_kubeconfig();
        };
        let listening = listening
            .as_ref()
            .expect("a case with other programs starts over TLS");
        let file = self.kubeconfig_file.get_or_init(|| {
            kopf_sandbox::KubeconfigFile::write(None, listening)
                .unwrap_or_else(|error| panic!("cannot write the kubeconfig: {error:?}"))
        });
        file.path().to_owned()
    }

    /// Compacts at least the first version of the server.
    pub(crate) async fn compact(&self) {
        if let Some((sandbox, _)) = &self.sandbox {
            sandbox.compact();
            return;
        }
        let url = std::env::var("KOPF_TEST_ETCD")
            .expect("KOPF_TEST_ETCD is the URL of the etcd of the control plane");
        let url = url
            .parse()
            .unwrap_or_else(|error| panic!("KOPF_TEST_ETCD={url}: {error}"));
        let etcd = Client::try_from(Config::new(url))
            .unwrap_or_else(|error| panic!("no client: {error:?}"));
        // A watch from version 1 begins with 2, hence 3. Later versions are used by other tests.
        let response = RequestBuilder::new(&etcd, Method::POST, "/v3/kv/compaction")
            .json(&json!({"revision": "3"}))
            .send()
            .await;
        let done_before = response.text().contains("has been compacted");
        assert!(response.code == 200 || done_before, "{}", response.text());
    }

    pub(crate) fn sandbox(&self) -> Option<&kopf_sandbox::Sandbox> {
        self.sandbox.as_ref().map(|(sandbox, _)| sandbox)
    }
}

fn control_plane_kubeconfig() -> PathBuf {
    std::env::var_os("KOPF_TEST_KUBECONFIG")
        .expect("KOPF_TEST_KUBECONFIG names the kubeconfig of the control plane")
        .into()
}

fn sandbox(rbac: Rbac) -> kopf_sandbox::Sandbox {
    let builder = kopf_sandbox::Sandbox::builder();
    let builder = match rbac {
        Rbac::Off => builder,
        Rbac::On => builder.rbac(),
    };
    builder
        .build()
        .unwrap_or_else(|error| panic!("no sandbox: {error:?}"))
}

async fn client(kubeconfig: Kubeconfig) -> Client {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap_or_else(|error| panic!("cannot use the kubeconfig: {error:?}"));
    // Cases must see every error.
    config.default_retry = false;
    Client::try_from(config).unwrap_or_else(|error| panic!("no client: {error:?}"))
}
