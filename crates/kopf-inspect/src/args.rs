//! The command line: options, defaults and help texts.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use kopf_core::field::FieldPath;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::storages::Storages;

/// A complete command line, for callers without a parser.
#[derive(Debug, Parser)]
#[command(name = "kopf", disable_help_subcommand = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands about the state of handled objects.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List objects with the state of their handling
    Get(Box<GetArgs>),
    /// Show why an object is in its state, and what to do about it
    Explain(Box<ExplainArgs>),
    /// Call the handlers of an object again
    Retrigger(Box<RetriggerArgs>),
    /// Remove finalizers and annotations of an uninstalled operator
    Release(Box<ReleaseArgs>),
    /// Show objects, operators and errors on a local web page
    Ui(Box<UiArgs>),
}

/// The cluster, and the operator whose state is read.
#[derive(Debug, Default, Clone, ClapArgs)]
pub(crate) struct CommonArgs {
    /// The kubeconfig; default: $KUBECONFIG, ~/.kube/config, or the service account of the pod
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; default: its current context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The prefix of the operator's annotations; default: kopf.zalando.org
    #[arg(long, value_name = "PREFIX", help_heading = "Operator")]
    annotation_prefix: Option<String>,

    /// The finalizer of the operator; default: kopf.zalando.org/KopfFinalizerMarker
    #[arg(long, value_name = "NAME", help_heading = "Operator")]
    finalizer: Option<String>,

    /// A field that the operator ignores, such as spec.replicas; repeatable
    #[arg(
        long = "ignored-field",
        value_name = "FIELD",
        help_heading = "Operator"
    )]
    ignored_fields: Vec<String>,
}

impl CommonArgs {
    pub(crate) async fn connect(&self) -> Result<Cluster, Failure> {
        Cluster::connect(self.kubeconfig.clone(), self.context.clone()).await
    }

    pub(crate) fn storages(&self) -> Result<Storages, Failure> {
        let ignored: Vec<FieldPath> = self
            .ignored_fields
            .iter()
            .map(|field| FieldPath::parse(field))
            .collect();
        let (prefix, finalizer) = (self.annotation_prefix.as_deref(), self.finalizer.as_deref());
        Storages::new(prefix, finalizer, &ignored)
            .map_err(|error| Failure::new("invalid --annotation-prefix", &error))
    }
}

/// The namespace of one object.
#[derive(Debug, Default, Clone, ClapArgs)]
pub(crate) struct NamespaceArgs {
    /// The namespace; default: that of the context
    #[arg(short, long, value_name = "NAMESPACE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
}

/// The namespaces of a listing.
#[derive(Debug, Default, Clone, ClapArgs)]
pub(crate) struct ScopeArgs {
    /// The namespace; default: that of the context
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with = "all_namespaces"
    )]
    pub(crate) namespace: Option<String>,

    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

/// List objects with the state of their handling
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
States: settled, not seen, changed (not handled yet), handling, retrying, failed, blocked (by finalizers), deleting,
unreadable. They are read from the objects, and from k8s-events for failures without progress records.

Examples:
  kopf get kopfexamples -A
  kopf get kex one -o json
  kopf get bakeries.example.com -l app=x -o wide
  kopf get kex -w")]
pub struct GetArgs {
    /// The resource: plural, singular, short name, kind, or PLURAL.GROUP
    pub(crate) kind: String,

    /// The name of one object; default: all objects
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) scope: ScopeArgs,

    /// A label selector, such as app=x
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub(crate) selector: Option<String>,

    /// The format of the output
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,

    /// Print a line for each new state of an object, until Ctrl-C; as JSON, an object per line
    #[arg(short, long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table with more columns
    Wide,
    /// JSON
    Json,
}

/// Show why an object is in its state, and what to do about it
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  kopf explain kopfexample one -n default")]
pub struct ExplainArgs {
    /// The resource: plural, singular, short name, kind, or PLURAL.GROUP
    pub(crate) kind: String,

    /// The name of the object
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,

    /// The format of the output
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<ExplainOutput>,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The format of `kopf explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainOutput {
    /// JSON
    Json,
}

/// Call the handlers of an object again
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without --handler, the state of the operator is removed from the object, and the object is handled as a new one. This
also works with operators of the original Kopf. With --handler, one handler of creation, update or resuming is called;
the original ignores such requests.

Examples:
  kopf retrigger kopfexample one
  kopf retrigger kopfexample one --handler create_fn")]
pub struct RetriggerArgs {
    /// The resource: plural, singular, short name, kind, or PLURAL.GROUP
    pub(crate) kind: String,

    /// The name of the object
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: String,

    /// The id of one handler
    #[arg(long, value_name = "ID")]
    pub(crate) handler: Option<String>,

    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Remove finalizers and annotations of an uninstalled operator
#[derive(Debug, ClapArgs)]
#[command(
    group(ArgGroup::new("objects").args(["name", "all"]).required(true)),
    // The generated text has the group before the resource.
    override_usage = "kopf release [OPTIONS] <KIND> <NAME|--all>"
)]
#[command(after_help = "\
Stop the operator first: otherwise, it adds its finalizer again. Deletion handlers are not called.

Examples:
  kopf release kopfexamples --all -A --dry-run
  kopf release kopfexample one -y")]
pub struct ReleaseArgs {
    /// The resource: plural, singular, short name, kind, or PLURAL.GROUP
    pub(crate) kind: String,

    /// The name of one object
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,

    /// All objects of the namespace, or of all namespaces with -A
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) scope: ScopeArgs,

    /// List the objects without changing them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Show objects, operators and errors on a local web page
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The page is served on the loopback interface only, at a URL with a random token. Ctrl-C ends it.

Example:
  kopf ui kopfexamples bakeries.example.com")]
pub struct UiArgs {
    /// The resources; default: all custom resources
    pub(crate) kinds: Vec<String>,

    /// The port; default: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// The namespace; default: all namespaces
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        value_parser = NonEmptyStringValueParser::new(),
        conflicts_with = "all_namespaces"
    )]
    namespace: Option<String>,

    /// All namespaces, which is the default
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

impl UiArgs {
    /// Returns the namespace; `None` for all namespaces.
    pub(crate) fn namespace(&self) -> Option<&str> {
        let namespace = self.namespace.as_deref();
        namespace.filter(|_| !self.all_namespaces)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn names_and_labels_exclude_each_other() {
        let parse = |arguments: &[&str]| {
            let arguments = ["kopf", "get", "things"].iter().chain(arguments);
            Line::try_parse_from(arguments).is_ok()
        };
        assert!(parse(&["one", "-w"]) && parse(&["-l", "a=b", "-w"]));
        assert!(!parse(&["one", "-l", "a=b"]));
    }

    #[test]
    fn empty_names_are_rejected() {
        let parse = |line: &[&str]| Line::try_parse_from([&["kopf"], line].concat()).is_ok();
        for command in ["get", "explain", "retrigger", "release"] {
            assert!(parse(&[command, "things", "one", "-n", "x"]));
            assert!(!parse(&[command, "things", ""]), "{command}");
            assert!(!parse(&[command, "things", "one", "-n", ""]), "{command}");
        }
    }

    #[test]
    fn release_requires_a_name_or_all() {
        let parse = |arguments: &[&str]| {
            let arguments = ["kopf", "release", "things"].iter().chain(arguments);
            Line::try_parse_from(arguments).is_ok()
        };
        assert!(parse(&["one"]) && parse(&["--all"]) && parse(&["--all", "-A", "--dry-run"]));
        assert!(!parse(&[]) && !parse(&["one", "--all"]));
        assert!(!parse(&["--all", "-A", "-n", "x"]));
        let error = Line::try_parse_from(["kopf", "release", "things"]).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("  <NAME|--all>\n"), "{error}");
        assert!(error.contains("<KIND> <NAME|--all>"), "{error}");
    }

    #[test]
    fn the_page_shows_all_namespaces_by_default() {
        let namespace = |arguments: &[&str]| {
            let line = Line::try_parse_from([&["kopf", "ui", "things"], arguments].concat());
            line.map(|line| match line.command {
                Command::Ui(args) => args.namespace().map(str::to_owned),
                other => panic!("{other:?}"),
            })
        };
        for arguments in [&[][..], &["-A"], &["--all-namespaces"]] {
            assert_eq!(namespace(arguments).unwrap(), None, "{arguments:?}");
        }
        assert_eq!(namespace(&["-n", "x"]).unwrap().as_deref(), Some("x"));
        assert!(namespace(&["-A", "-n", "x"]).is_err());
    }
}
