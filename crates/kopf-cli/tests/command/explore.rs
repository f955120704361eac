//! `kopf explore`: usage, exit codes, findings and their files.

use std::fs;
use std::process::Output;

use tempfile::TempDir;

use crate::process::{finish, kopf, text};

/// Runs `kopf explore` on a folder with the files of the zoo.
fn explore(folder: &TempDir, arguments: &[&str]) -> Output {
    let zoo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/explore/zoo");
    for name in ["crd.yaml", "shop.yaml", "short.yaml"] {
        fs::copy(format!("{zoo}/{name}"), folder.path().join(name)).unwrap();
    }
    let arguments = arguments.iter().map(|word| word.replace("ZOO", zoo));
    finish(kopf(folder).arg("explore").args(arguments))
}

/// Expects the exit code 2 and this text on stderr.
fn refused(arguments: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = explore(&folder, arguments);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn bad_usage_is_refused() {
    refused(&["--", "true"], "no scenario is given");
    refused(
        &["-f", "crd.yaml", "--object", "shop.yaml"],
        "no command is given",
    );
    refused(&["--only", "crush"], "unknown deviation \"crush\"");
    refused(&["--always", "1 +"], "invalid expression");
    refused(&["--settle", "soon"], "invalid duration \"soon\"");
    refused(
        &["--object", "none.yaml", "--", "true"],
        "cannot read none.yaml",
    );
    refused(
        &["--object", "shop.yaml", "--", "true"],
        "unknown kind Shop",
    );
    refused(
        &["--replay", "shop.yaml"],
        "shop.yaml is not a file of a finding",
    );
}

#[test]
fn operators_without_a_reference_are_refused() {
    let with = |command: &[&'static str]| {
        let mut arguments = vec![
            "-f",
            "crd.yaml",
            "--object",
            "shop.yaml",
            "--settle",
            "200ms",
        ];
        arguments.extend(["--limit", "1s", "--"]);
        arguments.extend(command);
        arguments
    };
    refused(&with(&["/does/not/exist"]), "cannot start the operator");
    refused(&with(&["sleep", "60"]), "sent no request");
    refused(&with(&["sh", "-c", "echo oh no; exit 3"]), "oh no");
}

#[test]
fn derived_scenario_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let output = explore(
        &folder,
        &[
            "-f",
            "crd.yaml",
            "--object",
            "shop.yaml",
            "--print-scenario",
        ],
    );
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(printed.starts_with("steps:"), "{printed}");
    assert!(printed.contains("delete:"), "{printed}");
}

#[test]
fn findings_are_reported_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let output = explore(
        &folder,
        &[
            "-f",
            "crd.yaml",
            "--scenario",
            "short.yaml",
            "--only",
            "crash-after",
            "--settle",
            "600ms",
            "--limit",
            "5s",
            "--fail-fast",
            "--no-reduce",
            "--junit",
            "junit.xml",
            "--",
            "python3",
            "ZOO/python/two_children.py",
            "--bug",
        ],
    );
    let printed = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{printed}{}",
        text(&output.stderr)
    );
    assert!(
        printed.contains("configmaps/corner-b is missing"),
        "{printed}"
    );
    let report = folder.path().join("kopf-explore-report");
    for name in [
        "index.html",
        "report.json",
        "finding-1.yaml",
        "finding-1.log",
    ] {
        assert!(report.join(name).exists(), "{name}");
    }
    let junit = fs::read_to_string(folder.path().join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"1\""), "{junit}");

    // The folder is moved, and the command is run elsewhere: paths are relative to the file.
    let moved = tempfile::tempdir().unwrap();
    let home = moved.path().join("home");
    fs::rename(folder.path(), &home).unwrap();
    let file = "home/kopf-explore-report/finding-1.yaml";
    let output = finish(kopf(&moved).args([
        "explore",
        "--replay",
        file,
        "--report",
        "again",
        "--junit",
        "again.xml",
    ]));
    let printed = text(&output.stdout);
    let junit = fs::read_to_string(moved.path().join("again.xml")).unwrap();
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let replay = fs::read_to_string(moved.path().join("again/finding-1.yaml")).unwrap();
    assert!(replay.contains("../home/crd.yaml"), "{replay}");
    assert_eq!(
        output.status.code(),
        Some(1),
        "{printed}{}",
        text(&output.stderr)
    );
    assert!(printed.contains("is killed"), "{printed}");
    assert!(
        printed.contains("configmaps/corner-b is missing"),
        "{printed}"
    );
}

/// Explores one plan of an operator without a bug.
fn one_plan<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["-f", "crd.yaml", "--scenario", "short.yaml"];
    arguments.extend(["--settle", "400ms", "--limit", "5s", "--plans", "1"]);
    arguments.extend(["--only", "crash-after", "--no-reduce"]);
    arguments.extend(more);
    arguments.extend(["--", "python3", "ZOO/python/two_children.py"]);
    arguments
}

#[test]
fn findings_of_the_undisturbed_run_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let never = "object == null || object.metadata.name != 'corner-b'";
    let output = explore(&folder, &one_plan(&["--always", never, "--grace", "4s"]));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let file = "kopf-explore-report/finding-1.yaml";
    let content = fs::read_to_string(folder.path().join(file)).unwrap();
    assert!(content.contains("grace: 4000ms"), "{content}");
    let output = finish(kopf(&folder).args(["explore", "--replay", file]));
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(printed.contains("the invariant is violated"), "{printed}");
}

#[test]
fn findings_are_printed_before_the_report_fails() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("taken"), "a file").unwrap();
    let output = explore(
        &folder,
        &one_plan(&["--finally", "false", "--report", "taken"]),
    );
    assert_eq!(output.status.code(), Some(2));
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(printed.contains("Finding 1: not invariants"), "{printed}");
    assert!(errors.contains("cannot write taken"), "{errors}");
}

#[test]
fn points_that_are_not_reached_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = explore(&folder, &one_plan(&["--finally", "false"]));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let file = folder.path().join("kopf-explore-report/finding-1.yaml");
    let content = fs::read_to_string(&file).unwrap();
    let other = "\ndeviation:\n  deviation: crash-after\n  point:\n    step: 1\n    occurrence: 1\n    \
                 site: {verb: create, object: {resource: secrets, namespace: default, name: none}}\n";
    let start = content.find("\ndeviation:").unwrap_or(content.len());
    let end = content[start + 1..]
        .find('\n')
        .map_or(content.len(), |end| start + 1 + end + 1);
    let content = format!("{}{other}{}", &content[..start], &content[end..]);
    fs::write(&file, &content).unwrap();
    let output = finish(kopf(&folder).arg("explore").arg("--replay").arg(&file));
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{content}{errors}");
    assert!(
        errors.contains(
            "was not reached: the operator is killed after the 1st create of secrets/none"
        ),
        "{errors}"
    );
}
