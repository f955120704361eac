//! What is refused: command lines that make no sense, and what the original has and this has not.
//!
//! What is asked for and cannot be done is refused with the reason, never ignored.

use super::args::RunArgs;
use super::environment::{self, Environment};

/// A command line that makes no sense or asks for what is not there. The exit code is 2.
#[derive(Debug, thiserror::Error)]
pub enum Usage {
    #[error("Either --namespace or --all-namespaces can be used, not both.")]
    BothScopes,
    #[error(transparent)]
    Environment(#[from] environment::Error),
    #[error("{source}")]
    Namespace {
        #[from]
        source: kopf_core::namespace::Error,
    },
    #[error("{option} is required: {what}")]
    Missing {
        option: &'static str,
        what: &'static str,
    },
    #[error(transparent)]
    Naming(#[from] kopf_shipping::NamingError),
    #[error("cannot read {name}: {source}")]
    Unreadable {
        name: String,
        source: std::io::Error,
    },
    #[error(transparent)]
    Yaml(#[from] kopf_shipping::YamlError),
    #[error("--liveness: {source}")]
    Liveness {
        source: kopf_engine::probing::EndpointError,
    },
    #[error("--metrics: {source}")]
    Metrics {
        source: kopf_engine::probing::EndpointError,
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

/// Refuses what the original has and this does not have.
pub(super) fn refuse_unavailable(
    args: &RunArgs,
    environment: &Environment<'_>,
) -> Result<(), Usage> {
    let has = |name| -> Result<bool, Usage> { Ok(environment.text(name)?.is_some()) };
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
    fn handlers_are_never_loaded() {
        let expected = "the path 'op.py' cannot be used here: the handlers are compiled into this \
                        program, there is nothing to load";
        assert_eq!(refusal(&["op.py"], &[]), expected);
        assert!(refusal(&["-m", "mod"], &[]).starts_with("--module cannot be used"));
        assert_ne!(refusal(&[], &[("KOPF_RUN_MODULES", "mod")]), "");
    }
}
