//! `kopf sandbox`: starts a sandbox, loads manifests, and runs a command or waits for a signal.

use std::future::Future;
use std::path::Path;
use std::process::ExitCode;

use kopf_sandbox::manifests::{self, Loaded, Manifests};
use kopf_sandbox::simulation::{Answer, Simulation};
use kopf_sandbox::{Cleanup, KubeconfigFile, Listen, Listening, Sandbox};

use crate::args::SandboxOptions;
use crate::child;
use crate::dump::counted;
use crate::failure::{Failure, of_manifests};
use crate::shutdown::ShutdownSignal;
use kopf_inspect::{Screen, Style};

/// Number of loaded objects that are printed.
const MAX_LISTED: usize = 20;

/// The initial objects of a sandbox.
pub(crate) struct Content {
    pub(crate) manifests: Manifests,
    /// Objects that are stored unchanged.
    pub(crate) dumps: Manifests,
}

/// Runs until a signal or the exit of the command. Prints nothing to stdout before all fallible
/// steps have succeeded.
pub(crate) async fn run(
    options: &SandboxOptions,
    content: Content,
    terminal: &Screen,
) -> Result<ExitCode, Failure> {
    // Before the kubeconfig exists: it is removed after any signal.
    let mut signal = ShutdownSignal::catch()
        .map_err(|error| Failure::new("cannot install signal handlers", &error))?;
    let mut builder = Sandbox::builder();
    if options.rbac {
        builder = builder.rbac();
    }
    if let Some(folder) = &options.data {
        builder = builder.data(folder);
    }
    if let Some(seed) = options.seed {
        builder = builder.seed(seed);
    }
    for service in &options.service {
        builder = builder.service(service.clone());
    }
    if let Some(simulation) = simulation(options)? {
        builder = builder.simulate(simulation);
    }
    let faults = options.faults.as_deref().map(read).transpose()?;
    let sandbox = builder
        .build()
        .map_err(|error| Failure::new("cannot start the sandbox", &error))?;
    let start = async {
        let mut loaded = content
            .dumps
            .restore(&sandbox)
            .await
            .map_err(of_manifests)?;
        let manifests = content.manifests.load(&sandbox).await;
        loaded.extend(manifests.map_err(of_manifests)?);
        Ok((loaded, listen(&sandbox, options).await?))
    };
    let (loaded, listening) = unless_interrupted(signal.wait(), start).await?;
    drop(content);
    if let (Some(rules), Some(path)) = (faults, &options.faults) {
        // After the manifests are loaded: faults apply to clients only.
        let loaded = sandbox.faults().load(&rules);
        loaded.map_err(|error| {
            Failure::new(format!("invalid faults in {}", path.display()), &error)
                .advise("see kopf sandbox --help for the names of faults")
        })?;
    }
    let kubeconfig = write_kubeconfig(options.kubeconfig.as_deref(), &listening)?;

    if !options.address.is_loopback() {
        terminal.warning(&format!(
            "listening on {}, not only on loopback: any host that can reach this machine can \
             connect; requests require the credentials of the kubeconfig",
            options.address,
        ));
    }
    let sources = || options.filename.iter().chain(&options.dump);
    if sources().next().is_some() && loaded.is_empty() {
        let names: Vec<_> = sources().map(|name| shown(name)).collect();
        terminal.warning(&format!("no objects to load in {}", names.join(", ")));
    }
    if let Some(warning) = manifests::dropped_owners(&loaded) {
        terminal.warning(&warning);
    }
    if let [program, arguments @ ..] = options.command.as_slice() {
        signal.release();
        let code = child::run(program, arguments, kubeconfig.path()).await;
        drop(kubeconfig);
        listening.shutdown().await;
        sandbox.shutdown().await;
        return code;
    }
    greet(
        terminal,
        &listening,
        &kubeconfig,
        &loaded,
        options.data.as_deref(),
    );

    signal.wait().await;
    let cleanup = kubeconfig.cleanup();
    drop(kubeconfig);
    listening.shutdown().await;
    sandbox.shutdown().await;
    terminal.plain(&farewell(cleanup, options.data.as_deref()));
    Ok(ExitCode::SUCCESS)
}

/// Returns the simulation with its timing and answers.
fn simulation(options: &SandboxOptions) -> Result<Option<Simulation>, Failure> {
    let Some(mut simulation) = options.simulate.clone() else {
        return Ok(None);
    };
    if let Some(delay) = options.ready_after {
        simulation = simulation.ready_after(delay);
    }
    if let Some(path) = &options.answers {
        let answers = Answer::parse(&read(path)?).map_err(|error| {
            Failure::new(format!("invalid answers in {}", path.display()), &error)
                .advise("see kopf sandbox --help for the fields of answers")
        })?;
        simulation = simulation.answers(answers);
    }
    Ok(Some(simulation))
}

fn farewell(cleanup: Cleanup, data: Option<&Path>) -> String {
    let objects = match data {
        Some(folder) => format!("the objects are kept in {}", folder.display()),
        None if cleanup == Cleanup::Removed => {
            return "stopped; the objects and the kubeconfig are removed".to_owned();
        }
        None => "the objects are removed".to_owned(),
    };
    let kubeconfig = match cleanup {
        Cleanup::Removed => "the kubeconfig is removed",
        Cleanup::Replaced => "the kubeconfig is kept: it belongs to another server",
        _ => "the kubeconfig is kept but no longer valid",
    };
    format!("stopped; {objects}, {kubeconfig}")
}

/// Cancels the start on a signal: large manifests take seconds to load.
async fn unless_interrupted<T>(
    signal: impl Future<Output = ()>,
    start: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        () = signal => Err(Failure::plain("interrupted before the sandbox was ready")
            .because("it is stopped")),
        result = start => result,
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("cannot read {}", path.display()), &error))
}

fn shown(name: &Path) -> String {
    if name == Path::new("-") {
        "stdin".to_owned()
    } else {
        name.display().to_string()
    }
}

async fn listen(sandbox: &Sandbox, options: &SandboxOptions) -> Result<Listening, Failure> {
    let mut listen = Listen::default();
    listen.address = options.address;
    listen.port = options.port;
    let place = format!("{} port {}", options.address, options.port);
    sandbox.listen(listen).await.map_err(|error| {
        Failure::new(format!("cannot listen on {place}"), &error).advise(
            "check that the port is free and that this machine has the address; without --port, \
             a free port is selected",
        )
    })
}

/// Writes the kubeconfig to the chosen file, or to the default one.
fn write_kubeconfig(
    chosen: Option<&Path>,
    listening: &Listening,
) -> Result<KubeconfigFile, Failure> {
    KubeconfigFile::write(chosen, listening).map_err(|error| {
        let path = chosen.map_or_else(|| KubeconfigFile::default_path(listening), Path::to_owned);
        Failure::new(
            format!("cannot write the kubeconfig {}", path.display()),
            &error,
        )
        .advise("choose another file with --kubeconfig")
    })
}

fn greet(
    terminal: &Screen,
    listening: &Listening,
    kubeconfig: &KubeconfigFile,
    loaded: &[Loaded],
    data: Option<&Path>,
) {
    let path = kubeconfig.path().display().to_string();
    terminal.line(&[
        (Style::Strong, "kopf sandbox"),
        (
            Style::Plain,
            " is ready: a Kubernetes API in memory, without nodes",
        ),
    ]);
    terminal.line(&[
        (Style::Faint, "  listens on  "),
        (Style::Good, listening.url()),
    ]);
    terminal.line(&[(Style::Faint, "  kubeconfig  "), (Style::Plain, &path)]);
    if let Some(folder) = data {
        let folder = folder.display().to_string();
        terminal.line(&[(Style::Faint, "  data        "), (Style::Plain, &folder)]);
    }
    if !loaded.is_empty() {
        let objects = counted(loaded.len());
        terminal.line(&[(Style::Faint, &format!("  loaded      {objects}"))]);
        for Loaded {
            object,
            namespace,
            place,
            ..
        } in loaded.iter().take(MAX_LISTED)
        {
            let namespace = namespace
                .as_ref()
                .map(|name| format!(" in {name}"))
                .unwrap_or_default();
            terminal.line(&[
                (Style::Plain, &format!("    {object}{namespace}")),
                (Style::Faint, &format!(" ({place})")),
            ]);
        }
        if let Some(more @ 1..) = loaded.len().checked_sub(MAX_LISTED) {
            terminal.line(&[(Style::Faint, &format!("    … and {more} more"))]);
        }
    }
    terminal.plain("");
    terminal.plain("In another terminal:");
    terminal.line(&[(
        Style::Command,
        &format!("  export KUBECONFIG={}", kubeconfig.quoted_path()),
    )]);
    terminal.line(&[(Style::Command, "  kubectl get namespaces")]);
    terminal.line(&[(Style::Command, "  kubectl api-resources")]);
    terminal.plain("");
    terminal.plain(match data {
        Some(_) => "Ctrl-C ends it; the objects are kept.",
        None => "Ctrl-C ends it, and all objects with it.",
    });
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_start_can_be_interrupted() {
        let failure = unless_interrupted(ready(()), pending::<Result<(), _>>()).await;
        assert_eq!(
            failure.unwrap_err().to_string(),
            "interrupted before the sandbox was ready: it is stopped"
        );
        let result = unless_interrupted(pending(), ready(Ok(5))).await;
        assert_eq!(result.unwrap(), 5);
    }
}
