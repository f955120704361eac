//! `kopf get`, `explain`, `retrigger`, `release` and `ui` on a sandbox.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)] // also in helper functions

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
const BASE: &str = "kopf.zalando.org/last-handled-configuration";

/// A sandbox in a separate process, with the objects of this file.
struct Sandbox {
    child: Child,
    folder: TempDir,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn crd(plural: &str, kind: &str, version: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                      "shortNames": [plural[..2]]},
            "versions": [{"name": version, "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn thing(name: &str, annotations: &Value, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations,
                     "finalizers": finalizers},
        "spec": {"field": 1},
    })
}

/// An object whose state has control characters and long texts.
fn hostile() -> Value {
    let evil = "\u{1b}[31m\u{9b}1m\u{202e}\r";
    let message = format!("{evil}{}", "x".repeat(10_000));
    let record = json!({"started": "2026-01-02T03:04:05Z", "delayed": "2099-01-02T03:04:05Z",
                        "retries": 2, "message": message});
    let essence = json!({"spec": {"field": evil}});
    let annotations = json!({
        BASE: essence.to_string(),
        "kopf.zalando.org/create_fn": record.to_string(),
        "kopf.zalando.org/retrigger-request": evil,
    });
    let mut hostile = thing("hostile", &annotations, &[]);
    hostile["metadata"]["namespace"] = json!("other");
    hostile
}

fn objects() -> Value {
    let current = r#"{"spec":{"field":1}}"#;
    let retried = r#"{"started":"2026-01-02T03:04:05Z","delayed":"2099-01-02T03:04:05Z","retries":2,"message":"not ready"}"#;
    let failed = r#"{"started":"2026-01-02T03:04:05Z","stopped":"2026-01-02T03:04:06Z","retries":1,"failure":true,"message":"bad spec"}"#;
    let items = [
        crd("things", "Thing", "v1"),
        // The preferred version of the group, which the things do not have.
        crd("others", "Other", "v2"),
        thing("settled", &json!({BASE: current}), &[FINALIZER]),
        thing(
            "changed",
            &json!({BASE: r#"{"spec":{"field":2}}"#}),
            &[FINALIZER],
        ),
        thing(
            "retrying",
            &json!({"kopf.zalando.org/create_fn": retried}),
            &[],
        ),
        thing(
            "failed",
            &json!({"kopf.zalando.org/create_fn": failed}),
            &[],
        ),
        thing(
            "unseen",
            &json!({"other.example/x": "y"}),
            &["other.example/x"],
        ),
        thing(
            "garbled",
            &json!({BASE: "{", "kopf.zalando.org/odd": "?"}),
            &[],
        ),
        hostile(),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

impl Sandbox {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("objects.json");
        fs::write(&file, objects().to_string()).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let mut child = Command::new(env!("CARGO_BIN_EXE_kopf"))
            .args(["sandbox", "-f"])
            .arg(&file)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let is_ready = lines
            .map_while(Result::ok)
            .any(|line| line.contains("Ctrl-C ends it"));
        assert!(is_ready);
        Self { child, folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kopf"));
        command
            .args(arguments)
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns the output of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Returns the error of a command that must fail with the exit code 1.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        text(&output.stderr)
    }

    fn state(&self, name: &str) -> Value {
        let output = self.done(&["get", "things", name, "-o", "json"]);
        let items: Value = serde_json::from_str(&output).unwrap();
        items["items"][0].clone()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn objects_are_listed_with_their_states() {
    let sandbox = Sandbox::start();
    let output = sandbox.done(&["get", "th", "-A"]);
    let lines: Vec<Vec<&str>> = output
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(lines[0], ["NAMESPACE", "NAME", "STATE", "AGE", "DETAILS"]);
    let state = |name: &str| {
        let line = lines.iter().find(|line| line.get(1) == Some(&name));
        line.unwrap_or_else(|| panic!("{name}: {output}"))[2]
    };
    for name in ["settled", "changed", "retrying", "failed"] {
        assert_eq!(state(name), name);
    }
    assert_eq!(state("unseen"), "not seen");
    assert_eq!(state("garbled"), "unreadable");
    assert!(!output.contains('\u{1b}'), "no colours in a pipe");

    let retrying = sandbox.state("retrying");
    assert_eq!(retrying["state"]["attempt"], 3);
    assert_eq!(retrying["state"]["message"], "not ready");
    for name in [
        "Thing",
        "thing",
        "things.example.com",
        "things.v1.example.com",
    ] {
        assert_eq!(sandbox.done(&["get", name]).lines().count(), 7, "{name}");
    }
    let wide = sandbox.done(&["get", "things", "-o", "wide"]);
    assert!(
        wide.lines().next().unwrap().contains("FINALIZERS"),
        "{wide}"
    );
    let nothing = sandbox.run(&["get", "things", "-n", "empty"]);
    assert!(nothing.status.success());
    assert!(text(&nothing.stderr).contains("no things.example.com in the namespace empty"));
    let empty = sandbox.done(&["get", "things", "-l", "a=b", "-o", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&empty).unwrap(),
        json!({"items": []})
    );
}

#[test]
fn objects_are_explained() {
    let sandbox = Sandbox::start();
    let output = sandbox.done(&["explain", "thing", "changed"]);
    for part in [
        "thing default/changed\nstate: changed 1 field\n",
        "  - spec.field: 2\n  + spec.field: 1\n",
        "KopfFinalizerMarker: the operator",
    ] {
        assert!(output.contains(part), "{part}\n---\n{output}");
    }
    let output = sandbox.done(&["explain", "thing", "garbled"]);
    assert!(
        output.contains("state: unreadable") && output.contains("  odd\n"),
        "{output}"
    );
    let output = sandbox.done(&["explain", "thing", "failed", "-o", "json"]);
    let story: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(story["handlers"][0]["message"], "bad spec");
}

#[test]
fn retriggered_objects_have_no_state() {
    let sandbox = Sandbox::start();
    for (name, expected) in [
        ("settled", "handling"),
        ("failed", "not seen"),
        ("garbled", "not seen"),
    ] {
        sandbox.done(&["retrigger", "thing", name]);
        assert_eq!(sandbox.state(name)["state"]["name"], expected);
    }
    let output = sandbox.done(&["retrigger", "thing", "unseen"]);
    assert!(output.contains("has no state of an operator"), "{output}");

    sandbox.done(&[
        "retrigger",
        "thing",
        "changed",
        "--handler",
        "fn/spec.field",
    ]);
    assert_eq!(
        sandbox.state("changed")["state"]["name"],
        "changed",
        "a request is not a change"
    );
    let story = sandbox.done(&["explain", "thing", "changed"]);
    assert!(story.contains("retrigger [fn/spec.field]"), "{story}");
}

#[test]
fn released_objects_have_neither_finalizer_nor_state() {
    let sandbox = Sandbox::start();
    let plan = sandbox.done(&["release", "things", "--all", "--dry-run"]);
    assert_eq!(plan.lines().count(), 5, "{plan}");
    let error = sandbox.fails(&["release", "things", "--all"]);
    assert!(
        error.contains("5 objects") && error.contains("add -y"),
        "{error}"
    );
    assert_eq!(
        sandbox.done(&["release", "things", "--all", "--dry-run"]),
        plan
    );

    sandbox.done(&["release", "things", "settled", "-y"]);
    let settled = sandbox.state("settled");
    assert_eq!(settled["finalizers"], json!([]));
    sandbox.done(&["release", "things", "--all", "-A", "-y"]);
    for name in ["changed", "retrying", "failed", "garbled"] {
        let object = sandbox.state(name);
        assert_eq!(
            (&object["state"]["name"], &object["finalizers"]),
            (&json!("not seen"), &json!([]))
        );
    }
    let other = sandbox.state("unseen");
    assert_eq!(
        other["finalizers"],
        json!(["other.example/x"]),
        "finalizers of others are kept"
    );
    let output = sandbox.done(&["release", "things", "--all", "-y"]);
    assert!(
        output.contains("no things.example.com has state"),
        "{output}"
    );
}

#[test]
fn changes_of_states_are_watched() {
    let sandbox = Sandbox::start();
    let mut watch = sandbox
        .command(&["get", "things", "-w", "-A"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let listed: Vec<_> = lines.by_ref().take(8).collect();
    assert!(listed[0].starts_with("NAMESPACE"), "{listed:?}");
    for (arguments, expected) in [
        (&["retrigger", "thing", "failed"][..], "not seen"),
        (&["retrigger", "thing", "settled"], "handling"),
        (&["release", "thing", "settled", "-y"], "not seen"),
    ] {
        sandbox.done(arguments);
        let line = lines.next().unwrap();
        assert!(
            line.contains(arguments[2]) && line.contains(expected),
            "{line}"
        );
    }
    watch.kill().unwrap();
    watch.wait().unwrap();

    let mut watch = sandbox
        .command(&["get", "thing", "retrying", "-w", "-o", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut rows = lines.map_while(Result::ok);
    let mut state = || {
        let row: Value = serde_json::from_str(&rows.next().unwrap()).unwrap();
        row["state"]["name"].clone()
    };
    assert_eq!(state(), "retrying");
    sandbox.done(&["retrigger", "thing", "changed"]);
    sandbox.done(&["retrigger", "thing", "retrying"]);
    assert_eq!(state(), "not seen");
    watch.kill().unwrap();
    watch.wait().unwrap();

    let error = sandbox.fails(&["get", "thing", "absent", "-w"]);
    assert!(error.contains("there is no thing"), "{error}");
}

#[test]
fn wrong_input_is_reported() {
    let sandbox = Sandbox::start();
    let error = sandbox.fails(&["get", "thing2s"]);
    assert!(
        error.contains("no resource \"thing2s\"") && error.contains("did you mean things"),
        "{error}"
    );
    let error = sandbox.fails(&["explain", "absentkind", "x"]);
    assert!(error.contains("CRD"), "{error}");
    for command in ["explain", "retrigger", "get"] {
        let error = sandbox.fails(&[command, "thing", "absent"]);
        assert!(
            error.contains("there is no thing default/absent"),
            "{error}"
        );
    }
    let error = sandbox.fails(&["get", "things", "--annotation-prefix", "a b"]);
    assert!(error.contains("invalid prefix"), "{error}");
    let error = sandbox.fails(&["get", "things", "--context", "absent"]);
    assert!(error.contains("cannot find a cluster"), "{error}");
    assert_eq!(sandbox.run(&["release", "things"]).status.code(), Some(2));
    for command in ["explain", "retrigger", "release"] {
        let output = sandbox.run(&[command, "things", ""]);
        assert_eq!(output.status.code(), Some(2), "{command}");
    }
    assert_eq!(sandbox.run(&["get"]).status.code(), Some(2));
}

#[test]
fn dead_servers_and_missing_permissions_are_reported() {
    let folder = TempDir::new().unwrap();
    let faults = folder.path().join("faults.yaml");
    let rule = "[{fault: error, code: 403, verbs: [list], kind: things}]";
    fs::write(&faults, rule).unwrap();
    let mut sandbox = Sandbox::with(&["--faults", faults.to_str().unwrap()]);
    for arguments in [&["get", "things"][..], &["get", "things", "-w"]] {
        let error = sandbox.fails(arguments);
        assert!(error.contains("cannot list things.example.com"), "{error}");
        assert!(error.contains("permission"), "{error}");
    }
    sandbox.child.kill().unwrap();
    sandbox.child.wait().unwrap();
    let error = sandbox.fails(&["get", "things"]);
    assert!(error.contains("check that the API server runs"), "{error}");
}

#[test]
fn missing_permission_to_watch_ends_the_watch() {
    let folder = TempDir::new().unwrap();
    let faults = folder.path().join("faults.yaml");
    let rule = "[{fault: error, code: 403, verbs: [watch], kind: things}]";
    fs::write(&faults, rule).unwrap();
    let sandbox = Sandbox::with(&["--faults", faults.to_str().unwrap()]);
    let error = sandbox.fails(&["get", "things", "-w"]);
    assert!(error.contains("cannot watch things.example.com"), "{error}");
    assert!(error.contains("permission"), "{error}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::start();
    for arguments in [
        &["get", "things"][..],
        &["explain", "thing", "failed"],
        &["peering"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = sandbox.command(arguments);
        let output = command.stdout(full.unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains("cannot write the output"), "{error}");
    }
}

#[test]
fn text_of_objects_is_escaped_and_cut() {
    let sandbox = Sandbox::start();
    let output = sandbox.done(&["get", "things", "hostile", "-n", "other"]);
    let line = output.lines().nth(1).unwrap();
    assert!(
        line.contains("\\u{1b}[31m") && line.contains("\\u{202e}"),
        "{line}"
    );
    assert!(line.ends_with('…') && line.chars().count() < 500, "{line}");
    let output = sandbox.done(&["explain", "thing", "hostile", "-n", "other"]);
    let is_control = |character: char| character.is_control() && character != '\n';
    assert!(!output.contains(is_control), "{output:?}");
    assert!(output.contains("retrigger: unreadable"), "{output}");
    let id = "\u{1b}[31mid";
    let retrigger = [
        "retrigger",
        "thing",
        "hostile",
        "-n",
        "other",
        "--handler",
        id,
    ];
    let output = sandbox.done(&retrigger);
    assert!(output.contains("\\u{1b}[31mid"), "{output:?}");
}

/// Sends a request, and returns the response up to its end or up to `until`.
fn ask(port: u16, request: &str, until: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let (mut response, mut buffer) = (String::new(), [0; 4096]);
    while until.is_empty() || !response.contains(until) {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            read => response.push_str(&String::from_utf8_lossy(&buffer[..read])),
        }
    }
    response
}

#[test]
fn the_page_needs_its_token_and_shows_objects() {
    let sandbox = Sandbox::start();
    let mut ui = sandbox
        .command(&["ui", "things"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(ui.stdout.as_mut().unwrap()).lines();
    let line = lines
        .map_while(Result::ok)
        .find(|line| line.starts_with("Open "))
        .unwrap();
    let (address, token) = line
        .strip_prefix("Open http://")
        .unwrap()
        .split_once("/?token=")
        .unwrap();
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let get = |path: &str, host: &str| {
        ask(
            port,
            &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
            "",
        )
    };
    let page = get(&format!("/?token={token}"), address);
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("<title>Kopf</title>"),
        "{page}"
    );
    for (path, host) in [
        ("/".to_owned(), address),
        ("/api/stream?token=x".to_owned(), address),
        (format!("/?token={token}"), "evil.example"),
    ] {
        assert!(
            get(&path, host).starts_with("HTTP/1.1 403"),
            "{path} {host}"
        );
    }
    let stream = format!("GET /api/stream?token={token} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let rows = ask(port, &stream, "garbled");
    assert!(rows.contains("event: reset"), "{rows}");
    let story = get(
        &format!("/api/object?token={token}&kind=things.example.com&namespace=default&name=failed"),
        address,
    );
    assert!(story.contains("bad spec"), "{story}");

    let body =
        json!({"kind": "things.example.com", "namespace": "default", "name": "failed"}).to_string();
    let post = |token: &str| {
        let length = body.len();
        let headers =
            format!("Host: {address}\r\nx-kopf-token: {token}\r\nContent-Length: {length}");
        ask(
            port,
            &format!(
                "POST /api/retrigger HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\r\n{body}"
            ),
            "",
        )
    };
    assert!(post("wrong").starts_with("HTTP/1.1 403"));
    assert_eq!(sandbox.state("failed")["state"]["name"], "failed");
    let done = post(token);
    assert!(
        done.starts_with("HTTP/1.1 200") && done.contains("new object"),
        "{done}"
    );
    assert_eq!(sandbox.state("failed")["state"]["name"], "not seen");
    ui.kill().unwrap();
    ui.wait().unwrap();
}

#[test]
fn a_port_in_use_is_reported() {
    let sandbox = Sandbox::start();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let error = sandbox.fails(&["ui", "things", "--port", &port]);
    assert!(
        error.contains("cannot listen") && error.contains("another --port"),
        "{error}"
    );
}
