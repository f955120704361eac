//! Tests of the ngrok tunnel with a stand-in for the program.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use kopf_core::admission::ClientConfig;
use kopf_webhooks::{AutoTunnel, Error, NgrokTunnel};
use tempfile::TempDir;

use crate::client::Connecting;
use crate::operator::{Setup, review};

/// Creates a program with this script. Its arguments and its process id are in files of the folder.
fn stand_in(folder: &TempDir, script: &str) -> PathBuf {
    let path = folder.path().join("ngrok");
    let folder = folder.path().display();
    let text = format!(
        "#!/bin/sh\necho \"$@\" >{folder}/args\necho \"$NGROK_AUTHTOKEN\" >{folder}/token\n\
         echo $$ >{folder}/pid\n{script}\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn read(folder: &TempDir, name: &str) -> String {
    let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
    text.trim().to_owned()
}

const STARTED: &str = r#"
echo '{"lvl":"info","msg":"open config file","err":null}'
echo '{"lvl":"info","msg":"starting web service","addr":"127.0.0.1:4040"}'
echo 'not JSON'
echo '{"lvl":"info","msg":"started tunnel","addr":"x","url":"http://e5fc.ngrok.test"}'
echo '{"lvl":"info","msg":"started tunnel","addr":"x","url":"https://e5fc.ngrok.test"}'
"#;

/// Returns `true` if the process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let seen = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", pid])
        .output();
    let stat = String::from_utf8(seen.unwrap().stdout).unwrap();
    !stat.trim().is_empty() && !stat.trim().starts_with('Z')
}

#[tokio::test]
async fn public_url_is_announced_and_the_local_server_serves() {
    let folder = TempDir::new().unwrap();
    let binary = stand_in(&folder, &format!("{STARTED}exec sleep 1000"));
    let tunnel = NgrokTunnel::new()
        .binary(binary)
        .path("/hooks")
        .token("hunter2")
        .region("eu");
    let running = Setup::allowing().run(tunnel).await;
    assert_eq!(running.url(), "https://e5fc.ngrok.test/hooks");
    assert_eq!(running.config.ca_bundle, None);

    let args = read(&folder, "args");
    let mut words = args.split(' ');
    assert_eq!(words.next(), Some("http"));
    let local = words.next().unwrap().to_owned();
    assert!(local.starts_with("http://127.0.0.1:"), "{local}");
    let rest: Vec<_> = words.collect();
    assert_eq!(rest.join(" "), "--log stdout --log-format json --region eu");
    assert!(!args.contains("hunter2"), "arguments are public");
    assert_eq!(read(&folder, "token"), "hunter2");

    let config = ClientConfig {
        url: Some(format!("{local}/hooks")),
        ..ClientConfig::default()
    };
    let mut client = Connecting::to(&config).connect().await.unwrap();
    let response = client.review("/hooks/check", &review("u")).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(running.reviewed()[0].webhook.as_deref(), Some("check"));

    let pid = read(&folder, "pid");
    assert!(is_running(&pid));
    running.stop().await;
    while is_running(&pid) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn failure(tunnel: NgrokTunnel) -> Error {
    let Err(error) = Setup::allowing().try_run(tunnel).await else {
        panic!("it runs");
    };
    *error.downcast().expect("it is an error of this crate")
}

#[tokio::test]
async fn missing_program_is_an_error_with_advice() {
    let error = failure(NgrokTunnel::new().binary("/no/such/ngrok")).await;
    assert!(matches!(error, Error::NgrokMissing { .. }));
    let error = error.to_string();
    assert!(
        error.contains("/no/such/ngrok") && error.contains("install ngrok"),
        "{error}"
    );
}

#[tokio::test]
async fn error_contains_the_message_of_the_program() {
    let folder = TempDir::new().unwrap();
    for (script, status, reason) in [
        (
            "echo '{\"lvl\":\"eror\",\"msg\":\"x\",\"err\":\"authentication failed\"}'; exit 1",
            "exit status: 1",
            "authentication failed",
        ),
        (
            "echo 'ERROR:  ERR_NGROK_4018' >&2; exit 7",
            "exit status: 7",
            "ERR_NGROK_4018",
        ),
        ("exit 0", "exit status: 0", "no error message"),
    ] {
        let error = failure(NgrokTunnel::new().binary(stand_in(&folder, script))).await;
        let error = error.to_string();
        assert!(error.contains(status) && error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn quoted_tokens_are_redacted() {
    let folder = TempDir::new().unwrap();
    let script = "echo 'ERROR:  authentication failed: invalid token' >&2\n\
                  echo \"ERROR:  Your authtoken: $NGROK_AUTHTOKEN\" >&2\n\
                  echo 'ERROR:' >&2; echo 'ERROR:  ERR_NGROK_105' >&2; exit 1";
    let tunnel = NgrokTunnel::new().binary(stand_in(&folder, script));
    let error = failure(tunnel.token("hunter2")).await.to_string();
    assert_eq!(
        error,
        "ngrok has ended (exit status: 1): authentication failed: invalid token \
         Your authtoken: *** ERR_NGROK_105"
    );
}

#[tokio::test]
async fn exit_is_detected_despite_child_processes() {
    let folder = TempDir::new().unwrap();
    let left = folder.path().join("left");
    let script = format!(
        "{STARTED}sleep 1000 & echo $! >{}; echo 'ERROR:  bye'; exit 4",
        left.display()
    );
    let tunnel = NgrokTunnel::new().binary(stand_in(&folder, &script));
    let running = Setup::allowing().run(tunnel).await;
    let error = running.ended().await.to_string();
    let pid = read(&folder, "left");
    assert!(is_running(&pid), "it has the outputs open");
    let killed = std::process::Command::new("kill").arg(&pid).status();
    assert!(killed.unwrap().success());
    assert!(error.contains("exit status: 4"), "{error}");
    assert!(error.ends_with("bye"), "{error}");
}

#[tokio::test]
async fn program_that_closes_its_output_is_an_error() {
    let folder = TempDir::new().unwrap();
    let script = format!("{STARTED}exec sleep 1000 >/dev/null 2>&1");
    let tunnel = NgrokTunnel::new().binary(stand_in(&folder, &script));
    let running = Setup::allowing().run(tunnel).await;
    let error = running.ended().await.to_string();
    assert!(error.contains("it closed its output"), "{error}");
}

#[tokio::test]
async fn broken_tunnel_ends_the_server() {
    let folder = TempDir::new().unwrap();
    let noise = "x".repeat(200);
    // More than fits into a pipe: the output must be read.
    let script = format!(
        "{STARTED}i=0; while [ $i -lt 2000 ]; do echo '{noise}'; i=$((i+1)); done\n\
         echo '{{\"lvl\":\"crit\",\"msg\":\"session lost\"}}'; exit 3"
    );
    let tunnel = NgrokTunnel::new().binary(stand_in(&folder, &script));
    let running = Setup::allowing().run(tunnel).await;
    let error = running.ended().await.to_string();
    assert_eq!(error, "ngrok has ended (exit status: 3): session lost");
}

#[tokio::test]
async fn new_public_url_is_announced() {
    let folder = TempDir::new().unwrap();
    // A line that is too long, one that is not UTF-8, and the same URL again.
    let script = format!(
        "{STARTED}head -c 200000 /dev/zero | tr '\\0' x; echo; printf 'n\\377\\n'\n\
         {STARTED}echo '{{\"msg\":\"started tunnel\",\"url\":\"https://other.ngrok.test\"}}'\n\
         exec sleep 1000"
    );
    let tunnel = NgrokTunnel::new().binary(stand_in(&folder, &script));
    let mut running = Setup::allowing().run(tunnel.path("/hooks")).await;
    assert_eq!(running.url(), "https://e5fc.ngrok.test/hooks");
    let config = running.next_config().await;
    assert_eq!(
        config.url.as_deref(),
        Some("https://other.ngrok.test/hooks")
    );
}

/// Set in the process that finds the stand-in by its name.
const INNER: &str = "KOPF_TEST_STAND_IN";

/// Environment variables are global, so this test runs itself in a child process.
#[tokio::test]
async fn unknown_clusters_use_ngrok_from_the_search_path() {
    if std::env::var_os(INNER).is_some() {
        let tunnel = AutoTunnel::new().path("/hooks");
        let running = Setup::allowing().run(tunnel).await;
        assert_eq!(running.url(), "https://e5fc.ngrok.test/hooks");
        assert_eq!(running.config.ca_bundle, None);
        return;
    }
    let folder = TempDir::new().unwrap();
    stand_in(&folder, &format!("{STARTED}exec sleep 1000"));
    let others = std::env::var("PATH").unwrap_or_default();
    let name = std::thread::current().name().unwrap().to_owned();
    let inner = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name.as_str(), "--exact", "--nocapture"])
        .env("PATH", format!("{}:{others}", folder.path().display()))
        .env(INNER, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    let args = read(&folder, "args");
    assert!(args.starts_with("http http://127.0.0.1:"), "{args}");
}
