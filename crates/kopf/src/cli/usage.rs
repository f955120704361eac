//! Errors of the command line.
//!
//! Unsupported options are rejected with the reason, never ignored.

use super::args::RunArgs;
use super::environment::{self, Environment};

/// An invalid or unsupported command line. The exit code is 2.
#[derive(Debug, thiserror::Error)]
pub enum Usage {
    #[error("Either --namespace or --all-namespaces can be used, not both.")]
    BothScopes,
    #[error(transparent)]
    Environment(#[from] environment::EnvironmentError),
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
    #[error("{option} is not supported: the handlers are compiled into this program")]
    CompiledIn { option: String },
    #[error("{option} requires --sandbox")]
    OnlyWithSandbox { option: &'static str },
    #[cfg(not(feature = "sandbox"))]
    #[error(
        "--sandbox is not supported: this program was built without the feature `sandbox` of the \
         crate kopf"
    )]
    NoSandbox,
}

/// Rejects options of the original that are not supported.
pub(super) fn reject_unsupported(
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

    /// Returns the error, or an empty string.
    fn error(arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let arguments = ["op", "run"].iter().chain(arguments);
        let Command::Run(args) = Args::try_parse_from(arguments).unwrap().command else {
            panic!("another command is parsed");
        };
        let read = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        match reject_unsupported(&args, &Environment::new(&read)) {
            Ok(()) => String::new(),
            Err(usage) => usage.to_string(),
        }
    }

    #[test]
    fn modules_and_paths_are_rejected() {
        let expected =
            "the path 'op.py' is not supported: the handlers are compiled into this program";
        assert_eq!(error(&["op.py"], &[]), expected);
        assert!(error(&["-m", "mod"], &[]).starts_with("--module is not supported"));
        assert_ne!(error(&[], &[("KOPF_RUN_MODULES", "mod")]), "");
    }
}
