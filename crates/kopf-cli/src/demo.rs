//! `kopf demo`: the main things that a sandbox does, each with a line of explanation, on a sandbox
//! that lives only for the demo. It ends by itself, and it fails if anything is not as it says.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http_body::Body;
use kopf_sandbox::{Listen, Sandbox};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::client::{Api, Client, Events, Refusal};
use crate::failure::Failure;
use crate::kubeconfig::KubeconfigFile;
use crate::terminal::{Style, Terminal};
use crate::{loading, manifest, table};

const DEFINITION: &str = include_str!("../demo/1-definition.yaml");
const OBJECTS: &str = include_str!("../demo/2-objects.yaml");
const BAKERIES: &str = "/apis/demo.kopf.dev/v1/namespaces/town/bakeries";
const CORNER: &str = "/apis/demo.kopf.dev/v1/namespaces/town/bakeries/corner";

/// An event of the sandbox comes in microseconds: this is for machines in deep trouble only.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(terminal: &Terminal) -> Result<(), Failure> {
    let demo = Demo { terminal };
    demo.step("Start a Kubernetes API in this process");
    let began = Instant::now();
    let sandbox = Sandbox::builder()
        .build()
        .map_err(|error| Failure::new("the sandbox cannot be started", error))?;
    let listening = sandbox
        .listen(Listen::default())
        .await
        .map_err(|error| Failure::new("the sandbox cannot listen", error))?;
    demo.result(&format!(
        "{} is ready after {:.0} ms",
        listening.url(),
        began.elapsed().as_secs_f64() * 1000.0
    ));

    let client = Client::new(sandbox.service());
    demo.load(&client).await?;
    demo.life(&client).await?;

    let kubeconfig = KubeconfigFile::write(None, &listening)?;
    demo.kubectl(kubeconfig.path()).await;
    drop(kubeconfig);
    listening.shutdown().await;
    sandbox.shutdown().await;

    demo.step("That is all: the process ends, and nothing is left of it");
    demo.result("your turn: kopf sandbox -f your-manifests/");
    Ok(())
}

struct Demo<'a> {
    terminal: &'a Terminal,
}

impl Demo<'_> {
    async fn load<A: Api>(&self, client: &Client<A>) -> Result<(), Failure> {
        self.step("Load manifests: a custom resource definition, a namespace, two objects");
        let documents = manifest::read_texts(&[
            ("1-definition.yaml", DEFINITION),
            ("2-objects.yaml", OBJECTS),
        ])?;
        for loaded in loading::load(client, &documents).await? {
            self.result(&loaded.object);
        }
        self.step("The server fills in defaults from the schema: 10 loaves, where none are given");
        self.table(client).await
    }

    /// What happens to an object from its first change to its end, seen by a watcher.
    async fn life<A: Api>(&self, client: &Client<A>) -> Result<(), Failure> {
        self.step("Refuse what the schema does not allow");
        let bad = json!({"apiVersion": "demo.kopf.dev/v1", "kind": "Bakery",
                         "metadata": {"name": "bad"}, "spec": {"bread": "rye", "loaves": -1}});
        match client.create(BAKERIES, &bad).await {
            Ok(_) => return Err(Failure::plain("an object with -1 loaves is not refused")),
            Err(refusal) => self.result(&refusal.to_string()),
        }

        self.step("Watch, as operators do; what follows is seen by the watcher");
        let now = client.get(BAKERIES).await.map_err(refused)?;
        let version = now
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        let path = format!(
            "{BAKERIES}?watch=true&resourceVersion={}",
            version.unwrap_or("0")
        );
        let mut events = client.watch(&path).await.map_err(refused)?;
        self.result("watching bakeries in the namespace town");

        self.step("Change the spec: the generation grows");
        client
            .merge(CORNER, &json!({"spec": {"loaves": 25}}))
            .await
            .map_err(refused)?;
        self.event(&mut events, "MODIFIED").await?;

        self.step(
            "Report a status: the generation stays, so the operator does not react to itself",
        );
        let status = json!({"status": {"state": "baking"}});
        client
            .merge(&format!("{CORNER}/status"), &status)
            .await
            .map_err(refused)?;
        self.event(&mut events, "MODIFIED").await?;
        self.table(client).await?;

        self.step("Delete with a finalizer: the object waits for whoever has to clean up");
        let finalizer = json!({"metadata": {"finalizers": ["demo.kopf.dev/cleanup"]}});
        client.merge(CORNER, &finalizer).await.map_err(refused)?;
        self.event(&mut events, "MODIFIED").await?;
        client.delete(CORNER).await.map_err(refused)?;
        self.event(&mut events, "MODIFIED").await?;

        self.step("Remove the finalizer: now it is gone");
        let done = json!({"metadata": {"finalizers": null}});
        client.merge(CORNER, &done).await.map_err(refused)?;
        self.event(&mut events, "DELETED").await
    }

    /// Waits for the next event, shows it, and fails if it is of another type.
    async fn event<B>(&self, events: &mut Events<B>, expected: &str) -> Result<(), Failure>
    where
        B: Body<Data = bytes::Bytes> + Unpin,
    {
        let event = timeout(PATIENCE, events.next()).await.ok().flatten();
        let event = event.ok_or_else(|| Failure::plain(format!("no {expected} event comes")))?;
        let object = event.get("object").unwrap_or(&Value::Null);
        let text = |pointer: &str| match object.pointer(pointer) {
            None => "-".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or("?");
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        self.result(&format!(
            "{kind:8} {}: generation {}, loaves {}, state {}{}",
            text("/metadata/name"),
            text("/metadata/generation"),
            text("/spec/loaves"),
            text("/status/state"),
            if deleting && kind != "DELETED" {
                ", being deleted"
            } else {
                ""
            },
        ));
        if kind != expected {
            return Err(Failure::plain(format!(
                "the event is {kind} and not {expected}"
            )));
        }
        Ok(())
    }

    async fn table<A: Api>(&self, client: &Client<A>) -> Result<(), Failure> {
        let answer = client.get_table(BAKERIES).await.map_err(refused)?;
        for line in table::render(&answer) {
            self.result(&line);
        }
        Ok(())
    }

    /// If there is kubectl on this machine, it can be used with the sandbox right away.
    async fn kubectl(&self, kubeconfig: &Path) {
        self.step("Use it with kubectl");
        let mut command = Command::new("kubectl");
        command
            .arg("get")
            .arg("namespaces,configmaps")
            .arg("-A")
            .env("KUBECONFIG", kubeconfig);
        // The server answers on other threads, but not in this one while it waits for kubectl.
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let Ok(Ok(output)) = output else {
            self.result("it is not installed here; the demo goes on without it");
            return;
        };
        self.terminal.line(&[(
            Style::Command,
            "   $ KUBECONFIG=… kubectl get namespaces,configmaps -A",
        )]);
        for bytes in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(bytes).lines() {
                self.result(line);
            }
        }
    }

    fn step(&self, text: &str) {
        self.terminal
            .line(&[(Style::Good, "=> "), (Style::Strong, text)]);
    }

    fn result(&self, text: &str) {
        self.terminal.plain(format!("   {text}").trim_end());
    }
}

fn refused(refusal: Refusal) -> Failure {
    Failure::new("the sandbox refuses what it should do", refusal)
}
