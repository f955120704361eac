//! Proxies of the environment. Changing the environment of a running process is unsafe, so each case
//! runs in its own process: this program, with one test.

use std::process::Command;

use super::server::{Authority, mirror, proxy};
use super::{ConnectionInfo, from_info, impatient};

const SERVER: &str = "KOPF_TEST_SERVER";
const TRUST: &str = "KOPF_TEST_TRUST";

#[tokio::test]
#[ignore = "run by the other test in a process of its own"]
async fn in_a_process_of_its_own() {
    let info = ConnectionInfo {
        server: std::env::var(SERVER).unwrap(),
        trust_env: std::env::var_os(TRUST).is_some(),
        insecure: true,
        ..ConnectionInfo::default()
    };
    let client = impatient(&from_info(info).await.unwrap());
    client.get_json("/version").await.unwrap();
}

/// Returns `true` if the server is reachable with this environment.
async fn is_reached(server: &str, environment: &[(&str, &str)]) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--ignored", "--quiet"])
        .arg("connection::tests::environment::in_a_process_of_its_own")
        .env_clear()
        .env(SERVER, server)
        .envs(environment.iter().copied());
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = run.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "{said}");
    output.status.success()
}

#[tokio::test]
async fn proxies_of_the_environment_are_used_with_trust_env() {
    let plain = mirror(None).await;
    let secure = mirror(Some(&Authority::new())).await;
    let to_plain = proxy(plain.address).await;
    let to_secure = proxy(secure.address).await;
    let url = |address| format!("http://user:pass@{address}");
    let (to_plain, to_secure) = (url(to_plain.address), url(to_secure.address));
    // Only the proxies know that name.
    let (far, far_secure) = ("http://kubernetes.test:443", "https://kubernetes.test:443");
    let near = format!("http://{}", plain.address);
    let nowhere = "http://127.0.0.1:1";

    let trusted = (TRUST, "yes");
    assert!(is_reached(far, &[trusted, ("HTTP_PROXY", &to_plain)]).await);
    assert!(is_reached(far_secure, &[trusted, ("HTTPS_PROXY", &to_secure)]).await);
    assert!(is_reached(far_secure, &[trusted, ("https_proxy", &to_secure)]).await);
    assert!(!is_reached(far, &[("HTTP_PROXY", &to_plain)]).await);
    assert!(!is_reached(far_secure, &[("HTTPS_PROXY", &to_secure)]).await);

    let wrong = ("HTTP_PROXY", nowhere);
    assert!(!is_reached(&near, &[trusted, wrong]).await);
    assert!(is_reached(&near, &[wrong]).await, "without trust_env");
    let except = ("NO_PROXY", "10.0.0.0/8,127.0.0.1");
    assert!(is_reached(&near, &[trusted, wrong, except]).await);
    let others = ("NO_PROXY", "example.com");
    assert!(!is_reached(&near, &[trusted, wrong, others]).await);
}
