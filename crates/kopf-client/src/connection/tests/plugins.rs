//! Credential plugins of kubeconfigs.

use serde_json::json;
use tempfile::TempDir;

use super::server::mirror;
use super::{from_kubeconfig_file, impatient, kubeconfig};

#[tokio::test]
async fn failed_plugins_are_reported_without_their_output() {
    let user = |script: &str| {
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
                        "args": ["-c", script], "interactiveMode": "Never",
                        "env": [{"name": "SECRET", "value": "hunter2"}]}})
    };
    let address = ([127, 0, 0, 1], 1).into();
    for (script, expected) in [
        (
            "echo $SECRET; echo please log in >&2; exit 3",
            "exit status: 3: please log in",
        ),
        ("echo {token: $SECRET", "unexpected output"),
    ] {
        let (_folder, path) = kubeconfig(address, &user(script));
        let error = from_kubeconfig_file(&path, None).await.unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn later_failures_of_plugins_contain_no_secrets() {
    let server = mirror(None).await;
    let folder = TempDir::new().unwrap();
    let mark = folder.path().join("mark");
    // The first token has expired; the second run fails.
    let output = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "hunter2", "expirationTimestamp": "2020-01-01T00:00:00Z"}});
    let script = format!(
        "if [ -e {mark} ]; then echo hunter2; exit 1; fi; echo '{output}'",
        mark = mark.display()
    );
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script], "interactiveMode": "Never"}});
    let (_folder, path) = kubeconfig(server.address, &user);
    let client = impatient(&from_kubeconfig_file(&path, None).await.unwrap());
    std::fs::write(&mark, "").unwrap();
    let error = client.get_json("/version").await.unwrap_err();
    assert!(error.to_string().contains("credential plugin"), "{error}");
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    assert!(!format!("{client:?}").contains("hunter2"));
}

#[tokio::test]
async fn plugins_run_again_when_tokens_expire() {
    let server = mirror(None).await;
    let folder = TempDir::new().unwrap();
    let runs = folder.path().join("runs");
    // The first and the second token have expired, the third one has not.
    let script = format!(
        "echo >> {runs}; count=$(wc -l < {runs}); \
         if [ $count -lt 3 ]; then end=2020; else end=2999; fi; \
         echo \"status: {{token: t$count, expirationTimestamp: '$end-01-01T00:00:00Z'}}\"",
        runs = runs.display()
    );
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
        "args": ["-c", script], "interactiveMode": "Never"}});
    let (_folder, path) = kubeconfig(server.address, &user);
    let client = impatient(&from_kubeconfig_file(&path, None).await.unwrap());
    let count = || std::fs::read_to_string(&runs).unwrap().lines().count();
    assert_eq!(count(), 1);
    for expected in ["Bearer t2", "Bearer t3", "Bearer t3"] {
        let asked = futures::future::join_all((0..5).map(|_| client.get_json("/version")));
        for said in asked.await {
            assert_eq!(said.unwrap()["authorization"], expected);
        }
    }
    assert_eq!(count(), 3, "one run for concurrent requests");
}
