//! The commands in the sources and in the README are what it takes: they are run as they are written.

use std::fs;

use crate::program::{Program, root};

/// An example, and what its documented command leads to.
const EXAMPLES: [(&str, &str); 22] = [
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
    ("05-handlers", "CREATED, too"),
    ("06-peering", "Handled the create with the priority 0."),
    ("07-subhandlers", "=== Handling item2."),
    ("08-raw-events", "LISTED: kopf-example-1"),
    ("10-builtins", "Ctrl-C ends it"),
    (
        "11-filtering",
        "Creation is processed: 5 succeeded; 0 failed.",
    ),
    ("13-hooks", "kopf-example-1 goes to db://somewhere"),
    ("14-daemons", "=> Pinging in a thread."),
    ("15-timers", "=> Ping: field=\"value\""),
    ("16-indexing", "0 of 0 pods are labelled alike."),
    (
        "17-admission",
        "Reconfiguring the mutating webhook auto.kopf.dev.",
    ),
    ("99-all-at-once", "SEEN: \"value\""),
    ("ephemeral-volume-claims", "PVC my-claim is relabelled."),
    ("load-testing", "5 pods are started."),
    ("own-program", "Handler 'greet' succeeded."),
    (
        "simple-deployment",
        "Creation is processed: 1 succeeded; 0 failed.",
    ),
    ("tenant-nats", "Messages of example-blobs are passed on."),
    ("tenant-onboarding", "Step 2: "),
];

/// The commands which begin so.
fn commands<'a>(text: &'a str, beginning: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .map(|line| line.trim_start_matches("//!").trim())
        .filter_map(move |line| line.strip_prefix(beginning))
}

#[tokio::test]
async fn the_command_in_the_source_runs_the_example_on_a_sandbox() {
    for (name, words) in EXAMPLES {
        let source = root().join(format!("examples/rust/{name}/main.rs"));
        let source = fs::read_to_string(source).unwrap();
        let cargo = format!("cargo run --bin {name} -- ");
        let command = commands(&source, &cargo).next().unwrap_or_else(|| {
            panic!("{name} does not say how it is run: {cargo}…");
        });
        let arguments: Vec<_> = command.split_whitespace().collect();
        assert!(arguments.contains(&"--sandbox"), "{name}: {command}");
        let mut program = Program::start(name, &arguments, &[]);
        program.says(words).await;
        program.stop().await;
    }
}

#[test]
fn all_examples_are_in_the_readme_and_here() {
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
    // The one about testing is run by its test, and the embedded one has no command line.
    names.retain(|name| name != "09-testing" && name != "12-embedded");
    assert_eq!(names, EXAMPLES.map(|(name, _)| name));
}
