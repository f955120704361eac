//! What is refused: command lines that make no sense, and what the original has and this has not.
//!
//! What is asked for and cannot be done is refused with the reason, never ignored.

use super::args::RunArgs;
use super::environment::{self, Environment};

/// A command line that makes no sense or asks for what is not there. The exit code is 2.
#[derive(Debug, thiserror::Error)]
pub(super) enum Usage {
    #[error("Either --namespace or --all-namespaces can be used, not both.")]
    BothScopes,
    #[error(transparent)]
    Environment(#[from] environment::Error),
    #[error("{source}")]
    Namespace {
        #[from]
        source: kopf_core::namespace::Error,
    },
    #[error("{option} is not available yet: it comes with {feature}")]
    NotYet {
        option: &'static str,
        feature: &'static str,
    },
    #[error(
        "{option} cannot be used here: the handlers are compiled into this program, there is \
         nothing to load"
    )]
    CompiledIn { option: String },
    #[error("{option} is of use only with --sandbox")]
    OnlyWithSandbox { option: &'static str },
    #[cfg(not(feature = "sandbox"))]
    #[error(
        "--sandbox cannot be used here: this program is built without the feature `sandbox` of \
         the crate kopf"
    )]
    NoSandbox,
}

const PEERING: &str = "peering";
const PROBES: &str = "health probes";

/// Refuses what the original has and this does not have, or does not have yet.
pub(super) fn refuse_unavailable(
    args: &RunArgs,
    environment: &Environment<'_>,
) -> Result<(), Usage> {
    let has = |name| -> Result<bool, Usage> { Ok(environment.text(name)?.is_some()) };
    let peering = has("KOPF_RUN_PEERING")? || has("KOPF_RUN_PEERING_NAME")?;
    let dev = environment.flag("KOPF_RUN_DEV")?.unwrap_or_default();
    let not_yet = [
        (args.dev || dev, "--dev", PEERING),
        (args.peering.is_some() || peering, "--peering", PEERING),
        (
            args.priority.is_some() || has("KOPF_RUN_PRIORITY")?,
            "--priority",
            PEERING,
        ),
        (
            args.liveness.is_some() || has("KOPF_RUN_LIVENESS_ENDPOINT")?,
            "--liveness",
            PROBES,
        ),
    ];
    for (is_asked_for, option, feature) in not_yet {
        if is_asked_for {
            return Err(Usage::NotYet { option, feature });
        }
    }
    if let Some(path) = args.paths.first() {
        let option = format!("the path '{}'", path.to_string_lossy());
        return Err(Usage::CompiledIn { option });
    }
    if !args.modules.is_empty() || has("KOPF_RUN_MODULES")? {
        let option = "--module".to_owned();
        return Err(Usage::CompiledIn { option });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Args, Command};

    /// The reason, or nothing.
    fn refusal(arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let arguments = ["op", "run"].iter().chain(arguments);
        let Command::Run(args) = Args::try_parse_from(arguments).unwrap().command else {
            panic!("another command is parsed");
        };
        let read = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        match refuse_unavailable(&args, &Environment::new(&read)) {
            Ok(()) => String::new(),
            Err(usage) => usage.to_string(),
        }
    }

    #[test]
    fn what_comes_later_is_refused_by_option_and_by_variable() {
        let cases: [(&[&str], (&str, &str), &str); 5] = [
            (
                &["--dev"],
                ("KOPF_RUN_DEV", "true"),
                "--dev is not available yet: it comes with peering",
            ),
            (
                &["-P", "x"],
                ("KOPF_RUN_PEERING", "x"),
                "--peering is not available yet: it comes with peering",
            ),
            (
                &["-P", "x"],
                ("KOPF_RUN_PEERING_NAME", "x"),
                "--peering is not available yet: it comes with peering",
            ),
            (
                &["-p", "0"],
                ("KOPF_RUN_PRIORITY", "0"),
                "--priority is not available yet: it comes with peering",
            ),
            (
                &["-L", "http://:80/"],
                ("KOPF_RUN_LIVENESS_ENDPOINT", "http://:80/"),
                "--liveness is not available yet: it comes with health probes",
            ),
        ];
        for (arguments, variable, expected) in cases {
            assert_eq!(refusal(arguments, &[]), expected);
            assert_eq!(refusal(&[], &[variable]), expected);
        }
        assert_eq!(
            refusal(&[], &[("KOPF_RUN_DEV", "false"), ("KOPF_RUN_PEERING", "")]),
            ""
        );
    }

    #[test]
    fn handlers_are_never_loaded() {
        let expected = "the path 'op.py' cannot be used here: the handlers are compiled into this \
                        program, there is nothing to load";
        assert_eq!(refusal(&["op.py"], &[]), expected);
        assert!(refusal(&["-m", "mod"], &[]).starts_with("--module cannot be used"));
        assert_ne!(refusal(&[], &[("KOPF_RUN_MODULES", "mod")]), "");
    }
}
