//! Command lines that do not start an operator.

use tempfile::TempDir;

use crate::process::{operator, output, text};

pub(crate) fn help_is_complete_and_exits_with_0() {
    let folder = TempDir::new().unwrap();
    let result = output(&mut operator(&folder, &["run", "--help"]));
    assert_eq!(result.status.code(), Some(0));
    let help = text(&result.stdout);
    for option in [
        "--all-namespaces",
        "--namespace",
        "--standalone",
        "--dev",
        "--liveness",
        "--metrics",
        "--peering",
        "--priority",
        "--verbose",
        "--debug",
        "--quiet",
        "--log-format",
        "--log-refkey",
        "--log-prefix",
        "--no-log-prefix",
        "--sandbox",
        "--filename",
    ] {
        assert!(help.contains(option), "{option} is not in the help: {help}");
    }
    for absent in ["--module", "PATHS"] {
        assert!(!help.contains(absent), "{absent} is in the help: {help}");
    }
    assert_eq!(
        output(&mut operator(&folder, &["--version"])).status.code(),
        Some(0)
    );
}

fn assert_usage(arguments: &[&str], expected: &str) {
    let folder = TempDir::new().unwrap();
    let result = output(&mut operator(&folder, arguments));
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
}

pub(crate) fn invalid_usage_exits_with_2() {
    assert_usage(&[], "Usage: ");
    assert_usage(&["nonsense"], "unrecognized subcommand");
    assert_usage(&["run", "--nonsense"], "unexpected argument");
    assert_usage(
        &["run", "--log-format", "xml"],
        "[possible values: plain, full, json]",
    );
    let both = "Either --namespace or --all-namespaces can be used, not both.";
    assert_usage(&["run", "-A", "-n", "x"], both);
    assert_usage(&["run", "-n", "a b"], "by commas, not by spaces");
    assert_usage(&["run", "-f", "x"], "requires --sandbox");
    assert_usage(&["run", "-p", "high"], "invalid value 'high'");
    assert_usage(&["freeze", "-P", "x"], "-t/--lifetime is required");
    assert_usage(&["resume"], "-P/--peering is required");
    assert_usage(&["run", "-L", "https://x/"], "only http:// is supported");
    assert_usage(&["run", "-L", "http://:x/"], "the port must be a number");
}

pub(crate) fn modules_and_paths_are_rejected() {
    assert_usage(
        &["run", "-m", "x"],
        "the handlers are compiled into this program",
    );
    assert_usage(
        &["run", "x.py"],
        "the handlers are compiled into this program",
    );
}

pub(crate) fn peering_crds_are_printed() {
    let folder = TempDir::new().unwrap();
    for (arguments, group) in [
        (&["peering"][..], "kopf.dev"),
        (&["peering", "--legacy"], "zalando.org"),
    ] {
        let result = output(&mut operator(&folder, arguments));
        assert_eq!(result.status.code(), Some(0));
        let text = text(&result.stdout);
        for plural in ["clusterkopfpeerings", "kopfpeerings"] {
            assert!(
                text.contains(&format!("\n  name: {plural}.{group}\n")),
                "{text}"
            );
        }
        assert_eq!(text.matches("\n  name: default\n").count(), 2, "{text}");
    }
}

pub(crate) fn variables_are_read() {
    let folder = TempDir::new().unwrap();
    let maybe = "'maybe' for the environment variable KOPF_RUN_CLUSTERWIDE";
    for (arguments, name, value, expected) in [
        (&["run"][..], "KOPF_RUN_CLUSTERWIDE", "maybe", maybe),
        (&["run", "-A"], "KOPF_RUN_NAMESPACE", "x", "not both"),
        (
            &["run", "-n", "x"],
            "KOPF_RUN_CLUSTERWIDE",
            "true",
            "not both",
        ),
        (
            &["run"],
            "KOPF_RUN_PRIORITY",
            "high",
            "KOPF_RUN_PRIORITY: must be an integer",
        ),
    ] {
        let result = output(operator(&folder, arguments).env(name, value));
        let stderr = text(&result.stderr);
        assert_eq!(result.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains(expected), "{name}: {stderr}");
    }
}
