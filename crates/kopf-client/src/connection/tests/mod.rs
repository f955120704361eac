//! All kinds of credentials on real connections.

mod environment;
mod http2;
#[cfg(unix)]
mod plugins;
mod server;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use kopf_core::settings::{Backoffs, Networking};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::server::{Authority, REFUSED, mirror, proxy, silent};
use super::{ConnectionInfo, Error, Options, from_info, from_kubeconfig_file, infer_with};
use crate::Client;
use crate::vault::{Credentials, DefaultLogin, Login, LoginError, Retrieved, Vault};

/// Returns the client without retries and with a short connect timeout.
fn impatient(client: &Client) -> Client {
    let mut networking = Networking::default();
    networking.error_backoffs = Backoffs::none();
    networking.connect_timeout = Some(Duration::from_millis(300));
    client.with_networking(&networking)
}

async fn ask(info: ConnectionInfo) -> Value {
    let client = from_info(info).await.unwrap();
    client.get_json("/version?x=1").await.unwrap()
}

async fn refusal(info: ConnectionInfo) -> String {
    from_info(info).await.unwrap_err().to_string()
}

#[tokio::test]
async fn server_certificate_is_read_without_trust() {
    let authority = Authority::new();
    let server = mirror(Some(&authority)).await;
    let client = |scheme: &str| {
        let info = ConnectionInfo {
            server: format!("{scheme}://{}", server.address),
            ..ConnectionInfo::default()
        };
        from_info(info)
    };
    let seen = client("https").await.unwrap().server_certificate().await;
    let seen = seen.expect("sent before the verification");
    assert_eq!(seen.first(), Some(&0x30), "the tag of a DER sequence");
    assert!(seen.len() > 200, "{}", seen.len());
    let plain = client("http").await.unwrap();
    assert_eq!(plain.server_certificate().await, None);
    drop(server);
    let (gone, _) = crate::script::Script::new([]);
    assert_eq!(
        gone.server_certificate().await,
        None,
        "there is no TLS in process"
    );
}

#[tokio::test]
async fn authorization_headers_are_sent() {
    let server = mirror(None).await;
    let some = |text: &str| Some(text.to_owned());
    let info = ConnectionInfo {
        server: format!("http://{}/prefix/", server.address),
        ..ConnectionInfo::default()
    };
    let cases = [
        (info.clone(), Value::Null),
        (
            ConnectionInfo {
                token: some("t"),
                ..info.clone()
            },
            json!("Bearer t"),
        ),
        (
            ConnectionInfo {
                scheme: some("Digest"),
                token: some("t"),
                ..info.clone()
            },
            json!("Digest t"),
        ),
        (
            ConnectionInfo {
                scheme: some("Negotiate"),
                ..info.clone()
            },
            json!("Negotiate"),
        ),
        (
            ConnectionInfo {
                username: some("user"),
                password: some("pass"),
                ..info.clone()
            },
            json!("Basic dXNlcjpwYXNz"),
        ),
        (
            ConnectionInfo {
                username: some("user"),
                ..info.clone()
            },
            Value::Null,
        ),
    ];
    for (info, expected) in cases {
        let said = ask(info).await;
        assert_eq!(said["authorization"], expected);
        assert_eq!(said["path"], "/prefix/version?x=1");
    }
}

#[tokio::test]
async fn certificates_of_both_sides_are_verified() {
    let authority = Authority::new();
    let server = mirror(Some(&authority)).await;
    let identity = authority.sign("me");
    let info = ConnectionInfo {
        server: format!("https://{}", server.address),
        ca_data: Some(authority.pem()),
        ..ConnectionInfo::default()
    };
    assert_eq!(ask(info.clone()).await["certificate"], false);

    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ca.crt");
    std::fs::write(&path, authority.pem()).unwrap();
    let by_path = ConnectionInfo {
        ca_data: None,
        ca_path: Some(path),
        certificate_data: Some(STANDARD.encode(&identity.certificate)),
        private_key_data: Some(identity.key.trim_end().to_owned()),
        ..info.clone()
    };
    assert_eq!(ask(by_path).await["certificate"], true);

    let without_key = ConnectionInfo {
        certificate_data: Some(identity.certificate.clone()),
        ..info.clone()
    };
    assert_eq!(ask(without_key).await["certificate"], false);

    let stranger = ConnectionInfo {
        ca_data: Some(Authority::new().pem()),
        ..info.clone()
    };
    let client = impatient(&from_info(stranger.clone()).await.unwrap());
    let error = client.get_json("/version").await.unwrap_err();
    assert!(matches!(error, crate::Error::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");

    let careless = ConnectionInfo {
        insecure: true,
        ..stranger
    };
    assert_eq!(ask(careless).await["certificate"], false);
}

#[tokio::test]
async fn kube_client_shares_the_connection() {
    let server = mirror(None).await;
    let info = ConnectionInfo {
        server: format!("http://{}", server.address),
        token: Some("t".to_owned()),
        default_namespace: Some("ns".to_owned()),
        ..ConnectionInfo::default()
    };
    let client = from_info(info).await.unwrap();
    assert_eq!(client.default_namespace().as_deref(), Some("ns"));
    assert_eq!(client.kube().default_namespace(), "ns");
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    let said: Value = client.kube().request(request).await.unwrap();
    assert_eq!(said["authorization"], "Bearer t");
}

#[tokio::test]
async fn requests_go_through_proxies() {
    let authority = Authority::new();
    let server = mirror(None).await;
    let proxy = proxy(server.address).await;
    let info = ConnectionInfo {
        server: "http://kubernetes.test:443".to_owned(),
        ca_data: Some(authority.pem()),
        proxy_url: Some(format!("http://user:pass@{}", proxy.address)),
        ..ConnectionInfo::default()
    };
    assert_eq!(ask(info.clone()).await["path"], "/version?x=1");
    let unknown = ConnectionInfo {
        proxy_url: Some(format!("http://{}", proxy.address)),
        ..info
    };
    let client = impatient(&from_info(unknown.clone()).await.unwrap());
    let error = client.get_json("/version").await.unwrap_err().to_string();
    let named = format!("by the proxy http://{}/: ", proxy.address);
    assert!(error.contains(&named), "{error}");

    for scheme in ["http", "socks5"] {
        let absent = ConnectionInfo {
            proxy_url: Some(format!("{scheme}://user:hunter2@127.0.0.1:1")),
            ..unknown.clone()
        };
        let client = impatient(&from_info(absent).await.unwrap());
        let error = client.get_json("/version").await.unwrap_err().to_string();
        let named = format!("by the proxy {scheme}://127.0.0.1:1/: ");
        assert!(error.contains(&named), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn tls_goes_through_proxies() {
    let authority = Authority::new();
    let server = mirror(Some(&authority)).await;
    let proxy = proxy(server.address).await;
    let identity = authority.sign("me");
    let info = ConnectionInfo {
        // The certificate is for this address, which only the proxy reaches.
        server: "https://127.0.0.1:2".to_owned(),
        ca_data: Some(authority.pem()),
        certificate_data: Some(identity.certificate),
        private_key_data: Some(identity.key),
        token: Some("t".to_owned()),
        proxy_url: Some(format!("http://user:pass@{}", proxy.address)),
        ..ConnectionInfo::default()
    };
    let said = ask(info.clone()).await;
    assert_eq!(said["certificate"], true, "TLS is end to end");
    assert_eq!(said["authorization"], "Bearer t");
    let stranger = ConnectionInfo {
        ca_data: Some(Authority::new().pem()),
        ..info
    };
    let client = impatient(&from_info(stranger).await.unwrap());
    let error = client.get_json("/version").await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn rejected_credentials_close_their_connections() {
    let server = mirror(None).await;
    let credentials = |token: &str| ConnectionInfo {
        server: format!("http://{}", server.address),
        token: Some(token.to_owned()),
        ..ConnectionInfo::default()
    };
    let tokens = std::sync::Mutex::new(vec![credentials("good"), credentials(REFUSED)]);
    let login = Tokens(tokens);
    let vault = Vault::new(crate::vault::system_time);
    let client = vault.client();
    let work = async {
        let all = futures::future::join_all((0..5).map(|_| client.get_json("/version")));
        assert!(all.await.iter().all(Result::is_ok));
        let asked = server.accepted.load(Ordering::Relaxed);
        // Connections of rejected credentials are closed eventually; otherwise the test hangs.
        while server.open.load(Ordering::Relaxed) > 5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(asked > 5, "both credentials had their own connections");
    };
    tokio::select! {
        () = work => {}
        error = vault.serve(&login) => panic!("{error}"),
    }
    drop((client, vault));
    while server.open.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn replaced_ca_file_is_read_again() {
    let authority = Authority::new();
    let server = mirror(Some(&authority)).await;
    let (folder, path) = kubeconfig(server.address, &json!({"token": "t"}));
    let ca = folder.path().join("ca.crt");
    let config = std::fs::read_to_string(&path).unwrap();
    let config = config.replace(
        &format!("\"http://{}\"", server.address),
        &format!(
            "\"https://{}\", \"certificate-authority\": \"ca.crt\"",
            server.address
        ),
    );
    std::fs::write(&path, config).unwrap();
    std::fs::write(&ca, Authority::new().pem()).unwrap();
    let options = Options {
        kubeconfig: Some(path),
        ..Options::default()
    };
    let login = DefaultLogin::new(options);
    let vault = Vault::new(crate::vault::system_time);
    let client = impatient(&vault.client());
    let work = async {
        let error = client.get_json("/version").await.unwrap_err();
        assert!(matches!(error, crate::Error::Untrusted { .. }), "{error}");
        std::fs::write(&ca, authority.pem()).unwrap();
        let said = client.get_json("/version").await.unwrap();
        assert_eq!(said["authorization"], "Bearer t");
    };
    tokio::select! {
        () = work => {}
        error = vault.serve(&login) => panic!("{error}"),
    }
}

/// A login that returns the last of these first.
struct Tokens(std::sync::Mutex<Vec<ConnectionInfo>>);

impl Login for Tokens {
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
        let next = self.0.lock().unwrap().pop();
        let next = next.map(|info| vec![("fn".to_owned(), Credentials::from(info))]);
        Box::pin(async { next.ok_or(LoginError::Nothing) })
    }
}

#[tokio::test]
async fn connect_timeout_applies() {
    let server = silent().await;
    let info = ConnectionInfo {
        server: format!("https://{}", server.address),
        insecure: true,
        ..ConnectionInfo::default()
    };
    let client = impatient(&from_info(info).await.unwrap());
    let error = client.get_json("/version").await.unwrap_err();
    let limit = Duration::from_millis(300);
    assert!(
        matches!(error, crate::Error::Timeout { after } if after == limit),
        "{error}"
    );
}

#[tokio::test]
async fn absent_servers_are_reported() {
    let address = mirror(None).await.address;
    let info = ConnectionInfo {
        server: format!("http://{address}"),
        ..ConnectionInfo::default()
    };
    let client = impatient(&from_info(info).await.unwrap());
    let error = client.get_json("/version").await.unwrap_err().to_string();
    assert!(error.contains("onnection refused"), "{error}");
}

#[tokio::test]
async fn invalid_connection_info_is_rejected() {
    type Change<'a> = &'a dyn Fn(&mut ConnectionInfo);
    let some = |text: &str| Some(text.to_owned());
    let info = ConnectionInfo {
        server: "https://10.0.0.1".to_owned(),
        ..ConnectionInfo::default()
    };
    let cases: [(Change<'_>, &str); 7] = [
        (
            &|info| (info.ca_path, info.ca_data) = (Some("ca".into()), some("ca")),
            "the CA is given both as a path and as data",
        ),
        (
            &|info| {
                info.private_key_path = Some("key".into());
                info.private_key_data = some("hunter2");
            },
            "the private key is given both as a path and as data",
        ),
        (
            &|info| info.ca_data = some("% hunter2"),
            "the CA is invalid: neither PEM nor base64",
        ),
        (
            &|info| info.ca_data = Some(STANDARD.encode("hunter2")),
            "the CA is invalid: no certificate in it",
        ),
        (
            &|info| info.ca_path = Some("/nowhere/ca.crt".into()),
            "the CA cannot be read from \"/nowhere/ca.crt\"",
        ),
        (
            &|info| info.token = some("hunter2\n\n2"),
            "the token is invalid: characters that are not allowed in HTTP headers",
        ),
        (
            &|info| {
                info.token = some("hunter2");
                (info.username, info.password) = (some("user"), some("hunter2"));
            },
            "the authentication is invalid: both a token and a password, expected one of them",
        ),
    ];
    for (change, expected) in cases {
        let mut info = info.clone();
        change(&mut info);
        assert_eq!(refusal(info).await, expected);
    }
}

#[tokio::test]
async fn invalid_server_urls_are_rejected_without_passwords() {
    for server in ["", "10.0.0.1:6443", "ftp://x", "https://user:hunter2@ho st"] {
        let info = ConnectionInfo {
            server: server.into(),
            ..ConnectionInfo::default()
        };
        let error = refusal(info).await;
        assert!(error.starts_with("the server is invalid"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let secret = || Some("hunter2".to_owned());
    let info = ConnectionInfo {
        server: "https://user:hunter2@host/path".to_owned(),
        password: secret(),
        token: secret(),
        ca_data: secret(),
        certificate_data: secret(),
        private_key_data: secret(),
        proxy_url: Some("http://user:hunter2@proxy".to_owned()),
        ..ConnectionInfo::default()
    };
    let text = format!("{info:?} {:?}", Credentials::from(info.clone()));
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("https://host/path"), "{text}");
}

/// Writes a kubeconfig with one user.
fn kubeconfig(address: std::net::SocketAddr, user: &Value) -> (TempDir, PathBuf) {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "here", "user": "me", "namespace": "ns"}},
            {"name": "anonymous", "context": {"cluster": "here", "user": "anonymous"}},
            {"name": "lost", "context": {"cluster": "elsewhere", "user": "me"}},
        ],
        "clusters": [{"name": "here", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "me", "user": user}],
    });
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, config.to_string()).unwrap();
    (folder, path)
}

#[tokio::test]
async fn kubeconfig_users_are_supported() {
    let server = mirror(None).await;
    let plugin = |token: &str| {
        let output = json!({"apiVersion": "client.authentication.k8s.io/v1",
                            "kind": "ExecCredential", "status": {"token": token}});
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo",
                        "args": [output.to_string()], "interactiveMode": "Never"}})
    };
    let cases = [
        (json!({"token": "t"}), json!("Bearer t")),
        (json!({"token": "t\n"}), json!("Bearer t")),
        (json!({"tokenFile": "token"}), json!("Bearer from-file")),
        (
            json!({"username": "user", "password": "pass"}),
            json!("Basic dXNlcjpwYXNz"),
        ),
        (plugin("from-plugin"), json!("Bearer from-plugin")),
        (
            json!({"auth-provider": {"name": "azure", "config": {"access-token": "left"}}}),
            json!("Bearer left"),
        ),
        (json!({}), Value::Null),
    ];
    for (user, expected) in cases {
        let (folder, path) = kubeconfig(server.address, &user);
        std::fs::write(folder.path().join("token"), "from-file\n").unwrap();
        let client = from_kubeconfig_file(&path, None).await.unwrap();
        assert_eq!(client.default_namespace().as_deref(), Some("ns"));
        let said = client.get_json("/version").await.unwrap();
        assert_eq!(said["authorization"], expected, "{user}");
    }
    let (_folder, path) = kubeconfig(server.address, &json!({"token": "t", "as": "robot"}));
    let client = from_kubeconfig_file(&path, None).await.unwrap();
    let said = client.get_json("/version").await.unwrap();
    assert_eq!(said["impersonated"], "robot");
}

#[tokio::test]
async fn invalid_tokens_are_rejected_before_requests() {
    let server = mirror(None).await;
    let (_folder, path) = kubeconfig(server.address, &json!({"token": "hunter2\nhunter2"}));
    let error = from_kubeconfig_file(&path, None).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the token is invalid: characters that are not allowed in HTTP headers"
    );
}

#[tokio::test]
async fn context_can_be_chosen() {
    let server = mirror(None).await;
    let (_folder, path) = kubeconfig(server.address, &json!({"token": "t"}));
    let mut options = Options {
        kubeconfig: Some(path.clone()),
        ..Options::default()
    };
    let client = infer_with(options.clone()).await.unwrap();
    assert_eq!(client.default_namespace().as_deref(), Some("ns"));
    let said = client.get_json("/version").await.unwrap();
    assert_eq!(said["authorization"], "Bearer t");

    options.context = Some("anonymous".to_owned());
    let client = infer_with(options).await.unwrap();
    assert_eq!(client.default_namespace(), None);
    let said = client.get_json("/version").await.unwrap();
    assert_eq!(said["authorization"], Value::Null);

    for (context, problem) in [
        ("lost", "no cluster \"elsewhere\""),
        ("x", "no context \"x\""),
    ] {
        let error = from_kubeconfig_file(&path, Some(context))
            .await
            .unwrap_err();
        assert!(error.to_string().ends_with(problem), "{error}");
    }
}

#[tokio::test]
async fn invalid_kubeconfigs_are_not_quoted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, "users:\n- name: me\n  user: {token: hunter2\nx: [").unwrap();
    let error = from_kubeconfig_file(&path, None).await.unwrap_err();
    assert!(matches!(error, Error::Kubeconfig { .. }));
    assert!(error.to_string().contains("invalid YAML"), "{error}");
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );

    let error = from_kubeconfig_file("/nowhere/config", None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/config"), "{error}");

    std::fs::write(&path, "").unwrap();
    let error = from_kubeconfig_file(&path, None).await.unwrap_err();
    assert!(error.to_string().contains("no current context"), "{error}");
}
