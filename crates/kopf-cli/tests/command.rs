//! The `kopf` command: output, exit codes and files.

#![cfg(unix)] // signals are sent with kill(1)
#![allow(clippy::unwrap_used, clippy::panic)] // also in what is around the tests

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

const POD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n";

/// Returns the command with a separate runtime folder per test.
fn kopf(folder: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopf"));
    command
        .env("XDG_RUNTIME_DIR", folder.path())
        .env_remove("NO_COLOR")
        .current_dir(folder.path())
        .stdin(Stdio::null());
    command
}

fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    finish(kopf(folder).args(arguments))
}

/// Runs a command to its end, or kills it after a timeout.
fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..6000 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A running command, killed when dropped.
struct Running {
    child: Child,
    greeting: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        Self::until("Ctrl-C ends it", command)
    }

    fn until(words: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap());
        while !greeting.contains(words) {
            if lines.read_line(&mut greeting).unwrap() == 0 {
                let output = child.wait_with_output().unwrap();
                panic!(
                    "the command exited early: {greeting}{}",
                    text(&output.stderr)
                );
            }
        }
        Self { child, greeting }
    }

    fn value(&self, label: &str) -> String {
        let line = self
            .greeting
            .lines()
            .find(|line| line.trim_start().starts_with(label));
        line.unwrap()
            .trim_start()
            .strip_prefix(label)
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Sends a signal, and returns the exit code, the rest of stdout, and stderr.
    fn end(mut self, signal: &str) -> (Option<i32>, String, String) {
        let kill = Command::new("kill")
            .arg(signal)
            .arg(self.child.id().to_string())
            .status();
        assert!(kill.unwrap().success());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sandbox_prints_its_url_and_removes_its_files() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = TempDir::new().unwrap();
        let running = Running::start(kopf(&folder).arg("sandbox"));
        let url = running.value("listens on");
        let port = url.strip_prefix("https://127.0.0.1:").unwrap();
        let kubeconfig = folder
            .path()
            .join(format!("kopf-sandbox-{port}.kubeconfig"));
        assert_eq!(running.value("kubeconfig"), kubeconfig.to_str().unwrap());
        assert_eq!(
            running.value("export"),
            format!("KUBECONFIG={}", kubeconfig.display())
        );
        assert!(fs::read_to_string(&kubeconfig).unwrap().contains(&url));
        assert!(
            !running.greeting.contains('\u{1b}'),
            "colours in a pipe: {}",
            running.greeting
        );

        let (code, stdout, stderr) = running.end(signal);
        assert_eq!(code, Some(0), "{signal}: {stderr}");
        assert_eq!(
            stdout,
            "stopped; the objects and the kubeconfig are removed\n"
        );
        assert_eq!(stderr, "");
        assert_eq!(files(folder.path()), Vec::<String>::new());
    }
}

#[test]
fn a_chosen_kubeconfig_is_kept_and_replaced_by_the_next_sandbox() {
    let folder = TempDir::new().unwrap();
    for _ in 0..2 {
        let running = Running::start(kopf(&folder).args(["sandbox", "--kubeconfig", "mine.yaml"]));
        let url = running.value("listens on");
        assert_eq!(running.end("-INT").0, Some(0));
        assert!(
            fs::read_to_string(folder.path().join("mine.yaml"))
                .unwrap()
                .contains(&url)
        );
    }
}

#[test]
fn a_kubeconfig_of_another_server_is_not_overwritten() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("config"), "kind: Config\n").unwrap();
    let output = run(&folder, &["sandbox", "--kubeconfig", "config"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot write the kubeconfig config\n"));
    assert_eq!(
        fs::read_to_string(folder.path().join("config")).unwrap(),
        "kind: Config\n"
    );
}

#[test]
fn manifests_are_loaded_from_files_folders_and_stdin() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("objects")).unwrap();
    fs::write(folder.path().join("first.yaml"), POD).unwrap();
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
    let twins = format!("{POD}---\n{POD}");
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

#[test]
fn a_replaced_kubeconfig_is_not_removed() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(kopf(&folder).arg("sandbox"));
    let path = running.value("kubeconfig");
    fs::write(&path, "server: https://127.0.0.9:1\n").unwrap();
    let (code, stdout, _) = running.end("-INT");
    assert_eq!(code, Some(0));
    assert!(stdout.contains("belongs to another server"), "{stdout}");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "server: https://127.0.0.9:1\n"
    );
}

#[test]
fn a_port_in_use_is_reported() {
    let folder = TempDir::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&folder, &["sandbox", "--port", &port]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with(&format!("error: cannot listen on 127.0.0.1 port {port}\n")),
        "{stderr}"
    );
    assert!(stderr.contains("in use"), "{stderr}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn other_addresses_than_loopback_are_warned_about() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(kopf(&folder).args(["sandbox", "--address", "0.0.0.0"]));
    let (code, _, stderr) = running.end("-INT");
    assert_eq!(code, Some(0));
    assert!(
        stderr.starts_with("warning: listening on 0.0.0.0, not only on loopback"),
        "{stderr}"
    );
}

#[test]
fn operators_are_frozen_and_resumed() {
    let folder = TempDir::new().unwrap();
    let kinds = run(&folder, &["peering"]);
    assert_eq!(kinds.status.code(), Some(0));
    std::fs::write(folder.path().join("peering.yaml"), kinds.stdout).unwrap();
    let sandbox = Running::start(kopf(&folder).args(["sandbox", "-f", "peering.yaml"]));
    let leading = sandbox.value("kubeconfig");
    for (arguments, code, expected) in [
        (
            &[
                "freeze", "-n", "default", "-P", "default", "-t", "5", "-i", "me",
            ][..],
            0,
            "frozen in the peering 'default' in 'default' by me, for 5 seconds",
        ),
        (
            &["resume", "-n", "default", "-P", "default", "-i", "me"],
            0,
            "resumed in the peering 'default' in 'default' by me",
        ),
        (
            &["resume", "-n", "default", "-P", "default", "-i", "me"],
            0,
            "Nothing is resumed in the peering 'default' in 'default': nothing is frozen by me",
        ),
        (
            &["resume", "-n", "nothing-*", "-P", "default"],
            1,
            "no namespace matches the selection",
        ),
    ] {
        let output = finish(kopf(&folder).args(arguments).env("KUBECONFIG", &leading));
        let log = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {log}");
        assert!(log.contains(expected), "{arguments:?}: {log}");
    }
}

#[test]
fn operators_of_a_dead_cluster_are_not_frozen() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("dead");
    let dead = "{apiVersion: v1, kind: Config, current-context: c, \
                contexts: [{name: c, context: {cluster: c, user: u}}], \
                clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}], \
                users: [{name: u, user: {token: x}}]}";
    std::fs::write(&kubeconfig, dead).unwrap();
    let arguments = ["freeze", "-P", "default", "-t", "5"];
    let output = finish(kopf(&folder).args(arguments).env("KUBECONFIG", &kubeconfig));
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    for expected in ["are not frozen", "check that the API server runs"] {
        assert!(log.contains(expected), "{log}");
    }
}

#[test]
fn invalid_usage_exits_with_2_and_help_with_0() {
    let folder = TempDir::new().unwrap();
    for arguments in [
        &[][..],
        &["nonsense"],
        &["sandbox", "--prot", "1"],
        &["sandbox", "--port", "99999"],
        &["sandbox", "--address", "example"],
        &["sandbox", "-f"],
        &["demo", "more"],
        &["demo", "--twice"],
        &["freeze", "-P", "x"],
        &["resume"],
    ] {
        let output = run(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    for arguments in [&["--help"][..], &["sandbox", "--help"], &["--version"]] {
        let output = run(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
    let help = text(&run(&folder, &["sandbox", "--help"]).stdout);
    for option in [
        "--port",
        "--address",
        "--kubeconfig",
        "--filename",
        "Examples:",
    ] {
        assert!(help.contains(option), "{option} is not in the help: {help}");
    }
    let version = text(&run(&folder, &["--version"]).stdout);
    assert_eq!(version, format!("kopf {}\n", env!("CARGO_PKG_VERSION")));
}

/// Expected output of the demo, in this order.
const STORY: [&str; 17] = [
    "=> A Kubernetes API in this process",
    "=> An operator, with four handlers",
    "   on::create  open",
    "=> Create a bakery",
    "   | [town/corner] Handler 'open' is invoked.\n",
    "   | [town/corner] Handler 'open' failed temporarily: the oven is cold\n",
    "   | [town/corner] Baking 10 loaves of \"rye\".\n",
    "   | [town/corner] Handler 'open' succeeded.\n",
    "   | [town/corner] Creation is processed: 2 succeeded; 0 failed.\n",
    "attempts: 2\n",
    "=> Change it",
    "Difference: change spec.loaves: 10 -> 25\n",
    "   | [town/corner] Updating is processed: 2 succeeded; 0 failed.\n",
    "     corner   wheat   25       hot",
    "=> Delete it",
    "   | [town/corner] The oven is off.\n",
    "   Now it is gone.\n",
];

const DEMO_STOPPED: &str = "stopped; nothing is kept\n";

fn assert_story(stdout: &str) {
    let mut rest = stdout;
    for words in STORY {
        let Some((_, after)) = rest.split_once(words) else {
            panic!("{words:?} is missing or out of order:\n{stdout}");
        };
        rest = after;
    }
}

#[test]
fn demo_exits_after_the_last_step() {
    let folder = TempDir::new().unwrap();
    let output = run(&folder, &["demo", "--once"]);
    let stdout = text(&output.stdout);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert_story(&stdout);
    assert!(stdout.ends_with(DEMO_STOPPED), "{stdout}");
    assert!(!stdout.contains('\u{1b}'));
    assert_eq!(stderr, "");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn demo_keeps_running_by_default() {
    let folder = TempDir::new().unwrap();
    let running = Running::until(" kopf ui\n", kopf(&folder).arg("demo"));
    assert_story(&running.greeting);
    let kubeconfig = running.value("export KUBECONFIG=");
    let path = folder.path().to_str().unwrap();
    assert!(kubeconfig.starts_with(path), "{kubeconfig}");
    assert!(fs::exists(&kubeconfig).unwrap());
    let (code, stdout, stderr) = running.end("-INT");
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, DEMO_STOPPED);
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn demo_can_be_interrupted() {
    let folder = TempDir::new().unwrap();
    let running = Running::until("=> Create a bakery", kopf(&folder).arg("demo"));
    let (code, stdout, stderr) = running.end("-INT");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stdout.contains("=> Change it"), "{stdout}");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

/// Returns a command that runs a shell script on a sandbox.
fn on_sandbox(folder: &TempDir, script: &str) -> Command {
    let mut command = kopf(folder);
    command.args(["sandbox", "--", "sh", "-c", script]);
    command
}

#[test]
fn a_command_runs_on_the_sandbox_and_returns_its_exit_code() {
    let folder = TempDir::new().unwrap();
    let output = finish(&mut on_sandbox(
        &folder,
        "echo \"file $KUBECONFIG\"; grep server: \"$KUBECONFIG\"; exit 7",
    ));
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("file /"), "{stdout}");
    assert!(stdout.contains("server: \"https://127.0.0.1:"), "{stdout}");
    assert_eq!(text(&output.stderr), "");
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn a_command_killed_by_a_signal_returns_128_plus_its_number() {
    let folder = TempDir::new().unwrap();
    let output = finish(&mut on_sandbox(&folder, "kill -9 $$"));
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn a_missing_command_returns_127_and_files_are_removed() {
    let folder = TempDir::new().unwrap();
    let output = run(&folder, &["sandbox", "--", "./absent", "--flag"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).starts_with("error: cannot run ./absent\n"));
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[test]
fn invalid_manifests_prevent_the_command() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("bad.yaml"), "a: [1\n").unwrap();
    let output = run(
        &folder,
        &["sandbox", "-f", "bad.yaml", "--", "touch", "started"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(files(folder.path()), ["bad.yaml"]);
}

#[test]
fn signals_are_forwarded_to_the_command() {
    for (signal, name) in [("-INT", "INT"), ("-TERM", "TERM"), ("-USR1", "USR1")] {
        let folder = TempDir::new().unwrap();
        let script = format!(
            "trap 'echo caught {name}; exit 5' {name}; echo started; \
             while true; do sleep 0.05; done"
        );
        let running = Running::until("started", &mut on_sandbox(&folder, &script));
        let (code, stdout, stderr) = running.end(signal);
        assert_eq!(code, Some(5), "{signal}: {stderr}");
        assert_eq!(stdout, format!("caught {name}\n"));
        assert_eq!(files(folder.path()), Vec::<String>::new());
    }
}

const DUMP: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "shop",
 "uid": "00000000-0000-0000-0000-000000000001", "resourceVersion": "77"}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop",
 "uid": "00000000-0000-0000-0000-000000000002", "creationTimestamp": "2020-01-02T03:04:05Z",
 "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
  "uid": "00000000-0000-0000-0000-000000000001"}]},
 "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}}]}"#;

#[test]
fn dumps_are_imported_exported_and_kept() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("dump.json"), DUMP).unwrap();
    let output = run(
        &folder,
        &["sandbox", "import", "--data", "kept", "-f", "dump.json"],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "stored 2 objects in kept\n");

    let running = Running::until("Ctrl-C", kopf(&folder).args(["sandbox", "--data", "kept"]));
    assert_eq!(running.value("data"), "kept");
    let output = run(&folder, &["sandbox", "export", "--data", "kept"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("in use by another sandbox"), "{stderr}");
    let (code, stdout, _) = running.end("-TERM");
    assert_eq!(code, Some(0));
    let kept = "stopped; the objects are kept in kept, the kubeconfig is removed\n";
    assert!(stdout.ends_with(kept), "{stdout}");

    let output = run(
        &folder,
        &["sandbox", "export", "--data", "kept", "-o", "json"],
    );
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let items = list["items"].as_array().unwrap();
    let pod = items.iter().find(|item| item["kind"] == "Pod").unwrap();
    assert_eq!(
        pod["metadata"]["uid"],
        "00000000-0000-0000-0000-000000000002"
    );
    assert_eq!(pod["metadata"]["creationTimestamp"], "2020-01-02T03:04:05Z");
    assert_eq!(pod["status"]["phase"], "Running");
    let owner = &pod["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(owner, "00000000-0000-0000-0000-000000000001");

    // An export is a dump: a round trip through YAML changes nothing.
    let output = run(&folder, &["sandbox", "export", "--data", "kept"]);
    fs::write(folder.path().join("dump.yaml"), &output.stdout).unwrap();
    let again = ["sandbox", "import", "--data", "again", "-f", "dump.yaml"];
    let output = run(&folder, &again);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run(
        &folder,
        &["sandbox", "export", "--data", "again", "-o", "json"],
    );
    let mut second: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut first = list;
    for list in [&mut first, &mut second] {
        for item in list["items"].as_array_mut().unwrap() {
            item["metadata"]["resourceVersion"] = serde_json::Value::Null;
        }
    }
    assert_eq!(first, second);
}

#[test]
fn dumps_with_unusable_names_are_rejected() {
    let folder = TempDir::new().unwrap();
    let import = ["sandbox", "import", "--data", "kept", "-f", "dump.json"];
    let dump = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a/b"}}"#;
    fs::write(folder.path().join("dump.json"), dump).unwrap();
    let output = run(&folder, &import);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    let why = r#"invalid name "a/b": may not contain '/'"#;
    assert!(stderr.contains(why), "{stderr}");

    fs::write(folder.path().join("dump.json"), dump.replace("a/b", "a")).unwrap();
    let output = run(&folder, &import);
    assert_eq!(text(&output.stdout), "stored 1 object in kept\n");
}

#[test]
fn other_folders_are_rejected_as_data_folders() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("photos")).unwrap();
    fs::write(folder.path().join("photos/a.jpg"), "x").unwrap();
    for arguments in [
        &["sandbox", "--data", "photos"][..],
        &["sandbox", "export", "--data", "photos"],
        &["sandbox", "export", "--data", "absent"],
    ] {
        let output = run(&folder, arguments);
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("not a data folder of a sandbox")
                || stderr.contains("neither empty nor a data folder"),
            "{stderr}"
        );
    }
    assert_eq!(files(&folder.path().join("photos")), ["a.jpg"]);
    assert_eq!(files(folder.path()), ["photos"]);
}

#[test]
fn faults_are_read_from_a_file() {
    let folder = TempDir::new().unwrap();
    let rules = "- {fault: error, code: 503, verbs: [delete]}\n";
    fs::write(folder.path().join("faults.yaml"), rules).unwrap();
    let arguments = [
        "sandbox",
        "--faults",
        "faults.yaml",
        "--seed",
        "7",
        "--",
        "true",
    ];
    let output = run(&folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    fs::write(folder.path().join("faults.yaml"), "- {fault: rest}\n").unwrap();
    let output = run(&folder, &["sandbox", "--faults", "faults.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    let expected = "error: invalid faults in faults.yaml\n  rule 1: unknown variant `rest`";
    assert!(stderr.starts_with(expected), "{stderr}");
    let output = run(&folder, &["sandbox", "--faults", "absent.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot read absent.yaml\n"));
}
