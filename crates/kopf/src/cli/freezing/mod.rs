//! `freeze` and `resume`: pause and resume the operators of a cluster by a record in a peering
//! object.
//!
//! Command lines of operators and the command `kopf` share these commands.

mod args;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use kopf_client::connection;
use kopf_core::namespace::Scope;
use kopf_core::settings::{Backoffs, Settings};
use kopf_engine::peering::{self, CommandError};
use tracing::{info, warn};

pub(super) use self::args::LoggingArgs;
use self::args::Place;
pub use self::args::{FreezeArgs, ResumeArgs};
use super::environment::Environment;
use super::failure::{self, Failure};
use super::logging;
use super::options::{logging_options, overridden, scope_of};
use super::usage::Usage;

/// The default priority of `freeze`.
const PRIORITY: i64 = 100;

/// Delays before the retries of failed requests. They are short for interactive use.
const RETRIES: [Duration; 3] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// The priority of developers.
pub(super) const DEV: i64 = 666;

/// A command with checked options.
#[derive(Debug)]
pub struct Order {
    /// `None` if not set, which means the whole cluster.
    scope: Option<Scope>,
    identity: Option<String>,
    settings: Settings,
    is_freezing: bool,
    logging: logging::Options,
    /// Warnings about options that others override.
    remarks: Vec<String>,
}

impl FreezeArgs {
    /// Merges the command line and the environment.
    pub fn order(&self, read: &dyn Fn(&str) -> Option<OsString>) -> Result<Order, Usage> {
        let environment = Environment::new(read);
        let mut order = order(
            "KOPF_FREEZE",
            &self.place.place(),
            &self.logging,
            &environment,
        )?;
        let priority = match self.priority {
            Some(priority) => Some(priority),
            None => environment.parsed("KOPF_FREEZE_PRIORITY", "an integer")?,
        };
        let is_dev = self.dev || environment.flag("KOPF_FREEZE_DEV")?.unwrap_or_default();
        let lifetime = match self.lifetime {
            Some(lifetime) => Some(lifetime),
            None => environment.parsed("KOPF_FREEZE_LIFETIME", "a number of seconds")?,
        };
        let lifetime = lifetime
            .filter(|lifetime| *lifetime > 0)
            .ok_or(Usage::Missing {
                option: "-t/--lifetime",
                what: "a number of seconds",
            })?;
        order.remarks.extend(overridden(is_dev, priority));
        let peering = &mut order.settings.peering;
        peering.priority = if is_dev {
            DEV
        } else {
            priority.unwrap_or(PRIORITY)
        };
        peering.lifetime = Duration::from_secs(lifetime);
        order.is_freezing = true;
        Ok(order)
    }
}

impl ResumeArgs {
    /// Merges the command line and the environment.
    pub fn order(&self, read: &dyn Fn(&str) -> Option<OsString>) -> Result<Order, Usage> {
        order(
            "KOPF_RESUME",
            &self.place.place(),
            &self.logging,
            &Environment::new(read),
        )
    }
}

fn order(
    prefix: &str,
    place: &Place<'_>,
    logging: &LoggingArgs,
    environment: &Environment<'_>,
) -> Result<Order, Usage> {
    let named = |given: Option<&str>, name: &str| -> Result<Option<String>, Usage> {
        match given.filter(|text| !text.is_empty()) {
            Some(given) => Ok(Some(given.to_owned())),
            None => Ok(environment.text(&format!("{prefix}_{name}"))?),
        }
    };
    let mut settings = Settings::default();
    settings.peering.name = named(place.peering, "PEERING")?.ok_or(Usage::Missing {
        option: "-P/--peering",
        what: "the name of a peering object, such as default",
    })?;
    let identity = named(place.id, "ID")?;
    let mut remarks = Vec::new();
    if place.id == Some("") && identity.is_none() {
        remarks.push("--id is empty: the default identity is used.".to_owned());
    }
    Ok(Order {
        scope: scope_of(prefix, place.all_namespaces, place.namespaces, environment)?,
        identity,
        settings,
        is_freezing: false,
        logging: logging_options(prefix, logging, environment)?,
        remarks,
    })
}

impl Order {
    /// Executes the command. The exit code is 1 if it fails.
    pub fn run(self) -> ExitCode {
        let _exporting = logging::install(self.logging.clone(), Vec::new());
        match self.try_run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                failure::log(&failure);
                ExitCode::FAILURE
            }
        }
    }

    fn try_run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new("The runtime cannot be started", &error))?;
        runtime.block_on(self.execute())
    }

    async fn execute(self) -> Result<(), Failure> {
        for remark in &self.remarks {
            warn!("{remark}");
        }
        let scope = self.scope.unwrap_or(Scope::Cluster);
        self.settings
            .validate()
            .map_err(|error| Failure::new("The settings are invalid", &error))?;
        let client = connection::infer().await.map_err(|error| {
            Failure::new("Cannot connect to a cluster", &error)
                .advise("set KUBECONFIG, or run it in a pod with a service account")
        })?;
        let identity = self.identity.unwrap_or_else(peering::command_identity);
        let peering = self.settings.peering.clone();
        let mut settings = self.settings;
        settings.networking.error_backoffs = Backoffs::finite(RETRIES);
        let report = if self.is_freezing {
            let outcome = peering::freeze(&client, settings, &scope, &identity).await;
            let outcome = outcome.map_err(|error| explain(true, &error))?;
            outcome.freeze_report(&peering, &identity)
        } else {
            let outcome = peering::resume(&client, settings, &scope, &identity).await;
            let outcome = outcome.map_err(|error| explain(false, &error))?;
            outcome.resume_report(&identity)
        };
        if let Some(done) = report.done {
            info!("{done}");
        }
        for warning in report.warnings {
            warn!("{warning}");
        }
        Ok(())
    }
}

fn explain(is_freezing: bool, error: &CommandError) -> Failure {
    let failure = Failure::new(
        if is_freezing {
            "The operators are not frozen"
        } else {
            "The operators are not resumed"
        },
        error,
    );
    match error {
        CommandError::NoKind { .. } => failure.advise(
            "create the CRDs of peering objects: the command `peering` prints them for kubectl",
        ),
        CommandError::NotFound { .. } => failure.advise(
            "create the object, or select another one by --peering; -A is for cluster-scoped \
             objects, -n for those in namespaces",
        ),
        CommandError::Discovery(source) | CommandError::Refused { source, .. } => {
            match source.code() {
                Some(401) => failure.advise("log in to the cluster again"),
                Some(403) => failure.advise(
                    "request the permissions get, list and patch for peering objects from the \
                     cluster's administrator",
                ),
                Some(_) => failure,
                None => failure.advise(
                    "check that the API server runs, and that KUBECONFIG is its kubeconfig",
                ),
            }
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    enum Command {
        Freeze(FreezeArgs),
        Resume(ResumeArgs),
    }

    fn order(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Order, String> {
        let read = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let arguments = ["kopf"].iter().chain(arguments);
        let command = Command::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let order = match command {
            Command::Freeze(args) => args.order(&read),
            Command::Resume(args) => args.order(&read),
        };
        order.map_err(|usage| usage.to_string())
    }

    #[test]
    fn all_options_can_be_arguments() {
        let order = order(
            &[
                "freeze", "-n", "a", "-n", "b", "-i", "me", "-P", "peers", "-p", "-5", "-t", "60",
                "-m", "why", "-v",
            ],
            &[],
        )
        .unwrap();
        assert!(order.is_freezing);
        assert_eq!(order.identity.as_deref(), Some("me"));
        let peering = &order.settings.peering;
        assert_eq!((peering.name.as_str(), peering.priority), ("peers", -5));
        assert_eq!(peering.lifetime, Duration::from_secs(60));
        assert!(matches!(order.scope, Some(Scope::Namespaces(patterns)) if patterns.len() == 2));
    }

    #[test]
    fn all_options_can_be_variables() {
        let variables = [
            ("KOPF_FREEZE_CLUSTERWIDE", "true"),
            ("KOPF_FREEZE_ID", "me"),
            ("KOPF_FREEZE_PEERING", "peers"),
            ("KOPF_FREEZE_PRIORITY", "7"),
            ("KOPF_FREEZE_LIFETIME", "5"),
            ("KOPF_FREEZE_LOG_FORMAT", "json"),
        ];
        let frozen = order(&["freeze"], &variables).unwrap();
        assert_eq!(frozen.settings.peering.priority, 7);
        assert_eq!(frozen.logging.format, super::super::args::LogFormat::Json);
        assert!(matches!(frozen.scope, Some(Scope::Cluster)));
        let dev = order(&["freeze", "--dev"], &variables).unwrap();
        assert_eq!(dev.settings.peering.priority, 666);
        let resumed = order(&["resume"], &[("KOPF_RESUME_PEERING", "peers")]).unwrap();
        assert!(!resumed.is_freezing && resumed.scope.is_none());
        assert_eq!(resumed.settings.peering.name, "peers");
    }

    #[test]
    fn overridden_options_are_reported() {
        let freeze = ["freeze", "-P", "x", "-t", "5"];
        let remarks = |more: &[&str]| {
            let arguments: Vec<_> = freeze.iter().chain(more).copied().collect();
            order(&arguments, &[]).unwrap().remarks
        };
        assert!(remarks(&["-i", "me", "--dev"]).is_empty());
        assert_eq!(
            remarks(&["-i", "", "--dev", "-p", "7"]),
            [
                "--id is empty: the default identity is used.",
                "The priority 7 is ignored: --dev overrides --priority with 666.",
            ]
        );
    }

    #[test]
    fn help_names_the_variables_of_the_command() {
        use clap::CommandFactory as _;
        for (name, prefix) in [("freeze", "KOPF_FREEZE_"), ("resume", "KOPF_RESUME_")] {
            let mut all = Command::command();
            let help = all
                .find_subcommand_mut(name)
                .unwrap()
                .render_help()
                .to_string();
            for variable in ["CLUSTERWIDE", "NAMESPACES", "ID", "PEERING"] {
                assert!(
                    help.contains(&format!("[env: {prefix}{variable}]")),
                    "{help}"
                );
            }
            assert!(!help.contains('…'), "{help}");
        }
    }

    #[test]
    fn missing_and_invalid_options_are_errors() {
        for (arguments, expected) in [
            (
                &["freeze", "-t", "5"][..],
                "-P/--peering is required: the name of a peering",
            ),
            (
                &["freeze", "-P", "x"],
                "-t/--lifetime is required: a number of seconds",
            ),
            (
                &["freeze", "-P", "x", "-t", "0"],
                "-t/--lifetime is required",
            ),
            (&["resume"], "-P/--peering is required"),
            (
                &["resume", "-P", "x", "-A", "-n", "y"],
                "Either --namespace or --all-namespaces",
            ),
            (
                &["freeze", "-P", "x", "-t", "y"],
                "error: invalid value 'y' for '--lifetime",
            ),
        ] {
            let error = order(arguments, &[]).unwrap_err();
            assert!(error.starts_with(expected), "{arguments:?}: {error}");
        }
        assert_eq!(
            order(&["freeze", "-P", "x", "-t", "1"], &[])
                .unwrap()
                .settings
                .peering
                .priority,
            100
        );
    }
}
