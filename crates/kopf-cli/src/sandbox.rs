//! `kopf sandbox`: starts a sandbox, loads manifests into it, says how to use it, waits for the end.

use kopf_sandbox::{Listen, Listening, Sandbox};

use crate::args::SandboxOptions;
use crate::client::Client;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::kubeconfig::KubeconfigFile;
use crate::loading::{self, Loaded};
use crate::manifest::Document;
use crate::terminal::{Style, Terminal};

/// Runs until a signal. Everything that can fail does so before the first word of success.
pub(crate) async fn run(
    options: &SandboxOptions,
    documents: Vec<Document>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    // Before the kubeconfig exists, so that a signal at any time leaves nothing behind.
    let mut ending =
        Ending::catch().map_err(|error| Failure::new("signals cannot be caught", error))?;
    let sandbox = Sandbox::builder()
        .build()
        .map_err(|error| Failure::new("the sandbox cannot be started", error))?;
    let loaded = loading::load(&Client::new(sandbox.service()), &documents).await?;
    drop(documents);

    let listening = listen(&sandbox, options).await?;
    let kubeconfig = KubeconfigFile::write(options.kubeconfig.as_deref(), &listening)?;

    if !options.address.is_loopback() {
        terminal.warning(&format!(
            "listening on {} and not only on loopback: everybody who can reach this machine can \
             connect; only those with the kubeconfig are let in",
            options.address,
        ));
    }
    greet(terminal, &listening, &kubeconfig, &loaded);

    ending.wait().await;
    let removed = kubeconfig.is_removed_at_the_end();
    drop(kubeconfig);
    listening.shutdown().await;
    sandbox.shutdown().await;
    terminal.plain(if removed {
        "stopped; the objects and the kubeconfig are gone"
    } else {
        "stopped; the objects are gone, the kubeconfig is left and of no use any more"
    });
    Ok(())
}

async fn listen(sandbox: &Sandbox, options: &SandboxOptions) -> Result<Listening, Failure> {
    let listen = Listen {
        address: options.address,
        port: options.port,
        ..Listen::default()
    };
    let place = format!("{} port {}", options.address, options.port);
    sandbox.listen(listen).await.map_err(|error| {
        Failure::new(format!("cannot listen on {place}"), error).advise(
            "see that nobody else uses the port and that the address is of this machine; without \
             --port, a free one is taken",
        )
    })
}

fn greet(
    terminal: &Terminal,
    listening: &Listening,
    kubeconfig: &KubeconfigFile,
    loaded: &[Loaded],
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
    if !loaded.is_empty() {
        let objects = if loaded.len() == 1 {
            "object"
        } else {
            "objects"
        };
        terminal.line(&[(
            Style::Faint,
            &format!("  loaded      {} {objects}", loaded.len()),
        )]);
        for Loaded {
            object,
            namespace,
            place,
        } in loaded
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
    }
    terminal.plain("");
    terminal.plain("In another terminal:");
    terminal.line(&[(
        Style::Command,
        &format!("  export KUBECONFIG={}", quoted(&path)),
    )]);
    terminal.line(&[(Style::Command, "  kubectl get namespaces")]);
    terminal.line(&[(Style::Command, "  kubectl api-resources")]);
    terminal.plain("");
    terminal.plain("Ctrl-C ends it, and all objects with it.");
}

/// The text as one word for a shell.
fn quoted(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !text.is_empty() && text.chars().all(harmless) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn paths_can_be_pasted_into_a_shell() {
        assert_eq!(
            quoted("/run/user/1/kopf.kubeconfig"),
            "/run/user/1/kopf.kubeconfig"
        );
        assert_eq!(quoted("/my files/it's"), r"'/my files/it'\''s'");
    }
}
