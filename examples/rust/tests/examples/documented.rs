//! Runs the documented commands of the examples as they are written.

use std::fs;

use crate::program::{Program, executable, root};

/// Examples, each with a line that is logged when its documented command runs.
const EXAMPLES: [(&str, &str); 23] = [
    (
        "01-minimal",
        "Creation is processed: 1 succeeded; 0 failed.",
    ),
    (
        "02-children",
        "Creation is processed: 1 succeeded; 0 failed.",
    ),
    (
        "03-exceptions",
        "Creation is processed: 2 succeeded; 3 failed.",
    ),
    ("04-events", "Creation is processed: 1 succeeded; 0 failed."),
    ("05-handlers", "CREATED AGAIN"),
    ("06-peering", "Handled the create with the priority 0."),
    ("07-subhandlers", "=== Handling item2."),
    ("08-raw-events", "LISTED: kopf-example-1"),
    ("10-builtins", "Ctrl-C ends it"),
    (
        "11-filtering",
        "Creation is processed: 5 succeeded; 0 failed.",
    ),
    ("13-hooks", "Storing kopf-example-1 in db://somewhere."),
    ("14-daemons", "=> Pinging in a thread."),
    ("15-timers", "=> Ping: field=\"value\""),
    ("16-indexing", "0 of 0 pods have the same labels."),
    (
        "17-admission",
        "Reconfiguring the mutating webhook auto.kopf.dev.",
    ),
    ("19-reconcile", "Reconciling kopf-example-1: resumed."),
    ("99-all-at-once", "SEEN: \"value\""),
    ("ephemeral-volume-claims", "PVC my-claim is relabelled."),
    ("load-testing", "5 pods are created."),
    ("own-program", "Handler 'greet' succeeded."),
    (
        "simple-deployment",
        "Creation is processed: 1 succeeded; 0 failed.",
    ),
    ("tenant-nats", "The server of example-blobs is created."),
    ("tenant-onboarding", "Step 2: "),
];

/// Returns the arguments of the commands with this prefix.
fn commands<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .map(|line| line.trim_start_matches("//!").trim())
        .filter_map(move |line| line.strip_prefix(prefix))
}

#[tokio::test]
async fn documented_commands_run_the_examples_on_a_sandbox() {
    for (name, message) in EXAMPLES {
        let source = root().join(format!("examples/rust/{name}/main.rs"));
        let source = fs::read_to_string(source).unwrap();
        let cargo = format!("cargo run --bin {name} -- ");
        let command = commands(&source, &cargo).next().unwrap_or_else(|| {
            panic!("{name} does not document its command: {cargo}…");
        });
        let arguments: Vec<_> = command.split_whitespace().collect();
        assert!(arguments.contains(&"--sandbox"), "{name}: {command}");
        let mut program = Program::start(name, &arguments, &[]);
        program.await_log(message).await;
        program.stop().await;
    }
}

#[test]
fn all_examples_are_documented_and_tested() {
    let readme = fs::read_to_string(root().join("examples/README.md")).unwrap();
    let folders = fs::read_dir(root().join("examples/rust")).unwrap();
    let mut names: Vec<_> = folders
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("main.rs").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in &names {
        let link = format!("[{name}](rust/{name}/main.rs)");
        assert!(readme.contains(&link), "{link} is not in the README");
    }
    // 09-testing is run by its own test, and 12-embedded has no command line.
    names.retain(|name| name != "09-testing" && name != "12-embedded");
    assert_eq!(names, EXAMPLES.map(|(name, _)| name));
}

#[test]
fn all_options_of_programs_are_documented() {
    crate::options::check(executable("01-minimal"), &root());
}
