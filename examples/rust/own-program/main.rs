//! A program with its own command, option and log layer beside those of operators, a custom
//! resource as a type, and shared state.
//!
//! ```console
//! cargo run --bin own-program -- run --greeting Hi --sandbox -f examples/rust/own-program
//! kubectl get greetings
//! kubectl describe greeting example
//! cargo run --bin own-program -- greet world
//! cargo run --bin own-program -- crd                # prints crd.yaml
//! ```

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kopf::clap::{self, Parser, Subcommand};
use kopf::cli::{Commands, Program};
use kopf::prelude::*;
use kopf::tracing::{Event, Subscriber};
use kopf::tracing_subscriber::Layer;
use kopf::tracing_subscriber::filter::LevelFilter;
use kopf::tracing_subscriber::layer::Context;
use kopf::{Events, Object, Patch};

/// Greets by hand, or as an operator
#[derive(Debug, Parser)]
#[command(name = "own-program", version)]
struct Args {
    /// The word to greet with
    #[arg(long, global = true, default_value = "Hello", env = "GREETING")]
    greeting: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print a greeting
    Greet { name: String },
    #[command(flatten)]
    Operator(Commands),
}

/// State that is shared by all handlers.
#[derive(Clone)]
struct Greeter {
    greeting: String,
}

impl Greeter {
    fn greet(&self, name: &str) -> String {
        format!("{}, {name}!", self.greeting)
    }
}

/// The name to greet.
#[kopf::resource(group = "kopf.dev", version = "v1", kind = "Greeting", namespaced)]
#[kube(status = "GreetingStatus")]
#[kube(printcolumn(name = "Message", type_ = "string", json_path = ".status.message"))]
struct GreetingSpec {
    name: String,
}

/// The greeting.
#[kopf::schema]
struct GreetingStatus {
    message: Option<String>,
}

#[kopf::on::create(Greeting)]
#[kopf::on::update(Greeting, field = "spec")]
async fn greet(
    greeting: Object<Greeting>,
    State(greeter): State<Greeter>,
    events: Events,
    patch: Patch,
) {
    let message = greeter.greet(&greeting.spec.name);
    events.info("Greeted", &message);
    patch.status().merge(GreetingStatus {
        message: Some(message),
    });
}

/// A log layer that counts records.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU64>);

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let greeter = Greeter {
        greeting: args.greeting,
    };
    match args.command {
        Command::Greet { name } => print_line(&greeter.greet(&name)),
        Command::Operator(commands) => {
            let problems = Counter::default();
            let operator = Operator::builder()
                .handlers(kopf::handlers![greet])
                .state(greeter);
            let program =
                Program::new(operator).layer(problems.clone().with_filter(LevelFilter::WARN));
            let code = program.execute(commands);
            match problems.0.load(Ordering::Relaxed) {
                0 => code,
                count => {
                    print_line(&format!("{count} warnings and errors are logged."));
                    code
                }
            }
        }
    }
}

fn print_line(line: &str) -> ExitCode {
    let written = writeln!(std::io::stdout(), "{line}");
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}
