//! Programs with their own version, log layers, commands and options.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches, Subcommand};
use tracing_subscriber::{Layer, Registry};

use super::args::Command;
use super::command::{self, Task};
use super::running;
use crate::OperatorBuilder;
use crate::on::AnyHandler;

/// A log layer, boxed until the log is installed.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The program of an operator: the operator, a version, and log layers.
///
/// ```no_run
/// use kopf::cli::Program;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn() {}
///
/// fn main() -> std::process::ExitCode {
///     Program::new(Operator::builder().handlers(kopf::handlers![create_fn]))
///         .version(env!("CARGO_PKG_VERSION"))
///         .main()
/// }
/// ```
#[must_use = "a program does nothing until `.main()` or `.execute(…)`"]
pub struct Program {
    operator: OperatorBuilder,
    version: Option<String>,
    layers: Vec<BoxedLayer>,
}

impl Program {
    /// Creates the program of an operator.
    pub fn new(operator: OperatorBuilder) -> Self {
        Self {
            operator,
            version: None,
            layers: Vec::new(),
        }
    }

    /// Sets the version that `--version` prints with the name of the program. Default: the version
    /// of the crate `kopf`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds a layer to the log of the command `run`, in addition to the one for stderr.
    ///
    /// Records about objects have the target `kopf.objects` and the fields `k8s.api_version`,
    /// `k8s.kind`, `k8s.namespace`, `k8s.name` and `k8s.uid`. Without a filter, a layer receives
    /// records and spans of all levels. If the program has already installed a global subscriber,
    /// these layers and the one for stderr are not used.
    ///
    /// ```no_run
    /// use kopf::Operator;
    /// use kopf::cli::Program;
    /// use kopf::tracing::{Event, Level, Subscriber};
    /// use kopf::tracing_subscriber::Layer;
    /// use kopf::tracing_subscriber::filter::LevelFilter;
    /// use kopf::tracing_subscriber::layer::Context;
    ///
    /// struct Alarms;
    ///
    /// impl<S: Subscriber> Layer<S> for Alarms {
    ///     fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
    ///         if *event.metadata().level() == Level::ERROR {
    ///             // notify the team on call
    ///         }
    ///     }
    /// }
    ///
    /// fn main() -> std::process::ExitCode {
    ///     Program::new(Operator::builder())
    ///         .layer(Alarms.with_filter(LevelFilter::ERROR))
    ///         .main()
    /// }
    /// ```
    pub fn layer(mut self, layer: impl Layer<Registry> + Send + Sync + 'static) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Runs the program with the arguments of the process. See [`main`](super::main) for exit
    /// codes.
    pub fn main(self) -> ExitCode {
        match command::parse(std::env::args_os(), &|name| std::env::var_os(name)) {
            Ok(task) => self.perform(task),
            Err(error) => match &self.version {
                Some(version) if error.kind() == ErrorKind::DisplayVersion => {
                    print(&version_line(&program_name(), version))
                }
                _ => print_error(&error),
            },
        }
    }

    /// Executes a command parsed by the program's own command line: see [`Commands`].
    pub fn execute(self, commands: Commands) -> ExitCode {
        match command::task(commands.0, &|name| std::env::var_os(name)) {
            Ok(task) => self.perform(task),
            Err(error) => print_error(&error),
        }
    }

    fn perform(self, task: Task) -> ExitCode {
        match task {
            Task::Run(options) => running::run(self.operator, *options, self.layers),
            Task::Freezing(order) => order.run(),
            Task::Printing(args) => args.run(),
            Task::Shipping(command) => command.run(self.operator),
        }
    }
}

impl From<OperatorBuilder> for Program {
    fn from(operator: OperatorBuilder) -> Self {
        Self::new(operator)
    }
}

impl From<Vec<AnyHandler>> for Program {
    fn from(handlers: Vec<AnyHandler>) -> Self {
        Self::new(OperatorBuilder::default().handlers(handlers))
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("operator", &self.operator)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The commands of operators (`run`, `freeze`, `crd` and the others), to flatten into the commands
/// of a program with its own commands and options.
///
/// ```no_run
/// use kopf::clap::{self, Parser, Subcommand};
/// use kopf::cli::{Commands, Program};
/// use kopf::prelude::*;
///
/// #[derive(Parser)]
/// #[command(version)]
/// struct Args {
///     /// URL of the database
///     #[arg(long, global = true, default_value = "db://localhost")]
///     database: String,
///
///     #[command(subcommand)]
///     command: Command,
/// }
///
/// #[derive(Subcommand)]
/// enum Command {
///     /// Create the tables
///     Migrate,
///     #[command(flatten)]
///     Operator(Commands),
/// }
///
/// #[derive(Clone)]
/// struct Database(String);
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(State(Database(url)): State<Database>) {
///     tracing::info!("Connecting to {url}");
/// }
///
/// fn main() -> std::process::ExitCode {
///     let args = Args::parse();
///     let operator = Operator::builder()
///         .handlers(kopf::handlers![create_fn])
///         .state(Database(args.database));
///     match args.command {
///         Command::Migrate => std::process::ExitCode::SUCCESS,
///         Command::Operator(commands) => Program::new(operator).execute(commands),
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Commands(Command);

impl FromArgMatches for Commands {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Command::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for Commands {
    fn augment_subcommands(command: clap::Command) -> clap::Command {
        Command::augment_subcommands(command)
    }

    fn augment_subcommands_for_update(command: clap::Command) -> clap::Command {
        Command::augment_subcommands_for_update(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Command::has_subcommand(name)
    }
}

fn version_line(program: &str, version: &str) -> String {
    format!("{program} {version} (kopf {})\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the name of the program file.
fn program_name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let stem = program.as_deref().and_then(Path::file_stem);
    stem.map_or_else(
        || "operator".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

fn print(line: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Prints a usage error, or the help.
fn print_error(error: &clap::Error) -> ExitCode {
    // The reader may have closed the pipe.
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Own {
        #[arg(long, global = true)]
        database: Option<String>,
        #[command(subcommand)]
        command: OwnCommand,
    }

    #[derive(Debug, Subcommand)]
    enum OwnCommand {
        Migrate,
        #[command(flatten)]
        Operator(Commands),
    }

    #[test]
    fn commands_are_flattened_into_other_commands() {
        Own::command().debug_assert();
        let own = Own::try_parse_from(["op", "migrate"]).unwrap();
        assert!(matches!(own.command, OwnCommand::Migrate));
        let own = Own::try_parse_from(["op", "run", "-A", "--database", "db"]).unwrap();
        assert_eq!(own.database.as_deref(), Some("db"));
        let OwnCommand::Operator(Commands(Command::Run(args))) = own.command else {
            panic!("another command is parsed: {own:?}");
        };
        assert!(args.all_namespaces);
    }

    #[test]
    fn version_line_contains_the_program_and_kopf() {
        let kopf = env!("CARGO_PKG_VERSION");
        let expected = format!("my-operator 1.2.3 (kopf {kopf})\n");
        assert_eq!(version_line("my-operator", "1.2.3"), expected);
    }
}
