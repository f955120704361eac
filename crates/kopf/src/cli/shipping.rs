//! `crd`, `rbac` and `manifests`: manifests of the operator, as YAML for kubectl or as a Helm
//! chart.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args as ClapArgs;
use kopf_core::failure::describe;
use kopf_core::handler::HandlerKind;
use kopf_core::namespace::Scope;
use kopf_core::rights::{ExtraPermission, Requirements};
use kopf_core::settings::Replication;
use kopf_shipping::{Deployment, File, Identity, Launch, Plan, Webhooks};
use serde_json::Value;

use super::manifests::print;
use super::usage::Usage;
use crate::{Operator, OperatorBuilder};

/// Print the CRDs of the resources, as YAML for kubectl
///
/// Prints the CRDs of resources that handlers declare by types (`#[kopf::resource(…)]`), and those
/// of `OperatorBuilder::crd`.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(after_help = "Example:\n  crd | kubectl apply --server-side -f -")]
pub(super) struct CrdArgs {}

/// Print the service account, the roles and the bindings that the operator needs, as YAML for kubectl
///
/// They contain the permissions of the framework. Add permissions for requests of handlers, such as
/// the creation of other objects, with --allow.
#[derive(Debug, Default, Clone, ClapArgs)]
#[command(
    after_help = "Examples:\n  rbac\n  rbac --serve team-a --allow create,patch:deployments.apps"
)]
pub(super) struct RbacArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

/// Print the namespace, the CRDs, the roles, the Deployment and the Service of the operator, as YAML for kubectl
#[derive(Debug, Clone, ClapArgs)]
#[command(
    after_help = "Examples:\n  manifests --image registry.example/op:1 | kubectl apply --server-side -f -\n  \
                  manifests --image registry.example/op:1 --helm chart/"
)]
pub(super) struct ManifestsArgs {
    #[command(flatten)]
    plan: PlanArgs,

    /// Image; default: NAME:latest
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Number of pods
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    replicas: u32,

    /// Write a Helm chart into this folder, which must be empty or absent
    #[arg(long, value_name = "DIR")]
    helm: Option<PathBuf>,
}

/// Options of both commands.
#[derive(Debug, Default, Clone, ClapArgs)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
struct PlanArgs {
    /// Name of all objects; default: that of the program
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Namespace of the operator; default: its name
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Namespace to serve, like `run --namespace`; can be repeated; default: all namespaces
    #[arg(long, value_name = "PATTERN")]
    serve: Vec<String>,

    /// Permissions for requests of handlers: VERBS:RESOURCE[.GROUP][/SUBRESOURCE]; can be repeated
    #[arg(long, value_name = "PERMISSION")]
    allow: Vec<ExtraPermission>,

    /// File with CRDs of other resources, for their groups and scopes; can be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    filenames: Vec<PathBuf>,

    /// Ignore other operators, like `run --standalone`
    #[arg(long)]
    standalone: bool,

    /// Peering object, like `run --peering`
    #[arg(long, value_name = "NAME")]
    peering: Option<String>,

    /// Name of webhook configurations, if startup handlers set `settings.admission.managed`
    #[arg(long, value_name = "NAME")]
    managed_webhooks: Option<String>,

    /// Install CRDs at the start, like `run --install-crds`
    #[arg(long)]
    install_crds: bool,

    /// Elect a leader, like `run --leader-elect`
    #[arg(long)]
    leader_elect: bool,
}

/// A command with checked options.
#[derive(Debug)]
pub(super) enum ShippingCommand {
    Crd,
    Rbac(Plan),
    Manifests(Plan, Pods),
}

/// Options of the Deployment.
#[derive(Debug)]
pub(super) struct Pods {
    image: String,
    replicas: u32,
    helm: Option<PathBuf>,
}

impl RbacArgs {
    pub(super) fn command(&self) -> Result<ShippingCommand, Usage> {
        Ok(ShippingCommand::Rbac(self.plan.plan()?))
    }
}

impl ManifestsArgs {
    pub(super) fn command(&self) -> Result<ShippingCommand, Usage> {
        let plan = self.plan.plan()?;
        let image = self.image.clone();
        let pods = Pods {
            image: image.unwrap_or_else(|| format!("{}:latest", plan.identity.name)),
            replicas: self.replicas,
            helm: self.helm.clone(),
        };
        Ok(ShippingCommand::Manifests(plan, pods))
    }
}

impl PlanArgs {
    fn plan(&self) -> Result<Plan, Usage> {
        let name = self.name.clone().unwrap_or_else(own_name);
        let namespace = self.namespace.as_deref().unwrap_or(&name);
        let launch = Launch {
            namespaces: self.serve.clone(),
            standalone: self.standalone,
            peering: self.peering.clone(),
            installs_definitions: self.install_crds,
            lease: self.leader_elect.then(|| name.clone()),
        };
        launch.scope()?;
        Ok(Plan {
            identity: Identity::new(&name, namespace)?,
            launch,
            extras: self.allow.clone(),
            managed_webhooks: self.managed_webhooks.clone(),
            definitions: Vec::new(),
            other_definitions: read(&self.filenames)?,
        })
    }
}

/// Returns the name of the program.
fn own_name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let stem = program.as_deref().and_then(Path::file_stem);
    Identity::name_of(&stem.unwrap_or_default().to_string_lossy())
}

/// Reads CRDs from files.
fn read(filenames: &[PathBuf]) -> Result<Vec<Value>, Usage> {
    let mut definitions = Vec::new();
    for filename in filenames {
        let name = filename.display().to_string();
        let text = std::fs::read_to_string(filename).map_err(|source| Usage::Unreadable {
            name: name.clone(),
            source,
        })?;
        definitions.extend(kopf_shipping::definitions(&name, &text)?);
    }
    Ok(definitions)
}

type AnyError = Box<dyn std::error::Error>;

impl ShippingCommand {
    pub(super) fn run(self, builder: OperatorBuilder) -> ExitCode {
        match self.text(builder) {
            Ok(text) => print(&text),
            Err(error) => {
                print_note(&format!("error: {}", describe(&*error)));
                ExitCode::FAILURE
            }
        }
    }

    fn text(self, builder: OperatorBuilder) -> Result<String, AnyError> {
        let has_scope = builder.has_scope();
        let operator = builder.build()?;
        let definitions = operator.definitions();
        for name in &definitions.without_schema {
            print_note(&format!(
                "note: the CRD {name} is omitted: its type has no schema (schema = \"disabled\")"
            ));
        }
        let (mut plan, pods) = match self {
            Self::Crd if definitions.complete.is_empty() => {
                let message = "no handler uses a resource type with a schema: use a type with \
                               #[kopf::resource(…)], or OperatorBuilder::crd";
                return Err(message.into());
            }
            Self::Crd => return Ok(kopf_shipping::documents(&definitions.complete)?),
            Self::Rbac(plan) => (plan, None),
            Self::Manifests(plan, pods) => (plan, Some(pods)),
        };
        plan.definitions.clone_from(&definitions.complete);
        if has_scope && plan.launch.namespaces.is_empty() {
            plan.launch.namespaces = patterns(operator.scope());
        }
        let registry = operator.registry();
        let requirements = plan.requirements(&registry, operator.settings())?;
        for note in kopf_shipping::notes(&registry, &requirements) {
            print_note(&format!("note: {note}"));
        }
        match pods {
            None => Ok(kopf_shipping::rbac(&plan.identity, &requirements)),
            Some(pods) => pods.text(&plan, &requirements, &operator),
        }
    }
}

impl Pods {
    fn text(
        self,
        plan: &Plan,
        requirements: &Requirements,
        operator: &Operator,
    ) -> Result<String, AnyError> {
        let is_single = operator.settings().leading.replication() == Replication::Single;
        if let Some(note) = plan.note_on_replicas(self.replicas).filter(|_| is_single) {
            print_note(&format!("note: {note}"));
        }
        let registry = operator.registry();
        let mut handlers = registry.handlers().iter();
        let is_reviewing = handlers.any(|handler| {
            matches!(
                handler.kind,
                HandlerKind::Admission(_) | HandlerKind::Convert
            )
        });
        let deployment = Deployment {
            image: self.image,
            replicas: self.replicas,
            command: Vec::new(),
            arguments: plan.launch.arguments(),
            files: Vec::new(),
            webhooks: if is_reviewing {
                Webhooks::Served
            } else {
                Webhooks::Absent
            },
        };
        let (identity, definitions) = (&plan.identity, &plan.definitions);
        let Some(folder) = self.helm else {
            let text = kopf_shipping::manifests(identity, requirements, definitions, &deployment)?;
            return Ok(text);
        };
        let files = kopf_shipping::chart(plan, &registry, operator.settings(), &deployment)?;
        kopf_shipping::write_new(&folder, &files)?;
        Ok(listing(&folder, &files))
    }
}

fn listing(folder: &Path, files: &[File]) -> String {
    let paths = files.iter().map(|file| folder.join(&file.path));
    let lines: Vec<_> = paths.map(|path| format!("{}\n", path.display())).collect();
    lines.concat()
}

fn patterns(scope: &Scope) -> Vec<String> {
    match scope {
        Scope::Cluster => Vec::new(),
        Scope::Namespaces(patterns) => patterns.iter().map(ToString::to_string).collect(),
    }
}

/// Writes a message to stderr. Stdout is for the manifests.
fn print_note(line: &str) {
    // The reader may have closed the pipe.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
