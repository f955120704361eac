//! Manifests that a sandbox loads at its start.

use std::fs;
use std::io::Write as _;

use tempfile::TempDir;

use crate::process::{Running, files, kopf, run, text};

const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n";

#[test]
fn manifests_are_loaded_from_files_folders_and_stdin() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("objects")).unwrap();
    fs::write(folder.path().join("first.yaml"), CONFIG_MAP).unwrap();
    fs::write(
        folder.path().join("objects/second.json"),
        r#"{"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "second", "namespace": "space"}}"#,
    )
    .unwrap();
    let mut command = kopf(&folder);
    command.args([
        "sandbox",
        "-f",
        "first.yaml",
        "-f",
        "objects",
        "--filename",
        "-",
    ]);
    command.stdin(fs::File::open(stdin_file(&folder)).unwrap());
    let running = Running::start(&mut command);
    let loaded: Vec<_> = running
        .greeting
        .lines()
        .skip_while(|line| !line.contains("loaded"))
        .take(4)
        .collect();
    let expected = [
        "  loaded      3 objects",
        "    namespace/space (stdin, document 1)",
        "    configmap/first in default (first.yaml, document 1)",
        "    configmap/second in space (objects/second.json, document 1)",
    ];
    assert_eq!(loaded, expected);
    assert_eq!(running.end("-INT").0, Some(0));
}

fn stdin_file(folder: &TempDir) -> std::path::PathBuf {
    let path = folder.path().join("stdin");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(b"apiVersion: v1\nkind: Namespace\nmetadata: {name: space}\n")
        .unwrap();
    path
}

#[test]
fn custom_resources_are_loaded_after_their_definition() {
    let folder = TempDir::new().unwrap();
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo");
    // The objects are given first: arguments are not loaded in their order.
    let objects = format!("{demo}/2-objects.yaml");
    let definition = format!("{demo}/1-definition.yaml");
    let running =
        Running::start(kopf(&folder).args(["sandbox", "-f", &objects, "-f", &definition]));
    let greeting = running.greeting.clone();
    assert!(
        greeting.contains("    bakery.demo.kopf.dev/corner in town ("),
        "{greeting}"
    );
    assert_eq!(running.end("-INT").0, Some(0));
}

#[test]
fn manifests_may_contain_objects_of_the_server() {
    let folder = TempDir::new().unwrap();
    let manifest = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {a: b}}\n";
    fs::write(folder.path().join("a.yaml"), manifest).unwrap();
    let running = Running::start(kopf(&folder).args(["sandbox", "-f", "a.yaml"]));
    assert!(
        running.greeting.contains("    namespace/default ("),
        "{}",
        running.greeting
    );
    assert_eq!(running.end("-INT").0, Some(0));
}

#[test]
fn invalid_manifests_are_reported_before_the_start() {
    let twins = format!("{CONFIG_MAP}---\n{CONFIG_MAP}");
    let cases = [
        (
            "a: [1\n",
            "error: bad.yaml, document 1 cannot be understood\n",
        ),
        (
            "just a text\n",
            "error: bad.yaml, document 1 is not a Kubernetes object\n",
        ),
        (
            "kind: Pod\n",
            "error: bad.yaml, document 1 is not a Kubernetes object\n",
        ),
        (&twins, "error: duplicate object: ConfigMap first\n"),
        (
            "apiVersion: nowhere.dev/v1\nkind: Thing\nmetadata: {name: x}\n",
            "error: 1 of 1 objects cannot be created\n  bad.yaml, document 1: Thing x: unknown kind \
             Thing in nowhere.dev/v1",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: UPPER}\n",
            "error: 1 of 1 objects cannot be created\n  bad.yaml, document 1: ConfigMap x: its \
             namespace: 422 Invalid: ",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER}\n",
            "error: 1 of 1 objects cannot be created\n  bad.yaml, document 1: ConfigMap UPPER: 422 \
             Invalid: ",
        ),
    ];
    for (manifest, expected) in cases {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("bad.yaml"), manifest).unwrap();
        let output = run(&folder, &["sandbox", "-f", "bad.yaml"]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{manifest}: {stderr}");
        assert!(stderr.starts_with(expected), "{manifest}: {stderr}");
        assert!(stderr.contains("\nadvice: "), "{manifest}: {stderr}");
        assert_eq!(text(&output.stdout), "");
        assert_eq!(files(folder.path()), ["bad.yaml"]);
    }
}

#[test]
fn missing_files_and_empty_folders_are_rejected() {
    let folder = TempDir::new().unwrap();
    let output = run(&folder, &["sandbox", "-f", "absent.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot read absent.yaml\n  No such file"));
    let output = run(&folder, &["sandbox", "-f", "."]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: . has no manifests\n"));
}

#[test]
fn a_copy_of_a_cluster_keeps_its_owners_and_gets_its_namespaces() {
    let folder = TempDir::new().unwrap();
    let object = |index: usize| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{
                "name": "a{index}", "namespace": "shop", "uid": "u{index}", "ownerReferences": [
                    {{"apiVersion": "v1", "kind": "ConfigMap", "name": "away", "uid": "away"}}
                ]}}}}"#
        )
    };
    let items: Vec<_> = (0..30).map(object).collect();
    let items = items.join(",");
    let text = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{items}]}}"#);
    fs::write(folder.path().join("copy.json"), text).unwrap();
    let running = Running::start(kopf(&folder).args(["sandbox", "-f", "copy.json"]));
    let loaded: Vec<_> = running
        .greeting
        .lines()
        .skip_while(|line| !line.contains("  loaded  "))
        .take_while(|line| !line.is_empty())
        .collect();
    assert_eq!(loaded.len(), 22, "{loaded:#?}");
    assert_eq!(loaded[0], "  loaded      31 objects");
    assert_eq!(loaded[1], "    namespace/shop (made for configmap/a0)");
    assert_eq!(loaded[21], "    … and 11 more");
    let (code, _, stderr) = running.end("-INT");
    assert_eq!(code, Some(0));
    assert!(
        stderr.starts_with("warning: 30 references to owners that are not among"),
        "{stderr}"
    );
}

#[test]
fn empty_manifests_are_warned_about() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(kopf(&folder).args(["sandbox", "-f", "-"]));
    let (code, _, stderr) = running.end("-INT");
    assert_eq!(code, Some(0));
    assert_eq!(stderr, "warning: no objects to load in stdin\n");
}
