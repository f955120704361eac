//! `kopf completions` and `kopf manual`: files for shells and for `man`, made from the command line.

use std::io::Write as _;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::{Args, CompletionsOptions, ManualOptions};
use crate::failure::Failure;

/// Prints the completions for a shell.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    // The generator panics if it cannot write, so it writes to memory.
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut visible(), "kopf", &mut text);
    let written = std::io::stdout().lock().write_all(&text);
    written.map_err(|error| Failure::new("cannot print the completions", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each command, such as `kopf-sandbox-export.1`.
pub(crate) fn manual(options: &ManualOptions) -> Result<ExitCode, Failure> {
    let folder = &options.folder;
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(visible(), folder));
    let what = format!("cannot write manual pages to {}", folder.display());
    written.map_err(|error| Failure::new(what, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command line without hidden commands, which the generators would list.
fn visible() -> clap::Command {
    let command = Args::command();
    let hidden: Vec<String> = command
        .get_subcommands()
        .filter(|command| command.is_hide_set())
        .map(|command| command.get_name().to_owned())
        .collect();
    let kept: Vec<clap::Command> = command
        .get_subcommands()
        .filter(|command| !hidden.iter().any(|name| name == command.get_name()))
        .cloned()
        .collect();
    let mut all = clap::Command::new("kopf")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommands(kept);
    if let Some(about) = command.get_about() {
        all = all.about(about.clone());
    }
    if let Some(text) = command.get_after_help() {
        all = all.after_help(text.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visible_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man");
        manual(&ManualOptions {
            folder: pages.clone(),
        })
        .unwrap();
        for (page, text) in [
            ("kopf.1", "kopf\\-sandbox(1)"),
            ("kopf-sandbox.1", "simulate"),
            ("kopf-sandbox-export.1", "output"),
        ] {
            let content = std::fs::read_to_string(pages.join(page)).unwrap();
            assert!(content.contains(text), "{page}: {content}");
        }
        assert!(!pages.join("kopf-manual.1").exists());
    }

    #[test]
    fn completions_contain_commands_and_options() {
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Fish,
            clap_complete::Shell::Zsh,
        ] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut visible(), "kopf", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(
                text.contains("sandbox") && text.contains("simulate"),
                "{shell}"
            );
            assert!(!text.contains("manual"), "{shell}");
        }
    }
}
