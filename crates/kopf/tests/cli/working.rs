//! Running operators and their exit.

use std::fs;
use std::path::Path;

use kopf::serde_json::{Value, from_str};
use tempfile::TempDir;

use crate::OPERATOR;
use crate::process::{Running, operator, output, text};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kopfexamples.kopf.dev}
spec:
  scope: Namespaced
  group: kopf.dev
  names: {kind: KopfExample, plural: kopfexamples, singular: kopfexample}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// Creates a folder with a CRD and an object.
pub(crate) fn folder(namespace: &str, spec: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("crd.yaml"), DEFINITION).unwrap();
    let object = format!(
        "apiVersion: kopf.dev/v1\nkind: KopfExample\n\
         metadata: {{name: example, namespace: {namespace}}}\nspec: {spec}\n"
    );
    fs::write(folder.path().join("obj.yaml"), object).unwrap();
    folder
}

pub(crate) const SANDBOX: [&str; 6] = ["run", "--sandbox", "-f", "obj.yaml", "-f", "crd.yaml"];

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) fn missing_cluster_exits_with_1() {
    let folder = TempDir::new().unwrap();
    let result = output(&mut operator(&folder, &["run", "--log-format", "plain"]));
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{stderr}");
    let has_line = stderr
        .lines()
        .any(|line| line == "The operator cannot log in");
    assert!(has_line, "{stderr}");
    assert!(stderr.contains("\n    Advice: set KUBECONFIG"), "{stderr}");
    assert!(!stderr.contains("cluster-wide"), "{stderr}");

    let result = output(&mut operator(
        &folder,
        &["run", "-A", "--log-format", "json"],
    ));
    assert_eq!(result.status.code(), Some(1));
    let stderr = text(&result.stderr);
    let last: Value = from_str(stderr.lines().last().unwrap()).unwrap();
    assert_eq!(last["severity"], "error");
    assert_eq!(last["message"], "The operator cannot log in");
    assert!(last["exc_info"].is_string());
}

pub(crate) fn invalid_manifests_exit_with_1_and_leave_no_files() {
    let folder = folder("default", "{}");
    fs::write(folder.path().join("bad.yaml"), "a: [1\n").unwrap();
    let result = output(&mut operator(
        &folder,
        &["run", "--sandbox", "-f", "bad.yaml"],
    ));
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("bad.yaml, document 1 cannot be understood"),
        "{stderr}"
    );
    let result = output(&mut operator(
        &folder,
        &["run", "--sandbox", "-f", "obj.yaml"],
    ));
    let stderr = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("unknown kind KopfExample in kopf.dev/v1"),
        "{stderr}"
    );
    assert_eq!(text(&result.stdout), "");
    assert_eq!(files(folder.path()), ["bad.yaml", "crd.yaml", "obj.yaml"]);
}

pub(crate) fn objects_in_the_sandbox_are_handled_until_a_signal() {
    for (signal, name) in [("-INT", "SIGINT"), ("-TERM", "SIGTERM")] {
        let folder = folder("default", "{field: value}");
        let mut running = Running::start(&mut operator(&folder, &SANDBOX));
        running.until("Creation is processed: 1 succeeded; 0 failed.");
        let kubeconfig = files(folder.path())
            .into_iter()
            .find(|name| name.ends_with(".kubeconfig"));
        let kubeconfig = folder.path().join(kubeconfig.unwrap());
        running.signal(signal);
        let (code, stdout, log) = running.end();
        assert_eq!(code, Some(0), "{log}");
        let line = " kopf::objects        [INFO    ] [default/example] Here we are: ";
        assert!(log.contains(line), "{log}");
        assert!(
            log.contains(&format!("Signal {name} is received. Operator is stopping.")),
            "{log}"
        );
        assert!(!log.contains("Absence of"), "{log}");
        let expected = format!("export KUBECONFIG={}\n", kubeconfig.display());
        assert!(stdout.contains(&expected), "{stdout}");
        assert!(stdout.contains("  loaded      2 objects\n"), "{stdout}");
        assert_eq!(files(folder.path()), ["crd.yaml", "obj.yaml"]);
    }
}

pub(crate) fn json_records_contain_the_object_under_the_configured_key() {
    let folder = folder("default", "{bad: true}");
    let mut command = operator(&folder, &["run"]);
    command.envs([
        ("KOPF_RUN_SANDBOX", "true"),
        ("KOPF_RUN_FILENAMES", "crd.yaml obj.yaml"),
        ("KOPF_RUN_LOG_FORMAT", "JSON"),
        ("KOPF_RUN_LOG_REFKEY", "k8s"),
        ("KOPF_RUN_NAMESPACES", "default other"),
    ]);
    let mut running = Running::start(&mut command);
    running.until("Creation is processed: 0 succeeded; 1 failed.");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    let records: Vec<Value> = log.lines().map(|line| from_str(line).unwrap()).collect();
    let failed = records.iter().find(|record| {
        let message = record["message"].as_str().unwrap();
        message.contains("no good")
    });
    let failed = failed.unwrap();
    assert_eq!(
        failed["message"],
        "Handler 'greet' failed permanently: no good"
    );
    assert_eq!(failed["severity"], "error");
    assert_eq!(failed["k8s"]["name"], "example");
    assert_eq!(failed["k8s"]["namespace"], "default");
    assert_eq!(failed["k8s"]["kind"], "KopfExample");
}

pub(crate) fn panics_are_logged_as_records() {
    let folder = folder("default", "{worst: true}");
    let arguments = [&SANDBOX[..], &["--log-format", "json"]].concat();
    let mut running = Running::start(&mut operator(&folder, &arguments));
    running.until("will try again in 60 seconds");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    let records: Vec<Value> = log.lines().map(|line| from_str(line).unwrap()).collect();
    let panicked = records.iter().find(|record| {
        let message = record["message"].as_str().unwrap();
        message.starts_with("Handler 'greet' has panicked at ")
    });
    let panicked = panicked.unwrap();
    assert_eq!(panicked["object"]["name"], "example");
    let message = panicked["message"].as_str().unwrap();
    assert!(message.ends_with(": worse than bad"), "{message}");
}

/// Sends two signals while the handler of such an object runs. Returns the folder and the log.
fn signalled_twice(spec: &str) -> (TempDir, String) {
    let folder = folder("default", spec);
    let mut running = Running::start(&mut operator(&folder, &SANDBOX));
    running.until("Here we are");
    running.signal("-TERM");
    running.until("Signal SIGTERM is received. Operator is stopping.");
    running.signal("-INT");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(1), "{log}");
    (folder, log)
}

pub(crate) fn second_signal_exits_immediately() {
    let (folder, log) = signalled_twice("{slow: true}");
    assert!(log.contains("Signal SIGINT is received again."), "{log}");
    assert_eq!(files(folder.path()), ["crd.yaml", "obj.yaml"]);
}

pub(crate) fn signals_work_while_a_handler_blocks() {
    signalled_twice("{blocks: true}");
}

/// Sends one signal while an async handler blocks its thread. Returns the log.
fn signalled_once(flavour: &str, name: &str, threads: &str, expected: i32) -> String {
    let folder = folder("default", "{blocks: true}");
    let mut command = operator(&folder, &SANDBOX);
    command.env(OPERATOR, flavour);
    let mut running = Running::start(command.env("TOKIO_WORKER_THREADS", threads));
    running.until("Here we are");
    running.signal(&format!("-{name}"));
    running.until(&format!(
        "Signal SIG{name} is received. Operator is stopping."
    ));
    let (code, _, log) = running.end();
    assert_eq!(code, Some(expected), "{log}");
    log
}

pub(crate) fn one_signal_stops_an_operator_with_its_only_thread_blocked() {
    let log = signalled_once("macros", "TERM", "1", 1);
    let text = "Async handlers block their threads and are abandoned: 'greet' of default/example.";
    assert!(log.contains(text), "{log}");
    assert!(
        log.contains("its thread is blocked. Exiting at once."),
        "{log}"
    );
}

pub(crate) fn one_signal_stops_an_operator_with_one_of_two_threads_blocked() {
    let log = signalled_once("macros", "HUP", "2", 0);
    let text = "Async handlers block their threads and are abandoned: 'greet' of default/example.";
    assert!(log.contains(text), "{log}");
}

pub(crate) fn one_signal_stops_an_operator_with_a_blocked_startup() {
    let log = signalled_once("blocked", "INT", "1", 1);
    let text = "Async handlers block their threads and are abandoned: 'stall' of the startup.";
    assert!(log.contains(text), "{log}");
}

/// Returns the kubeconfig of the operator's sandbox.
fn kubeconfig(folder: &TempDir) -> std::path::PathBuf {
    let mut names = files(folder.path()).into_iter();
    let name = names.find(|name| name.ends_with(".kubeconfig"));
    folder.path().join(name.unwrap())
}

pub(crate) fn commands_freeze_and_resume_the_operator() {
    let folder = folder("default", "{}");
    let kinds = output(&mut operator(&folder, &["peering"])).stdout;
    fs::write(folder.path().join("peering.yaml"), kinds).unwrap();
    let arguments = [&SANDBOX[..], &["-f", "peering.yaml", "-A", "-p", "5"]].concat();
    let mut running = Running::start(&mut operator(&folder, &arguments));
    running.until("Creation is processed: 1 succeeded; 0 failed.");
    let command = |arguments: &[&str]| {
        let mut command = operator(&folder, arguments);
        let result = output(command.env("KUBECONFIG", kubeconfig(&folder)));
        (result.status.code(), text(&result.stderr))
    };
    let freeze = ["freeze", "-A", "-P", "default", "-t", "60", "-i", "me@here"];
    let (code, log) = command(&freeze);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("frozen in the peering 'default' cluster-wide by me@here"),
        "{log}"
    );
    running.until("Pausing operations in favour of [<Peer me@here: priority=100, lifetime=60, ");
    let (code, log) = command(&["resume", "-A", "-P", "default", "-i", "me@here"]);
    assert_eq!(code, Some(0), "{log}");
    running.until("Resuming operations after the pause.");

    let (code, log) = command(&["freeze", "-A", "-P", "other", "-t", "60"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(
        log.contains("the peering \"other\" is not found cluster-wide"),
        "{log}"
    );
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
}

pub(crate) fn operator_waits_for_a_mandatory_peering() {
    let folder = folder("default", "{}");
    let arguments = [&SANDBOX[..], &["--peering", "special", "--dev"]].concat();
    let mut running = Running::start(&mut operator(&folder, &arguments));
    running.until("The CRDs of peering objects are not found. Operations are paused");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("Here we are"), "{log}");
}

pub(crate) fn command_line_overrides_namespaces_of_the_builder() {
    let folder = folder("chosen", "{}");
    let object = fs::read_to_string(folder.path().join("obj.yaml")).unwrap();
    let other = object.replace("namespace: chosen", "namespace: other");
    fs::write(folder.path().join("other.yaml"), other).unwrap();
    let all = ["run", "--sandbox", "-f", ".", "--log-format", "plain"];
    let mut command = operator(&folder, &all);
    let mut running = Running::start(command.env(crate::OPERATOR, "builder"));
    running.until("[chosen/example] Creation is processed");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("[other/example]"), "{log}");

    // The command line overrides the builder.
    let mut command = operator(&folder, &all);
    command
        .args(["-n", "other"])
        .env(crate::OPERATOR, "builder");
    let mut running = Running::start(&mut command);
    running.until("[other/example] Creation is processed");
    running.signal("-TERM");
    let (code, _, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("[chosen/example]"), "{log}");
}
