//! Operators whose credentials change while they run, on a sandbox with TLS and real connections,
//! in real time.

#![expect(clippy::unwrap_used, reason = "failures fail the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kopf::CancellationToken;
use kopf::k8s_openapi::api::core::v1::ConfigMap;
use kopf::kube::api::{Api, ListParams, PostParams};
use kopf::prelude::*;
use kopf_client::connection::Options;
use kopf_client::vault::{DefaultLogin, Login, LoginError, Retrieved};
use kopf_engine::authentication::Access;
use kopf_sandbox::{Listen, Listening, Sandbox};

use tempfile::TempDir;
use tokio::time::sleep;

/// Upper bound for slow machines.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The number of replacements of the token, and the lifetime of each token.
const ROTATIONS: usize = 12;
const LIFETIME: Duration = Duration::from_millis(300);

/// A sandbox with TLS and one valid token, which is in a kubeconfig.
struct Cluster {
    sandbox: Sandbox,
    listening: Listening,
    folder: TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let sandbox = Sandbox::builder().build().unwrap();
        let listening = sandbox.listen(Listen::default()).await.unwrap();
        let folder = TempDir::new().unwrap();
        let cluster = Self {
            sandbox,
            listening,
            folder,
        };
        cluster.issue(0);
        cluster
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Accepts a token and writes it to the kubeconfig atomically.
    fn issue(&self, number: usize) {
        let token = format!("token-{number}");
        self.sandbox
            .add_token(&token, "operator", ["system:masters"]);
        let text = self.listening.kubeconfig_with_token(&token);
        replace(&self.kubeconfig(), &text);
    }

    fn revoke(&self, number: usize) {
        self.sandbox.revoke_token(&format!("token-{number}"));
    }

    fn objects(&self) -> Api<ConfigMap> {
        let client = kopf_client::Client::from_service(self.sandbox.service(), "default");
        Api::namespaced(client.kube(), "default")
    }
}

fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

/// A login with a kubeconfig that counts its calls.
struct Counted {
    login: DefaultLogin,
    count: Arc<AtomicUsize>,
}

impl Login for Counted {
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.login.login()
    }
}

fn login(kubeconfig: &Path) -> (Access, Arc<AtomicUsize>) {
    let mut options = Options::default();
    options.kubeconfig = Some(kubeconfig.to_owned());
    let count = Arc::<AtomicUsize>::default();
    let login = Counted {
        login: DefaultLogin::new(options),
        count: Arc::clone(&count),
    };
    (Access::Custom(Arc::new(login)), count)
}

type Calls = Arc<Mutex<BTreeMap<String, u32>>>;

/// Reads its object with the handler's client after a delay in which the token can change.
async fn handle(
    Name(name): Name,
    State(calls): State<Calls>,
    client: kopf::Client,
) -> kopf::Result<Value> {
    *calls.lock().unwrap().entry(name.clone()).or_default() += 1;
    sleep(LIFETIME / 3).await;
    let objects: Api<ConfigMap> = Api::namespaced(client, "default");
    let object = objects.get(&name).await?;
    Ok(json!(object.metadata.uid))
}

/// Runs the operator until the work is done.
async fn run_during(
    operator: impl Future<Output = Result<(), kopf_engine::operator::Error>>,
    work: impl Future<Output = ()>,
    stop: &CancellationToken,
) {
    let work = async {
        let in_time = tokio::time::timeout(TIMEOUT, work).await;
        stop.cancel();
        in_time.unwrap();
    };
    let (outcome, ()) = tokio::join!(operator, work);
    outcome.unwrap();
}

fn text(name: &str, text: &str) -> ConfigMap {
    kopf::serde_json::from_value(json!({
        "metadata": {"name": name}, "data": {"text": text},
    }))
    .unwrap()
}

fn is_handled(object: &ConfigMap) -> bool {
    let annotations = object.metadata.annotations.iter().flatten();
    let mut names = annotations.map(|(name, _)| &**name);
    names.any(|name| name == "kopf.zalando.org/last-handled-configuration")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_handled_once_while_tokens_are_replaced() {
    let cluster = Cluster::start().await;
    let (access, logins) = login(&cluster.kubeconfig());
    let calls = Calls::default();
    let operator = Operator::builder()
        .handler(on::create("configmaps", handle))
        .state(Arc::clone(&calls))
        .settings(|settings| settings.posting.enabled = true)
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let running = operator.to_engine().run(access, stop.clone());

    let objects = cluster.objects();
    let rotating = async {
        for number in 1..=ROTATIONS {
            sleep(LIFETIME).await;
            cluster.issue(number);
            cluster.revoke(number - 1);
            // Watch streams have to reconnect with the new token.
            cluster.sandbox.faults().kill_watches();
        }
    };
    let loading = async {
        for number in 0..300 {
            let object = text(&format!("object-{number}"), "new");
            objects
                .create(&PostParams::default(), &object)
                .await
                .unwrap();
            sleep(LIFETIME * 12 / 300).await;
        }
    };
    let work = async {
        tokio::join!(rotating, loading);
        loop {
            let all = objects.list(&ListParams::default()).await.unwrap();
            if all.iter().filter(|object| is_handled(object)).count() >= 300 {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    Box::pin(run_during(running, work, &stop)).await;

    let calls = calls.lock().unwrap();
    let twice: Vec<_> = calls.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!((0..300).all(|number| calls.contains_key(&format!("object-{number}"))));
    let logins = logins.load(Ordering::Relaxed);
    assert!(logins > 1, "the tokens were not needed");
    // A login can happen after the new token is written and before the old one is revoked.
    assert!(logins <= 2 * ROTATIONS + 1, "{logins}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_tokens_in_files_are_read_again() {
    let cluster = Cluster::start().await;
    let token = cluster.folder.path().join("token");
    fs::write(&token, "token-0\n").unwrap();
    let text_of_config = cluster.listening.kubeconfig_with_token("token-0");
    let by_file = text_of_config.replace("token: \"token-0\"", "tokenFile: token");
    assert_ne!(text_of_config, by_file);
    replace(&cluster.kubeconfig(), &by_file);

    let (access, logins) = login(&cluster.kubeconfig());
    let calls = Calls::default();
    let operator = Operator::builder()
        .handler(on::create("configmaps", handle))
        .state(Arc::clone(&calls))
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let running = operator.to_engine().run(access, stop.clone());
    let objects = cluster.objects();
    let until_handled = async |name: &str| {
        let object = text(name, "new");
        objects
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        while !is_handled(&objects.get(name).await.unwrap()) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let work = async {
        until_handled("before").await;
        replace(&token, "token-1\n");
        cluster
            .sandbox
            .add_token("token-1", "operator", ["system:masters"]);
        cluster.revoke(0);
        until_handled("after").await;
        // From now on with a certificate instead of a token.
        replace(&cluster.kubeconfig(), &cluster.listening.kubeconfig());
        cluster.revoke(1);
        until_handled("by-certificate").await;
    };
    Box::pin(run_during(running, work, &stop)).await;
    assert_eq!(logins.load(Ordering::Relaxed), 3);
    assert!(calls.lock().unwrap().values().all(|count| *count == 1));
}

#[tokio::test]
async fn rejected_tokens_stop_the_operator() {
    let cluster = Cluster::start().await;
    cluster.revoke(0);
    let (access, logins) = login(&cluster.kubeconfig());
    let operator = Operator::builder()
        .handler(on::create("configmaps", handle))
        .state(Calls::default())
        .build()
        .unwrap();
    let running = operator.to_engine().run(access, CancellationToken::new());
    let error = tokio::time::timeout(TIMEOUT, running).await.unwrap();
    let error = error.unwrap_err();
    assert!(
        matches!(error, kopf_engine::operator::Error::Login(_)),
        "{error:?}"
    );
    assert_eq!(logins.load(Ordering::Relaxed), 2);
}

/// The connection for the login handlers below, and the number of their calls.
#[derive(Clone)]
struct Connection {
    info: kopf::ConnectionInfo,
    logins: Arc<AtomicUsize>,
}

/// Fails at the first attempt. Then returns the token with the number of the successful call.
#[kopf::on::login(registry = "login", backoff = 0.01)]
async fn login_fn(
    State(connection): State<Connection>,
    retry: Retry,
) -> kopf::Result<kopf::ConnectionInfo> {
    if *retry == 0 {
        return Err(kopf::temporary("not yet").delay(0.01));
    }
    let number = connection.logins.fetch_add(1, Ordering::Relaxed);
    let mut info = connection.info;
    info.token = Some(format!("token-{number}"));
    Ok(info)
}

/// Returns no credentials.
#[kopf::on::login(registry = "login")]
fn other_login_fn() -> Option<kopf::Credentials> {
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_handlers_are_called_when_credentials_are_needed() {
    let cluster = Cluster::start().await;
    let mut info = kopf::ConnectionInfo::new(cluster.listening.url());
    info.ca_data = Some(cluster.listening.authority_pem().to_owned());
    let connection = Connection {
        info,
        logins: Arc::default(),
    };
    let calls = Calls::default();
    let operator = Operator::builder()
        .registry("login")
        .handler(on::create("configmaps", handle))
        .state(Arc::clone(&calls))
        .state(connection.clone())
        .build()
        .unwrap();
    let running = operator.start_with_login().await.unwrap();
    assert_eq!(connection.logins.load(Ordering::Relaxed), 1);
    cluster.issue(1);
    cluster.revoke(0);
    let objects = cluster.objects();
    let object = text("object", "new");
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
    let handled = async {
        while !is_handled(&objects.get("object").await.unwrap()) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, handled).await.unwrap();
    assert_eq!(connection.logins.load(Ordering::Relaxed), 2);
    running.stop().await.unwrap();
    assert_eq!(calls.lock().unwrap()["object"], 1);
}

#[tokio::test]
async fn permanent_login_failures_stop_the_operator() {
    fn never() -> kopf::Result<kopf::Credentials> {
        Err(kopf::permanent("no such user"))
    }
    let operator = Operator::builder()
        .handler(on::login(never))
        .handler(on::create("configmaps", handle))
        .state(Calls::default())
        .build()
        .unwrap();
    let error = operator.start_with_login().await.unwrap_err();
    let kopf::RunError::Engine(kopf_engine::operator::Error::Login(error)) = error else {
        panic!("{error}");
    };
    let text = error.to_string();
    assert!(
        text.contains("'never'") && text.contains("no such user"),
        "{text}"
    );
}
