//! Custom resources and command lines, which need other crates, with `kopf` as the only dependency.

use kopf::clap::{self, Parser, Subcommand};
use kopf::cli::{Commands, Program};
use kopf::prelude::*;
use kopf::schemars;

/// With the attribute.
#[kopf::resource(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
#[kube(status = "GreetingStatus", shortname = "gr", derive = "PartialEq")]
#[derive(PartialEq)]
#[serde(rename_all = "camelCase")]
struct GreetingSpec {
    full_name: Option<String>,
}

#[kopf::schema]
#[derive(Default, PartialEq)]
struct GreetingStatus {
    message: Option<String>,
    tone: Option<Tone>,
}

#[kopf::schema]
#[derive(PartialEq)]
enum Tone {
    Polite,
    Rude,
}

/// With validation rules.
#[kopf::resource(
    group = "example.com",
    version = "v1",
    kind = "Limit",
    validation = "self.metadata.name == 'singleton'"
)]
struct LimitSpec {
    #[x_kube(validation = "self > 0")]
    greetings: u32,
}

/// Without a schema.
#[kopf::resource(group = "example.com", version = "v1", kind = "Anything", schema = "disabled")]
struct AnythingSpec {
    value: Value,
}

/// With plain derives.
#[derive(
    kopf::kube::CustomResource,
    kopf::serde::Serialize,
    kopf::serde::Deserialize,
    kopf::schemars::JsonSchema,
    Clone,
    Debug,
)]
#[kube(group = "example.com", version = "v1", kind = "Plain")]
#[kube(crates(
    kube = "kopf::kube",
    kube_core = "kopf::kube::core",
    k8s_openapi = "kopf::k8s_openapi",
    schemars = "kopf::schemars",
    serde = "kopf::serde",
    serde_json = "kopf::serde_json"
))]
#[serde(crate = "kopf::serde")]
#[schemars(crate = "kopf::schemars")]
struct PlainSpec {
    size: u32,
}

#[kopf::on::create(Greeting)]
async fn greet(greeting: kopf::Object<Greeting>, patch: kopf::Patch, events: kopf::Events) {
    let name = greeting.spec.full_name.as_deref().unwrap_or("world");
    patch.status().merge(GreetingStatus {
        message: Some(format!("Hello, {name}!")),
        tone: Some(Tone::Polite),
    });
    events.info("Greeted", name);
}

#[kopf::on::event(Limit)]
async fn limited(limit: kopf::Object<Limit>, logger: Logger) {
    logger.info(format_args!("{} greetings", limit.spec.greetings));
}

#[kopf::on::event(Anything)]
async fn seen(anything: kopf::Object<Anything>, State(tone): State<Tone>, logger: Logger) {
    kopf::tracing::info!("{tone:?}, not {:?}", Tone::Rude);
    logger.info(format_args!("{}", anything.spec.value));
}

#[kopf::on::event(Plain)]
async fn sized(plain: kopf::Object<Plain>) -> u32 {
    plain.spec.size
}

#[derive(Parser)]
#[command(version)]
struct Args {
    #[arg(long, global = true)]
    rude: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Operator(Commands),
}

fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let tone = if args.rude { Tone::Rude } else { Tone::Polite };
    let operator = Operator::builder()
        .handlers(kopf::handlers![greet, limited, seen, sized])
        .state(tone);
    let Command::Operator(commands) = args.command;
    Program::new(operator).execute(commands)
}
