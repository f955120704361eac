//! `kopf demo`: an operator on a sandbox, and the life cycle of an object, step by step.
//!
//! With `--once`, the demo exits after the last step. Otherwise, it runs until Ctrl-C.

mod bakeries;
mod handlers;
mod log;
mod story;

use kopf::kube;
use kopf_sandbox::manifests::Manifests;
use kopf_sandbox::{KubeconfigFile, Listen, Listening, Sandbox};
use tokio::time::Instant;

use self::bakeries::Bakeries;
use self::story::Story;
use crate::args::DemoOptions;
use crate::failure::{Failure, of_manifests};
use crate::shutdown::ShutdownSignal;
use kopf_inspect::{Cluster, Page, Screen, Storages, Style};

const DEFINITION: &str = include_str!("../../demo/1-definition.yaml");

pub(crate) async fn run(options: &DemoOptions, terminal: &Screen) -> Result<(), Failure> {
    let mut signal = ShutdownSignal::catch()
        .map_err(|error| Failure::new("cannot install signal handlers", &error))?;
    let began = Instant::now();
    let sandbox = Sandbox::builder()
        .build()
        .map_err(|error| Failure::new("cannot start the sandbox", &error))?;
    let client = kube::Client::new(sandbox.service(), "default");
    let story = Story {
        terminal,
        sandbox: &sandbox,
        bakeries: Bakeries::new(client.clone()),
    };
    let listening = sandbox
        .listen(Listen::default())
        .await
        .map_err(|error| Failure::new("cannot listen on loopback", &error))?;
    let definition = Manifests::parse([("1-definition.yaml", DEFINITION)]).map_err(of_manifests)?;
    definition.load(&sandbox).await.map_err(of_manifests)?;
    story.step("A Kubernetes API in this process, with a custom resource: bakeries");
    let elapsed = began.elapsed().as_secs_f64() * 1000.0;
    story.explain(&format!(
        "{} is ready after {elapsed:.0} ms",
        listening.url()
    ));

    story.handlers();
    log::show();
    let operator = kopf::Operator::builder()
        .handlers_from_macros()
        .all_namespaces()
        .build()
        .map_err(|error| Failure::new("cannot build the operator", &error))?;
    let running = operator
        .start(client)
        .await
        .map_err(|error| Failure::new("cannot start the operator", &error))?;

    // No state is persisted: cancelling at any step loses nothing.
    let result = tokio::select! {
        () = signal.wait() => Ok(()),
        result = play(options, &story, &listening) => result,
    };
    let stopped = running.stop().await;
    listening.shutdown().await;
    drop(story);
    sandbox.shutdown().await;
    result?;
    stopped.map_err(|error| Failure::new("the operator failed", &error))?;
    terminal.plain("stopped; nothing is kept");
    Ok(())
}

async fn play(
    options: &DemoOptions,
    story: &Story<'_>,
    listening: &Listening,
) -> Result<(), Failure> {
    story.run().await?;
    if options.once {
        return Ok(());
    }
    story.recreate().await?;
    let kubeconfig = KubeconfigFile::write(None, listening)
        .map_err(|error| Failure::new("cannot write the kubeconfig", &error))?;
    let cluster = Cluster::connect(Some(kubeconfig.path().to_owned()), None).await?;
    let page = Page::open(cluster, Storages::default(), &[], 0).await?;
    invite(story.terminal, &kubeconfig, &page.url());
    page.serve(None).await;
    std::future::pending().await
}

fn invite(terminal: &Screen, kubeconfig: &KubeconfigFile, page: &str) {
    terminal.line(&[
        (Style::Good, "=> "),
        (
            Style::Strong,
            "Your turn, in another terminal; Ctrl-C here stops everything",
        ),
    ]);
    for command in [
        &format!("export KUBECONFIG={}", kubeconfig.quoted_path()),
        "kubectl -n town get bakeries,events",
        r#"kubectl -n town patch bakery corner --type merge -p '{"spec": {"loaves": 50}}'"#,
        "kubectl -n town delete bakery corner",
        "kopf explain bakery corner -n town",
    ] {
        terminal.line(&[(Style::Command, &format!("     {command}"))]);
    }
    terminal.line(&[
        (Style::Good, "=> "),
        (Style::Strong, "Or in a browser (`kopf ui`): "),
        (Style::Command, page),
    ]);
}
