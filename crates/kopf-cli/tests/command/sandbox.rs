//! `kopf sandbox`: kubeconfigs, commands, dumps and faults.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::process::{Running, files, finish, kopf, run, text};

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
fn services_of_webhooks_are_mapped_to_urls() {
    let folder = TempDir::new().unwrap();
    let service = ["--service", "ops/op=https://127.0.0.1:9443"];
    let good = run(&folder, &["sandbox", service[0], service[1], "--", "true"]);
    assert!(good.status.success(), "{}", text(&good.stderr));
    let output = run(
        &folder,
        &["sandbox", "--service", "op=https://127.0.0.1:9443"],
    );
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("NAMESPACE/NAME=https://"), "{stderr}");
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

#[test]
fn answers_of_containers_are_read_from_a_file() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("answers.yaml"), "- {pod: db-0}\n").unwrap();
    let simulated = ["sandbox", "--simulate", "all", "--answers", "answers.yaml"];
    let output = run(&folder, &simulated);
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: invalid answers in answers.yaml\n  answer 1: must have either";
    assert!(
        text(&output.stderr).starts_with(expected),
        "{}",
        text(&output.stderr)
    );
    let output = run(&folder, &["sandbox", "--answers", "answers.yaml"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    fs::write(folder.path().join("answers.yaml"), "- {logs: ready}\n").unwrap();
    let output = run(&folder, &[&simulated[..], &["--", "true"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
