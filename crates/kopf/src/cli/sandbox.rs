//! `run --sandbox`: the operator with a Kubernetes API server of its own, in the same process.
//!
//! The operator talks to it without a socket; kubectl finds it behind a port of this machine. All of
//! it ends with the process.

use std::io::Write as _;
use std::path::Path;

use kopf_client::Client;
use kopf_sandbox::manifests::{self, Loaded, Manifests};
use kopf_sandbox::{KubeconfigFile, Listen, Listening, Sandbox};

use super::failure::Failure;
use super::options::SandboxOptions;

/// A sandbox whose objects are read and which is not started yet.
pub(super) struct Prepared {
    manifests: Manifests,
    port: u16,
}

impl Prepared {
    /// Bad manifests leave nothing behind, because nothing has been started.
    pub(super) fn read(options: &SandboxOptions) -> Result<Self, Failure> {
        let SandboxOptions { filenames, port } = options;
        let manifests = Manifests::read(filenames)?;
        if !filenames.is_empty() && manifests.is_empty() {
            let names: Vec<_> = filenames.iter().map(|name| shown(name)).collect();
            tracing::warn!("There is nothing to load in {}.", names.join(", "));
        }
        Ok(Self {
            manifests,
            port: *port,
        })
    }

    /// Starts it with all its objects.
    pub(super) async fn start(self) -> Result<Embedded, Failure> {
        let sandbox = Sandbox::builder()
            .build()
            .map_err(|error| Failure::new("The sandbox cannot be started", &error))?;
        let loaded = self.manifests.load(&sandbox).await?;
        if let Some(warning) = manifests::dropped_owners(&loaded) {
            tracing::warn!("{warning}");
        }
        let listen = Listen {
            port: self.port,
            ..Listen::default()
        };
        let listening = sandbox.listen(listen).await.map_err(|error| {
            Failure::new("The sandbox cannot be reached by others", &error).advise(
                "see that nobody else uses the port; without --sandbox-port, a free one is taken",
            )
        })?;
        let kubeconfig = KubeconfigFile::write(None, &listening)
            .map_err(|error| Failure::new("The kubeconfig is not written", &error))?;
        Ok(Embedded {
            sandbox,
            listening,
            kubeconfig,
            loaded,
        })
    }
}

fn shown(name: &Path) -> String {
    if name == Path::new("-") {
        "stdin".to_owned()
    } else {
        name.display().to_string()
    }
}

/// A sandbox that runs. The kubeconfig goes with it, however it ends.
pub(super) struct Embedded {
    sandbox: Sandbox,
    listening: Listening,
    kubeconfig: KubeconfigFile,
    loaded: Vec<Loaded>,
}

impl Embedded {
    pub(super) fn client(&self) -> Client {
        Client::from_service(self.sandbox.service(), "default")
    }

    /// Says how to use it, on stdout: it is not a part of the log.
    pub(super) fn greet(&self) {
        // Nobody may be there to read it.
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
               loaded      {loaded}\n\
             In another terminal:\n  \
               export KUBECONFIG={}\n  \
               kubectl get all -A\n  \
               kopf ui\n\
             Ctrl-C ends it, and all objects with it.\n",
            self.listening.url(),
            self.kubeconfig.path().display(),
            self.kubeconfig.quoted_path(),
        )
    }

    pub(super) async fn shutdown(self) {
        drop(self.kubeconfig);
        self.listening.shutdown().await;
        self.sandbox.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_manifests_are_found_before_anything_starts() {
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
    async fn the_greeting_leads_to_the_sandbox_and_nothing_is_left() {
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
        let version = embedded.client().get_json("/version").await.unwrap();
        assert!(version["gitVersion"].is_string());
        assert!(path.exists());
        embedded.shutdown().await;
        assert!(!path.exists());
    }
}
