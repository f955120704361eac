//! Options merged from the command line and the environment. The command line has precedence.

use std::path::PathBuf;

use clap::ValueEnum as _;
use kopf_core::namespace::{NamespacePattern, Scope};
use kopf_core::settings::{Leading, Peering, Shards};
use kopf_engine::probing::Endpoint;

use super::args::{LogFormat, RunArgs};
use super::environment::Environment;
use super::freezing::{DEV, LoggingArgs};
use super::logging::{self, Verbosity};
use super::usage::{Usage, reject_unsupported};

/// Options of `run`.
#[derive(Debug)]
pub(super) struct RunOptions {
    /// `None` if not set.
    pub(super) scope: Option<Scope>,
    pub(super) peering: PeeringOptions,
    pub(super) leading: LeadingOptions,
    pub(super) liveness: Option<Endpoint>,
    pub(super) metrics: Option<Endpoint>,
    pub(super) logging: logging::Options,
    pub(super) sandbox: Option<SandboxOptions>,
    pub(super) install_crds: bool,
}

/// Options of the peering.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PeeringOptions {
    pub(super) standalone: bool,
    /// The peering object, which must exist.
    pub(super) name: Option<String>,
    pub(super) priority: Option<i64>,
    /// Warnings about options that others override.
    pub(super) remarks: Vec<String>,
}

impl PeeringOptions {
    /// Overrides the settings.
    pub(super) fn apply(self, settings: &mut Peering) {
        settings.standalone |= self.standalone;
        if let Some(name) = self.name {
            settings.name = name;
            settings.mandatory = true;
        }
        if let Some(priority) = self.priority {
            settings.priority = priority;
        }
    }
}

/// Options of several replicas.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LeadingOptions {
    enabled: bool,
    name: Option<String>,
    namespace: Option<String>,
    shards: Option<Shards>,
}

impl LeadingOptions {
    fn new(args: &RunArgs, environment: &Environment<'_>) -> Result<Self, Usage> {
        let text = |given: &Option<String>, variable: &str| match given {
            Some(given) => Ok(Some(given.clone())),
            None => environment.text(variable),
        };
        let flag = environment.flag("KOPF_RUN_LEADER_ELECT")?;
        let namespace = "KOPF_RUN_LEADER_ELECT_NAMESPACE";
        Ok(Self {
            enabled: args.leader_elect || flag.unwrap_or_default(),
            name: text(&args.leader_elect_name, "KOPF_RUN_LEADER_ELECT_NAME")?,
            namespace: text(&args.leader_elect_namespace, namespace)?,
            shards: match args.shards {
                Some(shards) => Some(shards),
                None => environment.parsed("KOPF_RUN_SHARDS", "auto, or 1 to 256")?,
            },
        })
    }

    /// Overrides the settings.
    pub(super) fn apply(self, settings: &mut Leading) {
        settings.enabled |= self.enabled || self.name.is_some();
        if let Some(name) = self.name {
            settings.name = name;
        }
        if self.namespace.is_some() {
            settings.namespace = self.namespace;
        }
        if self.shards.is_some() {
            settings.shards = self.shards;
        }
    }
}

/// Options of the embedded sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SandboxOptions {
    pub(super) filenames: Vec<PathBuf>,
    pub(super) port: u16,
}

impl RunOptions {
    /// Merges the command line and the environment.
    pub(super) fn new(args: &RunArgs, environment: &Environment<'_>) -> Result<Self, Usage> {
        reject_unsupported(args, environment)?;
        Ok(Self {
            scope: scope(args, environment)?,
            peering: peering(args, environment)?,
            leading: LeadingOptions::new(args, environment)?,
            liveness: liveness(args, environment)?,
            metrics: metrics(args, environment)?,
            logging: logging_options("KOPF_RUN", &logging_args(args), environment)?,
            sandbox: sandbox(args, environment)?,
            install_crds: args.install_crds
                || environment
                    .flag("KOPF_RUN_INSTALL_CRDS")?
                    .unwrap_or_default(),
        })
    }
}

fn scope(args: &RunArgs, environment: &Environment<'_>) -> Result<Option<Scope>, Usage> {
    scope_of(
        "KOPF_RUN",
        args.all_namespaces,
        &args.namespaces,
        environment,
    )
}

/// Returns the namespaces of a command with this prefix of variables.
pub(super) fn scope_of(
    prefix: &str,
    all_namespaces: bool,
    namespaces: &[String],
    environment: &Environment<'_>,
) -> Result<Option<Scope>, Usage> {
    let is_clusterwide = all_namespaces
        || environment
            .flag(&format!("{prefix}_CLUSTERWIDE"))?
            .unwrap_or_default();
    let mut namespaces = if namespaces.is_empty() {
        environment.words(&format!("{prefix}_NAMESPACES"))?
    } else {
        namespaces.to_vec()
    };
    // The singular variable of old releases adds one namespace to those of any other source.
    namespaces.extend(environment.text(&format!("{prefix}_NAMESPACE"))?);
    match (is_clusterwide, namespaces.is_empty()) {
        (true, false) => Err(Usage::BothScopes),
        (true, true) => Ok(Some(Scope::Cluster)),
        (false, true) => Ok(None),
        (false, false) => {
            let patterns = namespaces.iter().map(|text| NamespacePattern::parse(text));
            let patterns = patterns.collect::<Result<_, _>>()?;
            Ok(Some(Scope::Namespaces(patterns)))
        }
    }
}

fn liveness(args: &RunArgs, environment: &Environment<'_>) -> Result<Option<Endpoint>, Usage> {
    let address = match &args.liveness {
        Some(address) => Some(address.clone()),
        None => environment.text("KOPF_RUN_LIVENESS_ENDPOINT")?,
    };
    let endpoint = address.map(|address| address.parse()).transpose();
    endpoint.map_err(|source| Usage::Liveness { source })
}

fn metrics(args: &RunArgs, environment: &Environment<'_>) -> Result<Option<Endpoint>, Usage> {
    let address = match &args.metrics {
        Some(address) => Some(address.clone()),
        None => environment.text("KOPF_RUN_METRICS")?,
    };
    let endpoint = address.map(|address| address.parse()).transpose();
    endpoint.map_err(|source| Usage::Metrics { source })
}

fn peering(args: &RunArgs, environment: &Environment<'_>) -> Result<PeeringOptions, Usage> {
    let flag = |given: bool, name: &str| -> Result<bool, Usage> {
        Ok(given || environment.flag(name)?.unwrap_or_default())
    };
    let name = match args.peering.clone().filter(|name| !name.is_empty()) {
        Some(name) => Some(name),
        None => match environment.text("KOPF_RUN_PEERING")? {
            Some(name) => Some(name),
            None => environment.text("KOPF_RUN_PEERING_NAME")?,
        },
    };
    let priority = match args.priority {
        Some(priority) => Some(priority),
        None => environment.parsed("KOPF_RUN_PRIORITY", "an integer")?,
    };
    let is_dev = flag(args.dev, "KOPF_RUN_DEV")?;
    let standalone = flag(args.standalone, "KOPF_RUN_STANDALONE")?;
    let mut remarks = Vec::from_iter(overridden(is_dev, priority));
    if standalone && let Some(name) = &name {
        remarks.push(format!(
            "The peering {name:?} is ignored: --standalone overrides --peering."
        ));
    }
    Ok(PeeringOptions {
        standalone,
        name,
        priority: if is_dev { Some(DEV) } else { priority },
        remarks,
    })
}

/// Returns a warning if `--dev` overrides the priority, as in the original.
pub(super) fn overridden(is_dev: bool, priority: Option<i64>) -> Option<String> {
    let priority = priority.filter(|priority| is_dev && *priority != DEV)?;
    Some(format!(
        "The priority {priority} is ignored: --dev overrides --priority with {DEV}."
    ))
}

fn logging_args(args: &RunArgs) -> LoggingArgs {
    LoggingArgs {
        verbose: args.verbose,
        debug: args.debug,
        quiet: args.quiet,
        log_format: args.log_format,
        log_refkey: args.log_refkey.clone(),
        log_prefix: args.log_prefix,
        no_log_prefix: args.no_log_prefix,
    }
}

/// Returns the log options of a command with this prefix of variables.
pub(super) fn logging_options(
    prefix: &str,
    args: &LoggingArgs,
    environment: &Environment<'_>,
) -> Result<logging::Options, Usage> {
    let name = |name: &str| format!("{prefix}_{name}");
    let flag = |given: bool, what: &str| -> Result<bool, Usage> {
        Ok(given || environment.flag(&name(what))?.unwrap_or_default())
    };
    let is_verbose = flag(args.verbose, "VERBOSE")?;
    let is_debug = flag(args.debug, "DEBUG")?;
    let is_quiet = flag(args.quiet, "QUIET")?;
    let verbosity = match (is_debug, is_verbose, is_quiet) {
        (true, _, _) => Verbosity::Debug,
        (_, true, _) => Verbosity::Verbose,
        (_, _, true) => Verbosity::Quiet,
        _ => Verbosity::Normal,
    };
    let format = if args.log_format.is_some() {
        args.log_format
    } else {
        let format = environment.parsed(&name("LOG_FORMAT"), "plain, full or json")?;
        format.map(|Format(format)| format)
    };
    let is_prefixed = match (args.log_prefix, args.no_log_prefix) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => environment.flag(&name("LOG_PREFIX"))?,
    };
    let refkey = args.log_refkey.clone().filter(|key| !key.is_empty());
    let refkey = match refkey {
        Some(key) => Some(key),
        None => environment.text(&name("LOG_REFKEY"))?,
    };
    let format = format.unwrap_or_default();
    Ok(logging::Options {
        verbosity,
        directives: environment
            .parsed("RUST_LOG", "levels, such as info,my_operator=debug")?
            .unwrap_or_default(),
        format,
        refkey: refkey.unwrap_or_else(|| "object".to_owned()),
        // JSON records contain the object as a field.
        prefix: is_prefixed.unwrap_or(format != LogFormat::Json),
    })
}

/// A log format in a variable.
struct Format(LogFormat);

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        LogFormat::from_str(text, true).map(Self)
    }
}

fn sandbox(args: &RunArgs, environment: &Environment<'_>) -> Result<Option<SandboxOptions>, Usage> {
    let is_wanted = args.sandbox || environment.flag("KOPF_RUN_SANDBOX")?.unwrap_or_default();
    if !is_wanted {
        // Variables can be left over from other runs; only arguments are errors.
        return if !args.filenames.is_empty() {
            Err(Usage::OnlyWithSandbox {
                option: "-f/--filename",
            })
        } else if args.sandbox_port.is_some() {
            Err(Usage::OnlyWithSandbox {
                option: "--sandbox-port",
            })
        } else {
            Ok(None)
        };
    }
    #[cfg(not(feature = "sandbox"))]
    {
        Err(Usage::NoSandbox)
    }
    #[cfg(feature = "sandbox")]
    {
        let filenames = if args.filenames.is_empty() {
            let words = environment.words("KOPF_RUN_FILENAMES")?;
            words.into_iter().map(PathBuf::from).collect()
        } else {
            args.filenames.clone()
        };
        let port = match args.sandbox_port {
            Some(port) => Some(port),
            None => environment.parsed("KOPF_RUN_SANDBOX_PORT", "a port, 0 to 65535")?,
        };
        let port = port.unwrap_or_default();
        Ok(Some(SandboxOptions { filenames, port }))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Args, Command};

    fn options(arguments: &[&str], variables: &[(&str, &str)]) -> Result<RunOptions, String> {
        let arguments = ["op", "run"].iter().chain(arguments);
        let Command::Run(args) = Args::try_parse_from(arguments).unwrap().command else {
            panic!("another command is parsed");
        };
        let read = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        RunOptions::new(&args, &Environment::new(&read)).map_err(|usage| usage.to_string())
    }

    fn scope_of(arguments: &[&str], variables: &[(&str, &str)]) -> String {
        match options(arguments, variables).map(|options| options.scope) {
            Err(error) => error,
            Ok(None) => "nothing".to_owned(),
            Ok(Some(Scope::Cluster)) => "cluster".to_owned(),
            Ok(Some(Scope::Namespaces(patterns))) => {
                let texts: Vec<_> = patterns.iter().map(ToString::to_string).collect();
                texts.join(" ")
            }
        }
    }

    /// Arguments, variables, and the expected result.
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);

    #[test]
    fn scopes_come_from_options_and_variables() {
        let both = "Either --namespace or --all-namespaces can be used, not both.";
        let cases: [Case<'_>; 13] = [
            (&[], &[], "nothing"),
            (&["-A"], &[], "cluster"),
            (&["-n", "a", "-n", "b*"], &[], "a b*"),
            (&["-n", "a, !b"], &[], "a, !b"),
            (&[], &[("KOPF_RUN_CLUSTERWIDE", "true")], "cluster"),
            (&[], &[("KOPF_RUN_CLUSTERWIDE", "false")], "nothing"),
            (&[], &[("KOPF_RUN_NAMESPACES", "a b")], "a b"),
            (&["-n", "c"], &[("KOPF_RUN_NAMESPACES", "a b")], "c"),
            (&[], &[("KOPF_RUN_NAMESPACE", "old")], "old"),
            (
                &["-n", "c"],
                &[("KOPF_RUN_NAMESPACE", "old"), ("KOPF_RUN_NAMESPACES", "a")],
                "c old",
            ),
            (&["-A", "-n", "a"], &[], both),
            (&["-A"], &[("KOPF_RUN_NAMESPACE", "old")], both),
            (&["-n", "a"], &[("KOPF_RUN_CLUSTERWIDE", "1")], both),
        ];
        for (arguments, variables, expected) in cases {
            assert_eq!(
                scope_of(arguments, variables),
                expected,
                "{arguments:?} {variables:?}"
            );
        }
    }

    #[test]
    fn errors_contain_invalid_patterns() {
        let error = options(&["-n", "a,,b"], &[]).unwrap_err();
        assert!(error.contains("\"a,,b\""), "{error}");
    }

    #[test]
    fn debug_overrides_verbose_and_quiet() {
        let verbosity = |arguments: &[&str], variables: &[(&str, &str)]| {
            options(arguments, variables).unwrap().logging.verbosity
        };
        assert_eq!(verbosity(&[], &[]), Verbosity::Normal);
        assert_eq!(verbosity(&["-q"], &[]), Verbosity::Quiet);
        assert_eq!(verbosity(&["-qv"], &[]), Verbosity::Verbose);
        assert_eq!(verbosity(&["-qvd"], &[]), Verbosity::Debug);
        assert_eq!(
            verbosity(&["-q"], &[("KOPF_RUN_VERBOSE", "yes")]),
            Verbosity::Verbose
        );
        assert_eq!(verbosity(&[], &[("KOPF_RUN_DEBUG", "1")]), Verbosity::Debug);
        assert_eq!(
            verbosity(&[], &[("KOPF_RUN_QUIET", "true")]),
            Verbosity::Quiet
        );
    }

    #[test]
    fn prefixes_depend_on_the_format_by_default() {
        let logging = |arguments: &[&str], variables: &[(&str, &str)]| {
            let logging = options(arguments, variables).unwrap().logging;
            (logging.format, logging.prefix, logging.refkey)
        };
        let object = || "object".to_owned();
        assert_eq!(logging(&[], &[]), (LogFormat::Full, true, object()));
        assert_eq!(
            logging(&["--log-format", "Plain"], &[]),
            (LogFormat::Plain, true, object())
        );
        assert_eq!(
            logging(
                &[],
                &[
                    ("KOPF_RUN_LOG_FORMAT", "JSON"),
                    ("KOPF_RUN_LOG_REFKEY", "k8s")
                ]
            ),
            (LogFormat::Json, false, "k8s".to_owned())
        );
        assert_eq!(
            logging(&["--log-prefix"], &[("KOPF_RUN_LOG_FORMAT", "json")]),
            (LogFormat::Json, true, object())
        );
        assert_eq!(
            logging(&[], &[("KOPF_RUN_LOG_PREFIX", "false")]),
            (LogFormat::Full, false, object())
        );
        let error = options(&[], &[("KOPF_RUN_LOG_FORMAT", "xml")]).unwrap_err();
        assert_eq!(
            error,
            "invalid value 'xml' for the environment variable KOPF_RUN_LOG_FORMAT: must be \
             plain, full or json"
        );
    }

    #[test]
    fn peering_comes_from_options_and_variables() {
        let peering = |arguments: &[&str], variables: &[(&str, &str)]| {
            options(arguments, variables).unwrap().peering
        };
        let plain = PeeringOptions::default();
        assert_eq!(peering(&[], &[]), plain);
        assert!(peering(&["--standalone"], &[]).standalone);
        assert!(peering(&[], &[("KOPF_RUN_STANDALONE", "true")]).standalone);
        assert_eq!(peering(&["-p", "-5"], &[]).priority, Some(-5));
        assert_eq!(peering(&["-p", "5", "--dev"], &[]).priority, Some(666));
        assert_eq!(
            peering(&["-p", "5"], &[("KOPF_RUN_DEV", "1")]).priority,
            Some(666)
        );
        assert_eq!(
            peering(&[], &[("KOPF_RUN_PRIORITY", "7"), ("KOPF_RUN_DEV", "no")]).priority,
            Some(7)
        );
        assert!(
            peering(&["--dev", "-p", "666", "-P", "x"], &[])
                .remarks
                .is_empty()
        );
        let remarks = peering(&["--dev", "-p", "5", "--standalone", "-P", "x"], &[]).remarks;
        assert_eq!(
            remarks,
            [
                "The priority 5 is ignored: --dev overrides --priority with 666.",
                "The peering \"x\" is ignored: --standalone overrides --peering.",
            ]
        );
        let named = |arguments: &[&str], variables: &[(&str, &str)]| {
            peering(arguments, variables).name.unwrap_or_default()
        };
        let both = [
            ("KOPF_RUN_PEERING", "first"),
            ("KOPF_RUN_PEERING_NAME", "second"),
        ];
        assert_eq!(named(&["--peering=given"], &both), "given");
        assert_eq!(named(&[], &both), "first");
        assert_eq!(named(&[], &both[1..]), "second");
        let mut settings = Peering::default();
        peering(&["-P", "x", "--dev"], &[]).apply(&mut settings);
        assert!(settings.mandatory && !settings.standalone);
        assert_eq!((settings.name.as_str(), settings.priority), ("x", 666));
        peering(&["--standalone"], &[]).apply(&mut settings);
        assert!(settings.standalone && settings.mandatory);
        assert_eq!((settings.name.as_str(), settings.priority), ("x", 666));
        let error = options(&[], &[("KOPF_RUN_PRIORITY", "high")]).unwrap_err();
        assert!(error.ends_with("KOPF_RUN_PRIORITY: must be an integer"));
    }

    #[cfg(feature = "sandbox")]
    #[test]
    fn manifests_and_ports_require_the_sandbox() {
        assert_eq!(
            options(&[], &[("KOPF_RUN_FILENAMES", "x")])
                .unwrap()
                .sandbox,
            None
        );
        assert!(
            options(&["-f", "x"], &[])
                .unwrap_err()
                .starts_with("-f/--filename requires --sandbox")
        );
        assert!(options(&["--sandbox-port", "1"], &[]).is_err());
        let given = options(
            &["--sandbox", "-f", "x", "-f", "y", "--sandbox-port", "5"],
            &[],
        );
        let expected = SandboxOptions {
            filenames: vec!["x".into(), "y".into()],
            port: 5,
        };
        assert_eq!(given.unwrap().sandbox, Some(expected));
        let variables = [
            ("KOPF_RUN_SANDBOX", "true"),
            ("KOPF_RUN_FILENAMES", "x y"),
            ("KOPF_RUN_SANDBOX_PORT", "7"),
        ];
        let expected = SandboxOptions {
            filenames: vec!["x".into(), "y".into()],
            port: 7,
        };
        assert_eq!(options(&[], &variables).unwrap().sandbox, Some(expected));
    }

    #[test]
    fn options_of_replicas_override_the_settings() {
        let leading = |arguments: &[&str], variables: &[(&str, &str)]| {
            let mut leading = Leading::default();
            options(arguments, variables)
                .unwrap()
                .leading
                .apply(&mut leading);
            leading
        };
        assert!(!leading(&[], &[]).enabled);
        let named = leading(&["--leader-elect-name", "op"], &[("KOPF_RUN_SHARDS", "3")]);
        assert!(named.enabled);
        assert_eq!(
            (named.name.as_str(), named.shards),
            ("op", Some(Shards::Fixed(3)))
        );
        let environment = [
            ("KOPF_RUN_LEADER_ELECT", "true"),
            ("KOPF_RUN_LEADER_ELECT_NAME", "other"),
            ("KOPF_RUN_LEADER_ELECT_NAMESPACE", "ns"),
        ];
        let given = leading(
            &["--leader-elect-name", "op", "--shards", "auto"],
            &environment,
        );
        assert_eq!(
            (given.name.as_str(), given.shards),
            ("op", Some(Shards::Auto))
        );
        assert_eq!(given.namespace.as_deref(), Some("ns"));
        let error = options(&[], &[("KOPF_RUN_SHARDS", "many")]).unwrap_err();
        assert!(error.contains("KOPF_RUN_SHARDS"), "{error}");
    }
}
