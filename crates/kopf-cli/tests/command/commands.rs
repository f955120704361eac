//! `kopf freeze`, `resume` and `demo`, and the usage of all commands.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tempfile::TempDir;

use crate::process::{Running, files, finish, kopf, run, text};

#[test]
fn operators_are_frozen_and_resumed() {
    let folder = TempDir::new().unwrap();
    let kinds = run(&folder, &["peering"]);
    assert_eq!(kinds.status.code(), Some(0));
    fs::write(folder.path().join("peering.yaml"), kinds.stdout).unwrap();
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
    fs::write(&kubeconfig, dead).unwrap();
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
    let running = Running::until("/?token=", kopf(&folder).arg("demo"));
    assert_story(&running.greeting);
    let page = running.value("=> Or in a browser (`kopf ui`):");
    let (address, query) = page
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let headers = format!("Host: {address}\r\nConnection: close");
    write!(stream, "GET /{query} HTTP/1.1\r\n{headers}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
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

#[test]
fn all_options_are_documented() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    crate::options::check(env!("CARGO_BIN_EXE_kopf").as_ref(), &root);
}
