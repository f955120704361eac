//! Operators with one bug each, and their twins without it. The whole zoo is explored by
//! `make extended`, five of them here.

#![allow(clippy::unwrap_used, clippy::panic)] // also in what is around the tests

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_explore::Settings;
use kopf_explore::deviation::Family;
use kopf_explore::explore::{Exploration, working_folder};
use kopf_explore::outcome::Outcome;
use kopf_explore::run::{Launch, ProcessLauncher, Subject, World, survey};
use kopf_explore::scenario::{self, Scenario, variations};
use kopf_sandbox::manifests::Manifests;
use tokio_util::sync::CancellationToken;

fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/explore/zoo")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(zoo().join(name)).unwrap()
}

/// Returns the command of an operator with nothing but the standard library of Python.
fn python(name: &str, has_bug: bool) -> Vec<OsString> {
    let mut words = name.split(' ');
    let script = words.next().unwrap();
    let script = zoo().join("python").join(script).into_os_string();
    let mut command: Vec<OsString> = vec!["python3".into(), script];
    command.extend(words.map(OsString::from));
    if has_bug {
        command.push("--bug".into());
    }
    command
}

async fn exploration(command: Vec<OsString>, only: &[Family], file: Option<&str>) -> Exploration {
    let world = World {
        manifests: Manifests::read(&[zoo().join("crd.yaml")]).unwrap(),
        simulation: None,
        launcher: Arc::new(ProcessLauncher::new(command)),
    };
    let object = serde_saphyr::from_str(&read("shop.yaml")).unwrap();
    let schema = survey(&world, Some(&object)).await.unwrap().schema;
    let scenario: Scenario = match file {
        Some(file) => scenario::parse(file, &read(file)).unwrap(),
        None => scenario::derive(&object, schema.as_ref()).unwrap(),
    };
    let mut settings = Settings::default();
    settings.settle = Duration::from_millis(600);
    settings.limit = Duration::from_secs(6);
    settings.grace = Duration::from_secs(3);
    settings.only = only.to_vec();
    settings.references = 2;
    settings.reduce = false;
    settings.jobs = 4;
    Exploration {
        world,
        scenario,
        variations: variations(&object, schema.as_ref()),
        settings,
        folder: working_folder(None).unwrap().keep(),
    }
}

async fn explore(name: &str, has_bug: bool, only: &[Family], file: Option<&str>) -> Outcome {
    let mut exploration = exploration(python(name, has_bug), only, file).await;
    if only == [Family::Freeze] {
        exploration.settings.replicas = 2;
        exploration.settings.limit = Duration::from_secs(15);
    }
    exploration.settings.fail_fast = has_bug;
    let outcome = exploration.run(&CancellationToken::new(), &|_| {}).await;
    std::fs::remove_dir_all(&exploration.folder).unwrap();
    outcome.unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

fn texts(outcome: &Outcome) -> String {
    let findings = outcome.findings.iter().map(|finding| {
        let deviation = finding.deviation.as_ref().map(ToString::to_string);
        format!(
            "{}: {:#?}",
            deviation.unwrap_or_default(),
            finding.complaints
        )
    });
    findings.collect::<Vec<_>>().join("\n")
}

/// Finds the bug of an operator by one family of deviations, and nothing in its twin.
async fn found(name: &str, family: Family, file: Option<&str>) {
    let bug = explore(name, true, &[family], file).await;
    assert!(!bug.findings.is_empty(), "{name}: {bug:?}");
    let twin = explore(name, false, &[family], file).await;
    assert!(twin.findings.is_empty(), "{name}: {}", texts(&twin));
    assert!(twin.done > twin.not_reached, "{name}: {twin:?}");
}

/// A launcher that fails in one run.
struct Broken {
    inner: Arc<dyn Launch>,
    left: AtomicUsize,
}

impl Launch for Broken {
    fn subject(&self, folder: &Path) -> io::Result<Box<dyn Subject>> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            return Err(io::Error::other("no space left"));
        }
        self.inner.subject(folder)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_run_hides_no_findings() {
    let family = [Family::CrashAfter];
    let mut exploration =
        exploration(python("two_children.py", true), &family, Some("short.yaml")).await;
    // The two reference runs come first.
    exploration.world.launcher = Arc::new(Broken {
        inner: Arc::clone(&exploration.world.launcher),
        left: AtomicUsize::new(3),
    });
    let outcome = exploration.run(&CancellationToken::new(), &|_| {}).await;
    std::fs::remove_dir_all(&exploration.folder).unwrap();
    let outcome = outcome.unwrap();
    let [failed] = outcome.failed.as_slice() else {
        panic!("{:?}", outcome.failed);
    };
    assert_eq!(failed.why, "cannot prepare a run: no space left");
    assert!(!outcome.findings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_between_two_writes() {
    found("two_children.py", Family::CrashAfter, Some("short.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_response_of_a_creation() {
    found(
        "generated_name.py",
        Family::LostResponse,
        Some("short.yaml"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn label_of_another_client() {
    found("lost_update.py", Family::Interfere, Some("short.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn field_that_is_removed() {
    found("removed_field.py", Family::Respec, Some("short.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_request() {
    found("swallowed_error.py", Family::Reject, Some("short.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn expired_watch() {
    found("no_relist.py", Family::Expire, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn state_that_is_not_observed() {
    found("first_value.py", Family::Gap, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn server_that_lags() {
    found("stale_collector.py", Family::Stale, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn events_in_another_order() {
    found(
        "needs_secret.py",
        Family::Reorder,
        Some("shop-with-secret.yaml"),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn second_copy() {
    found("two_writers.py", Family::Overlap, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn ignored_sigterm() {
    found("deaf.py", Family::Term, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn slow_responses() {
    found("impatient.py", Family::Slow, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn crash_during_a_deletion() {
    found("finalizer.py", Family::CrashAfter, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn endless_repetition() {
    found("hot_loop.py", Family::LostResponse, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn frozen_leader() {
    found("elected.py", Family::Freeze, None).await;
}

/// A killed leader must not let the next one wait for its lease.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn lost_lease_and_crash_of_the_leader() {
    for (name, family) in [
        ("elected.py", Family::Lease),
        ("elected.py --long", Family::CrashBefore),
    ] {
        let twin = explore(name, false, &[family], Some("short.yaml")).await;
        assert!(twin.findings.is_empty(), "{}", texts(&twin));
        assert!(twin.done > twin.not_reached, "{twin:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn object_that_is_recreated_unseen() {
    found("unseen_owner.py", Family::Gap, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn change_that_is_undone() {
    found("whole_object.py", Family::Interfere, None).await;
}

/// Finds the bug of an operator in another language, which needs longer than one in plain Python.
async fn found_elsewhere(
    command: impl Fn(bool) -> Vec<OsString>,
    family: Family,
    file: Option<&str>,
) {
    for has_bug in [true, false] {
        let mut exploration = exploration(command(has_bug), &[family], file).await;
        exploration.settings.settle = Duration::from_secs(2);
        exploration.settings.limit = Duration::from_secs(25);
        exploration.settings.grace = Duration::from_secs(10);
        exploration.settings.fail_fast = has_bug;
        let outcome = exploration.run(&CancellationToken::new(), &|_| {}).await;
        std::fs::remove_dir_all(&exploration.folder).unwrap();
        let outcome = outcome.unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(!outcome.findings.is_empty(), has_bug, "{}", texts(&outcome));
        assert!(outcome.done > outcome.not_reached, "{outcome:?}");
    }
}

fn succeed(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// Builds the operators with controller-runtime, and returns the command of one of them.
fn go(name: &'static str) -> impl Fn(bool) -> Vec<OsString> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("zoo-{name}"));
    succeed(
        Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(zoo().join("go")),
    );
    move |has_bug| {
        let mut command = vec![program.clone().into(), "-operator".into(), name.into()];
        command.extend(has_bug.then(|| "-bug".into()));
        command
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn crash_of_an_operator_in_go() {
    found_elsewhere(go("halves"), Family::CrashAfter, Some("short.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn change_ignored_by_an_operator_in_go() {
    found_elsewhere(go("once"), Family::Respec, Some("short.yaml")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn finalizer_of_an_operator_in_go() {
    found_elsewhere(go("finalizer"), Family::CrashAfter, None).await;
}

/// Builds the operator with kube-rs, a workspace of its own, and returns its command.
fn kube_rs() -> impl Fn(bool) -> Vec<OsString> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zoo-kube-rs");
    succeed(
        Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "--target-dir"])
            .arg(&target)
            .current_dir(zoo().join("kube-rs")),
    );
    let program = target.join("debug/zoo-kube");
    move |has_bug| {
        let mut command = vec![program.clone().into()];
        command.extend(has_bug.then(|| "--bug".into()));
        command
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn rejected_request_of_an_operator_with_kube_rs() {
    found_elsewhere(kube_rs(), Family::Reject, Some("short.yaml")).await;
}

/// Builds the operator with the client of fabric8, and returns its command.
fn java() -> impl Fn(bool) -> Vec<OsString> {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zoo-java");
    succeed(
        Command::new("mvn")
            .args(["--batch-mode", "--quiet", "package"])
            .arg(format!("-Dzoo.output={}", output.display()))
            .current_dir(zoo().join("java")),
    );
    let classes = format!("{0}/classes:{0}/libraries/*", output.display());
    move |has_bug| {
        // Optimisation takes longer than a run.
        let options = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"];
        let mut command: Vec<OsString> = options.map(OsString::from).into();
        command.extend([classes.clone().into(), "zoo.Shops".into()]);
        command.extend(has_bug.then(|| "--bug".into()));
        command
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn crash_of_an_operator_in_java() {
    found_elsewhere(java(), Family::CrashAfter, Some("short.yaml")).await;
}

/// Returns the command of an operator with the original Kopf, which is installed into the cache once.
fn original(name: &'static str) -> impl Fn(bool) -> Vec<OsString> {
    let cache = std::env::var_os("KOPF_CACHE").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache/kopf"),
        PathBuf::from,
    );
    let environment = cache.join("explore-original-1.45.2");
    let python = environment.join("bin/python");
    if !environment.join("complete").exists() {
        succeed(
            Command::new("python3")
                .args(["-m", "venv"])
                .arg(&environment),
        );
        let install = ["-m", "pip", "install", "--quiet", "kopf==1.45.2"];
        succeed(Command::new(&python).args(install));
        std::fs::write(environment.join("complete"), "").unwrap();
    }
    move |has_bug| {
        let mut command: Vec<OsString> = vec!["env".into()];
        command.extend(has_bug.then(|| "BUG=1".into()));
        command.push(python.clone().into());
        let run = ["-m", "kopf", "run", "--standalone", "--namespace=default"];
        command.extend(run.map(OsString::from));
        command.push(zoo().join("kopf").join(name).into());
        command
    }
}

/// Of one test, because both install the package.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of make extended"]
async fn operators_with_the_original_kopf() {
    let file = Some("short.yaml");
    found_elsewhere(original("children.py"), Family::CrashAfter, file).await;
    found_elsewhere(original("field.py"), Family::Respec, file).await;
}
