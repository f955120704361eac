//! Tests of data folders: restarts, crashes and damage.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kopf_sandbox::{DataError, Error, Sandbox};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Api, CONFIG_MAPS, DEFINITIONS, config_map, definition, in_time};

const WIDGETS: &str = "/apis/test.dev/v1/namespaces/default/widgets";

fn sandbox(folder: &Path) -> Sandbox {
    Sandbox::builder().data(folder).build().unwrap()
}

fn refusal(folder: &Path) -> DataError {
    match Sandbox::builder().data(folder).build() {
        Err(Error::Data { source, .. }) => source,
        other => panic!("expected an error: {other:?}"),
    }
}

fn widget(name: &str, owner: Option<&Value>) -> Value {
    let owners: Vec<Value> = owner
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            })
        })
        .into_iter()
        .collect();
    json!({
        "apiVersion": "test.dev/v1", "kind": "Widget",
        "metadata": { "name": name, "ownerReferences": owners },
        "spec": { "size": 1 },
    })
}

#[tokio::test]
async fn objects_and_kinds_survive_a_restart() {
    let folder = TempDir::new().unwrap();
    let first = sandbox(folder.path());
    let api = Api::of(&first);
    api.create(DEFINITIONS, &definition("widgets", "Widget"))
        .await;
    let kept = api.create(CONFIG_MAPS, &config_map("kept", "1")).await;
    let owned = api
        .create(WIDGETS, &widget("owned", Some(&kept.json())))
        .await;
    assert_eq!(owned.code, 201, "{}", owned.json());
    api.create(CONFIG_MAPS, &config_map("gone", "1")).await;
    api.delete(&format!("{CONFIG_MAPS}/gone")).await;
    let before = api.get(&format!("{WIDGETS}/owned")).await.json();
    let version = api.version(CONFIG_MAPS).await;
    first.shutdown().await;

    let second = sandbox(folder.path());
    let api = Api::of(&second);
    assert_eq!(api.get(&format!("{WIDGETS}/owned")).await.json(), before);
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/gone")).await.code, 404);
    let now: u64 = api.version(CONFIG_MAPS).await.parse().unwrap();
    assert!(now >= version.parse().unwrap(), "{now} < {version}");
    let created = api.create(CONFIG_MAPS, &config_map("gone", "2")).await;
    let revision = created.json()["metadata"]["resourceVersion"].clone();
    assert!(revision.as_str().unwrap().parse::<u64>().unwrap() > now);

    // Owner references are restored: the widget is deleted with its config map.
    api.delete(&format!("{CONFIG_MAPS}/kept")).await;
    in_time("the end of a dependent", async {
        while api.get(&format!("{WIDGETS}/owned")).await.code != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    second.shutdown().await;
}

#[tokio::test]
async fn watches_from_before_a_restart_expire_or_continue() {
    let folder = TempDir::new().unwrap();
    let first = sandbox(folder.path());
    let api = Api::of(&first);
    let old = api.version(CONFIG_MAPS).await;
    api.create(CONFIG_MAPS, &config_map("a", "1")).await;
    let last = api.version(CONFIG_MAPS).await;
    first.shutdown().await;

    let second = sandbox(folder.path());
    let api = Api::of(&second);
    let mut watch = api
        .watch(&format!("{CONFIG_MAPS}?resourceVersion={old}"))
        .await;
    let event = in_time("an error", watch.event()).await;
    assert_eq!(
        (event.kind.as_str(), &event.object["code"]),
        ("ERROR", &json!(410))
    );
    let mut watch = api
        .watch(&format!("{CONFIG_MAPS}?resourceVersion={last}"))
        .await;
    api.create(CONFIG_MAPS, &config_map("b", "1")).await;
    let event = in_time("a change", watch.event()).await;
    assert_eq!(event.brief(), ("ADDED", "b"));
    second.shutdown().await;
}

#[tokio::test]
async fn unfinished_deletion_continues_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let first = sandbox(folder.path());
    let api = Api::of(&first);
    let namespaces = "/api/v1/namespaces";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    api.create(namespaces, &namespace).await;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.com/f"]},
    });
    let maps = "/api/v1/namespaces/n/configmaps";
    api.create(maps, &held).await;
    api.delete("/api/v1/namespaces/n").await;
    first.shutdown().await;

    let second = sandbox(folder.path());
    let api = Api::of(&second);
    let release = json!({"metadata": {"finalizers": null}});
    in_time("the end of the namespace", async {
        loop {
            api.merge(&format!("{maps}/held"), &release).await;
            if api.get("/api/v1/namespaces/n").await.code == 404 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    second.shutdown().await;
}

#[tokio::test]
async fn foreign_folders_are_rejected() {
    let folder = TempDir::new().unwrap();
    let used = sandbox(folder.path());
    assert!(matches!(refusal(folder.path()), DataError::InUse));
    used.shutdown().await;
    sandbox(folder.path()).shutdown().await;

    fs::write(folder.path().join("format"), "2\n").unwrap();
    let other = refusal(folder.path());
    assert!(matches!(other, DataError::Format { .. }), "{other}");
    assert!(other.to_string().contains("kopf sandbox export"), "{other}");

    let foreign = TempDir::new().unwrap();
    fs::write(foreign.path().join("thesis.txt"), "text").unwrap();
    assert!(matches!(refusal(foreign.path()), DataError::Foreign));
    let names: Vec<_> = fs::read_dir(foreign.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left in it");
}

fn log(folder: &Path) -> std::path::PathBuf {
    let mut files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let log = files.find(|file| file.path().extension().is_some_and(|end| end == "log"));
    log.unwrap().path()
}

#[tokio::test]
async fn incomplete_end_is_truncated_and_damage_is_reported() {
    let folder = TempDir::new().unwrap();
    let first = sandbox(folder.path());
    let api = Api::of(&first);
    for name in ["a", "b", "c"] {
        api.create(CONFIG_MAPS, &config_map(name, "1")).await;
    }
    first.shutdown().await;
    let whole = fs::read(log(folder.path())).unwrap();

    let mut cut = whole.clone();
    cut.truncate(whole.len() - 3);
    fs::write(log(folder.path()), &cut).unwrap();
    let second = sandbox(folder.path());
    let api = Api::of(&second);
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/b")).await.code, 200);
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/c")).await.code, 404);
    api.create(CONFIG_MAPS, &config_map("d", "1")).await;
    second.shutdown().await;
    let third = sandbox(folder.path());
    let api = Api::of(&third);
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/d")).await.code, 200);
    third.shutdown().await;

    for at in [30, 100] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        fs::write(log(folder.path()), &damaged).unwrap();
        let error = refusal(folder.path());
        assert!(matches!(error, DataError::Damaged { .. }), "{at}: {error}");
    }
}

#[tokio::test]
async fn log_of_outdated_changes_is_rewritten() {
    let folder = TempDir::new().unwrap();
    let first = sandbox(folder.path());
    let api = Api::of(&first);
    api.create(CONFIG_MAPS, &config_map("a", "1")).await;
    let large = "x".repeat(600_000);
    for number in 0..30 {
        let patch = json!({"data": {"large": large, "number": number.to_string()}});
        let path = format!("{CONFIG_MAPS}/a");
        assert_eq!(api.merge(&path, &patch).await.code, 200);
    }
    first.shutdown().await;
    let size = fs::metadata(log(folder.path())).unwrap().len();
    assert!(size < 10 << 20, "{size} bytes for one object");
    let second = sandbox(folder.path());
    let kept = Api::of(&second).get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(kept.json()["data"]["number"], "29");
    second.shutdown().await;
}

/// The process that is killed: writes into the folder and prints acknowledged writes.
///
/// Every writer has its own config map. A line contains its name and the stored value, or `-` after
/// a deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_writer() {
    let Some(folder) = std::env::var_os("KOPF_TEST_DATA") else {
        return; // only as a child of the next test
    };
    let sandbox = sandbox(Path::new(&folder));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let api = Api::of(&sandbox);
        writers.spawn(async move {
            let name = format!("w{writer}");
            let path = format!("{CONFIG_MAPS}/{name}");
            for number in 0.. {
                let value = number.to_string();
                let shown = if number % 7 == 6 {
                    api.delete(&path).await;
                    "-".to_owned()
                } else {
                    let created = api.create(CONFIG_MAPS, &config_map(&name, &value)).await;
                    if created.code == 409 {
                        let patch = json!({"data": {"value": value}});
                        assert_eq!(api.merge(&path, &patch).await.code, 200);
                    }
                    value
                };
                let mut out = std::io::stdout().lock();
                writeln!(out, "done {name} {shown}").unwrap();
                out.flush().unwrap();
            }
        });
    }
    writers.join_all().await;
}

fn spawn_writer(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::killed_writer", "--nocapture"])
        .env("KOPF_TEST_DATA", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads acknowledgements until enough have arrived, kills the process, and returns the last one of
/// each writer.
fn kill_after(mut child: Child, responses: usize) -> BTreeMap<String, String> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = BTreeMap::new();
    let mut read = 0;
    while read < responses {
        let line = lines.next().expect("the writer ended early").unwrap();
        read += usize::from(note(&line, &mut seen));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Unread acknowledgements count as well.
    for line in lines {
        note(&line.unwrap_or_default(), &mut seen);
    }
    seen
}

fn note(line: &str, seen: &mut BTreeMap<String, String>) -> bool {
    let parts: Vec<&str> = line.split(' ').collect();
    // The last line may be truncated; "done" is complete only with its value.
    if let ["done", name, value] = parts[..]
        && !value.is_empty()
    {
        seen.insert(name.to_owned(), value.to_owned());
        return true;
    }
    false
}

#[tokio::test]
async fn kill_loses_no_acknowledged_write() {
    let kills = std::env::var("KOPF_TEST_KILLS").map_or(4, |text| text.parse().unwrap());
    let folder = TempDir::new().unwrap();
    for round in 0..kills {
        let seen = kill_after(spawn_writer(folder.path()), 40 + round * 37 % 400);
        let sandbox = sandbox(folder.path());
        let api = Api::of(&sandbox);
        for (name, value) in &seen {
            let found = api.get(&format!("{CONFIG_MAPS}/{name}")).await;
            let stored = match found.code {
                200 => found.json()["data"]["value"].as_str().unwrap().to_owned(),
                code => {
                    assert_eq!(code, 404);
                    "-".to_owned()
                }
            };
            // The next write may be stored without an acknowledgement.
            let next = |value: &str| match value {
                "-" => None,
                value => value.parse::<u64>().ok(),
            };
            let stored_or_next = match (next(value), next(&stored)) {
                (Some(answered), Some(stored)) => stored == answered || stored == answered + 1,
                (Some(answered), None) => (answered + 1) % 7 == 6,
                (None, Some(stored)) => stored % 7 == 0,
                (None, None) => true,
            };
            assert!(
                stored_or_next,
                "round {round}: {name} was {value} and is {stored}"
            );
        }
        for name in (0..8).map(|writer| format!("w{writer}")) {
            api.delete(&format!("{CONFIG_MAPS}/{name}")).await;
        }
        sandbox.shutdown().await;
    }
}
