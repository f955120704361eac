//! Tests of logins with in-process servers and paused time.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use http::{Method, Request, Response};
use kopf_core::settings::{Networking, Watching};
use kube::client::Body;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::Error;
use crate::watching::{Signal, observe};

/// A server that accepts some tokens.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    tokens: BTreeSet<String>,
    /// The token, method and path of requests, and the code of the response.
    asked: Vec<(String, String, String, u16)>,
}

impl Server {
    fn knowing(token: &str) -> Self {
        let server = Self::default();
        server.know(token);
        server
    }

    /// Accepts only this token from now on.
    fn know(&self, token: &str) {
        let mut known = self.0.lock().unwrap();
        known.tokens = BTreeSet::from([token.to_owned()]);
    }

    fn codes(&self) -> Vec<(String, u16)> {
        let known = self.0.lock().unwrap();
        let asked = known.asked.iter();
        asked
            .map(|(token, .., code)| (token.clone(), *code))
            .collect()
    }

    fn count(&self, code: u16) -> usize {
        self.codes().iter().filter(|asked| asked.1 == code).count()
    }

    fn credentials(&self, token: &str) -> Credentials {
        let (server, token) = (self.clone(), token.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, token) = (server.clone(), token.clone());
            async move {
                let path = request.uri().to_string();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = String::from_utf8(body.to_vec()).unwrap();
                // Requests overlap.
                sleep(Duration::from_millis(10)).await;
                let mut known = server.0.lock().unwrap();
                let code = if known.tokens.contains(&token) {
                    200
                } else {
                    401
                };
                known.asked.push((token, path.clone(), body, code));
                let answer = if code == 401 {
                    crate::script::status(401)
                } else {
                    json!({"metadata": {"resourceVersion": "1"}, "kind": "List", "items": []})
                };
                let body = if code == 200 && path.contains("watch=true") {
                    Body::from(b"".to_vec())
                } else {
                    Body::from(answer.to_string().into_bytes())
                };
                let answer = Response::builder().status(code).body(body).unwrap();
                Ok::<_, Infallible>(answer)
            }
        });
        Credentials::from_service(service, "ns")
    }
}

/// A login that returns a list of results, and then repeats the last one.
struct Plan {
    steps: Mutex<VecDeque<Result<Retrieved, LoginError>>>,
    takes: Duration,
    count: Mutex<usize>,
}

impl Plan {
    fn new(steps: impl IntoIterator<Item = Result<Retrieved, LoginError>>) -> Self {
        Self {
            steps: Mutex::new(steps.into_iter().collect()),
            takes: Duration::from_secs(5),
            count: Mutex::default(),
        }
    }

    fn count(&self) -> usize {
        *self.count.lock().unwrap()
    }
}

impl Login for Plan {
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
        *self.count.lock().unwrap() += 1;
        let mut steps = self.steps.lock().unwrap();
        let step = match steps.len() {
            1 => steps[0].clone(),
            _ => steps.pop_front().unwrap(),
        };
        let takes = self.takes;
        Box::pin(async move {
            sleep(takes).await;
            step
        })
    }
}

#[allow(clippy::unnecessary_wraps)] // The signature matches that of failures.
fn one(credentials: &Credentials) -> Result<Retrieved, LoginError> {
    Ok(vec![("fn".to_owned(), credentials.clone())])
}

fn vault() -> Vault {
    let start = Instant::now();
    Vault::new(move || {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        epoch.checked_add(start.elapsed()).unwrap()
    })
}

/// Runs a future with a vault that is served.
async fn with<T>(vault: &Vault, plan: &Plan, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        error = vault.serve(plan) => panic!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_share_each_login() {
    let server = Server::knowing("t1");
    let plan = Plan::new([
        one(&server.credentials("t1")),
        one(&server.credentials("t2")),
    ]);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        let ask = || join_all((0..20).map(|_| client.get_json("/version")));
        assert!(ask().await.iter().all(Result::is_ok));
        assert_eq!((plan.count(), server.count(401)), (1, 0));
        server.know("t2");
        assert!(ask().await.iter().all(Result::is_ok));
        assert_eq!(plan.count(), 2, "one login for all");
        assert_eq!(server.count(401), 20);
        assert!(ask().await.iter().all(Result::is_ok));
        assert_eq!(plan.count(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_repeated_unchanged() {
    let server = Server::knowing("t2");
    let plan = Plan::new([
        one(&server.credentials("t1")),
        one(&server.credentials("t2")),
    ]);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        let content = json!({"a": "b"});
        client.post_json("/api/v1/things", &content).await.unwrap();
        let known = server.0.lock().unwrap();
        let [first, second] = &known.asked[..] else {
            panic!("{:?}", known.asked);
        };
        assert_eq!((first.3, second.3), (401, 200));
        assert_eq!((&first.1, &first.2), (&second.1, &second.2));
        assert_eq!(second.2, content.to_string());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_credentials_are_tried_before_another_login() {
    let server = Server::knowing("low");
    let all = vec![
        ("low".to_owned(), server.credentials("low")),
        (
            "high".to_owned(),
            server.credentials("high").with_priority(1),
        ),
        (
            "more".to_owned(),
            server.credentials("more").with_priority(1),
        ),
    ];
    let plan = Plan::new([Ok(all)]);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
        client.get_json("/version").await.unwrap();
        let mut codes = server.codes();
        codes[..2].sort_unstable();
        let expected = [("high", 401), ("more", 401), ("low", 200), ("low", 200)];
        assert_eq!(
            codes,
            expected.map(|(token, code)| (token.to_owned(), code))
        );
        assert_eq!(plan.count(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_are_accepted_again_after_a_login() {
    let server = Server::knowing("t");
    let at = |second: u32| {
        let time: Timestamp = format!("2026-01-01T00:00:{second}Z").parse().unwrap();
        one(&server.credentials("t").with_expiration(time))
    };
    let plan = Plan::new([at(20), at(40)]);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
        sleep(Duration::from_secs(10)).await;
        client.get_json("/version").await.unwrap();
        assert_eq!(plan.count(), 1);
        sleep(Duration::from_secs(5)).await;
        client.get_json("/version").await.unwrap();
        assert_eq!(plan.count(), 2);
        assert_eq!(server.count(401), 0, "it is known without asking");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn credentials_that_expire_unused_do_not_fail_the_login() {
    let server = Server::knowing("t");
    let unreachable = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("no route to host"))
    });
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let expiring = (1..=20).map(|number| {
        let time = epoch + Duration::from_secs(60 * number);
        one(&Credentials::from_service(unreachable, "ns").with_expiration(time))
    });
    let plan = Plan::new(expiring.chain([one(&server.credentials("t"))]));
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        let mut failures = 0;
        while client.get_json("/version").await.is_err() {
            failures += 1;
            assert!(failures < 5000, "the login was given up");
            sleep(Duration::from_secs(1)).await;
        }
        assert!(plan.count() > 10, "{}", plan.count());
    })
    .await;
}

/// Sends requests until the login fails permanently.
async fn end(plan: &Plan) -> (LoginError, crate::Error, Duration) {
    let vault = vault();
    let client = vault.client();
    let start = Instant::now();
    let (error, answer) = tokio::join!(vault.serve(plan), client.get_json("/version"));
    (error, answer.unwrap_err(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn credentials_that_never_worked_are_not_tried_twice() {
    let server = Server::default();
    let plan = Plan::new([one(&server.credentials("t"))]);
    let (error, seen, _) = end(&plan).await;
    assert_eq!((plan.count(), server.count(401)), (2, 1));
    let text = "no usable credentials were retrieved: those of \"fn\" are rejected by the server";
    assert_eq!(error.to_string(), text);
    assert_eq!(seen.to_string(), text);
    assert!(!seen.is_transient());
}

#[tokio::test(start_paused = true)]
async fn credentials_that_worked_are_retrieved_again_with_delays() {
    let server = Server::knowing("t1");
    let (old, new) = (server.credentials("t1"), server.credentials("t2"));
    let mut plan = Plan::new([one(&old), one(&old), one(&old), one(&old), one(&new)]);
    plan.takes = Duration::ZERO;
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
        server.know("t2");
        let start = Instant::now();
        client.get_json("/version").await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 1 + 1 + 2);
        assert_eq!((plan.count(), server.count(401)), (5, 1));
    })
    .await;

    let plan = Plan::new([one(&old)]);
    let vault = super::tests::vault();
    let client = vault.client();
    server.know("t1");
    let work = async {
        client.get_json("/version").await.unwrap();
        server.know("t3");
        client.get_json("/version").await.unwrap_err()
    };
    let (error, _) = tokio::join!(vault.serve(&plan), work);
    assert!(matches!(error, LoginError::Unusable { .. }), "{error}");
    assert_eq!(plan.count(), 1 + 9);
}

#[tokio::test(start_paused = true)]
async fn new_credentials_that_never_work_are_not_retrieved_forever() {
    let server = Server::default();
    let steps = (0..100).map(|number| one(&server.credentials(&number.to_string())));
    let plan = Plan::new(steps);
    let (error, _, took) = end(&plan).await;
    assert!(matches!(error, LoginError::Unusable { .. }), "{error}");
    assert_eq!((plan.count(), server.count(401)), (9, 9));
    assert_eq!(took.as_secs(), 9 * 5 + 54);
}

#[tokio::test(start_paused = true)]
async fn login_failures_reach_waiting_requests() {
    let failure = LoginError::Failed {
        reason: "no network".to_owned(),
    };
    let past: Timestamp = "2025-12-31T23:59:59Z".parse().unwrap();
    let expired = Server::default().credentials("t").with_expiration(past);
    let senseless = Credentials::from(crate::connection::ConnectionInfo {
        server: "https://server".to_owned(),
        ca_path: Some("ca".into()),
        ca_data: Some("ca".into()),
        ..Default::default()
    });
    for (step, text) in [
        (Err(failure), "logging in has failed: no network"),
        (
            Ok(Vec::new()),
            "no credentials were retrieved from the login handlers",
        ),
        (
            one(&expired),
            "no usable credentials were retrieved: those of \"fn\" have expired already, at \
             2025-12-31T23:59:59Z",
        ),
        (
            one(&senseless),
            "no usable credentials were retrieved: those of \"fn\" cannot be used: the CA is given \
             both as a path and as data",
        ),
    ] {
        let plan = Plan::new([step]);
        let (error, seen, _) = end(&plan).await;
        assert_eq!(error.to_string(), text);
        assert_eq!(seen.to_string(), text);
        assert_eq!(plan.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn unusable_credentials_are_ignored_beside_usable_ones() {
    let server = Server::knowing("t");
    let past: Timestamp = "2025-12-31T23:59:59Z".parse().unwrap();
    let bad = server
        .credentials("x")
        .with_expiration(past)
        .with_priority(9);
    let plan = Plan::new([Ok(vec![
        ("bad".to_owned(), bad),
        ("good".to_owned(), server.credentials("t")),
    ])]);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
        assert_eq!(server.codes(), [("t".to_owned(), 200)]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_fail_when_the_vault_is_not_served() {
    let server = Server::knowing("t");
    let plan = Plan::new([one(&server.credentials("t"))]);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
    })
    .await;
    client.get_json("/version").await.unwrap();
    server.know("other");
    let error = client.get_json("/version").await.unwrap_err();
    assert!(
        matches!(error, crate::Error::Login(LoginError::Over)),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn kube_clients_use_new_credentials() {
    let server = Server::knowing("t1");
    let plan = Plan::new([
        one(&server.credentials("t1")),
        one(&server.credentials("t2")),
    ]);
    let vault = vault();
    let client = vault.client();
    assert_eq!(client.default_namespace(), None);
    assert_eq!(client.kube().default_namespace(), "default");
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
        let kube = client.kube();
        assert_eq!(kube.default_namespace(), "ns");
        let ask = || {
            let request = Request::builder().method(Method::PUT).uri("/things");
            kube.request_text(request.body(b"text".to_vec()).unwrap())
        };
        ask().await.unwrap();
        server.know("t2");
        ask().await.unwrap();
        assert_eq!(plan.count(), 2);
        let known = server.0.lock().unwrap();
        let bodies: Vec<_> = known.asked.iter().map(|asked| &*asked.2).collect();
        assert_eq!(bodies, ["", "text", "text", "text"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn login_does_not_count_towards_the_request_timeout() {
    let server = Server::knowing("t");
    let mut plan = Plan::new([one(&server.credentials("t"))]);
    plan.takes = Duration::from_secs(3_600);
    let vault = vault();
    let mut networking = Networking::default();
    networking.request_timeout = Some(Duration::from_secs(1));
    let client = vault.client().with_networking(&networking);
    let start = Instant::now();
    with(&vault, &plan, client.get_json("/version"))
        .await
        .unwrap();
    assert_eq!(start.elapsed().as_secs(), 3_600);
}

#[tokio::test(start_paused = true)]
async fn watches_survive_new_logins() {
    let server = Server::knowing("t0");
    let steps = (0..50).map(|number| one(&server.credentials(&format!("t{number}"))));
    let plan = Plan::new(steps);
    let vault = vault();
    let resource = Arc::new(kopf_core::resource::Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        namespaced: true,
        ..Default::default()
    });
    let mut observer = observe(vault.client(), resource, None, &Watching::default());
    with(&vault, &plan, async {
        assert!(matches!(observer.next().await, Signal::Listing));
        assert!(matches!(
            observer.next().await,
            Signal::Listed { objects: 0 }
        ));
        // The watches of this server are empty, which is reported, but no other failure is.
        let changing = async {
            for number in 1..10 {
                sleep(Duration::from_secs(60)).await;
                server.know(&format!("t{number}"));
            }
        };
        let failure = async {
            loop {
                match observer.next().await {
                    Signal::Failure { error, .. } if !matches!(error, Error::Ended { .. }) => {
                        break error;
                    }
                    signal => drop(signal),
                }
            }
        };
        tokio::select! {
            () = changing => {}
            error = failure => panic!("{error}"),
        }
        assert_eq!(plan.count(), 9, "one for each change but the last");
    })
    .await;
}

/// Returns credentials for a server with a certificate of an unknown CA.
fn untrusted() -> Credentials {
    let service = tower::service_fn(|_: Request<Body>| async {
        let error = rustls::CertificateError::UnknownIssuer;
        let error = std::io::Error::other(rustls::Error::InvalidCertificate(error));
        Err::<Response<Body>, _>(error)
    });
    Credentials::from_service(service, "ns")
}

#[tokio::test(start_paused = true)]
async fn unknown_certificates_trigger_a_login() {
    let server = Server::knowing("t");
    let mut steps = vec![one(&untrusted()); 5];
    steps.push(one(&server.credentials("t")));
    let plan = Plan::new(steps);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        client.get_json("/version").await.unwrap();
        assert_eq!((plan.count(), server.count(200)), (6, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn unknown_certificates_are_reported_and_not_permanent() {
    let server = Server::knowing("t");
    let mut steps = vec![one(&untrusted()); 30];
    steps.push(one(&server.credentials("t")));
    let plan = Plan::new(steps);
    let vault = vault();
    let client = vault.client();
    with(&vault, &plan, async {
        let error = client.get_json("/version").await.unwrap_err();
        assert!(matches!(error, crate::Error::Untrusted { .. }), "{error}");
        let kube = client.kube();
        let ask = || {
            let request = Request::builder().uri("/version");
            kube.request_text(request.body(Vec::new()).unwrap())
        };
        let mut failures = 0;
        while ask().await.is_err() {
            failures += 1;
        }
        assert_eq!(failures, 30 - 9, "those of the other client are before");
        assert_eq!(plan.count(), 31);
    })
    .await;
}

/// A login that returns new credentials each time, as credential plugins do.
#[derive(Default)]
struct FreshLogin(Mutex<usize>);

impl Login for FreshLogin {
    fn login(&self) -> BoxFuture<'_, Result<Retrieved, LoginError>> {
        *self.0.lock().unwrap() += 1;
        let service = tower::service_fn(|request: Request<Body>| async move {
            let code = if request.uri().path() == "/rejecting" {
                401
            } else {
                200
            };
            let response = Response::builder().status(code);
            Ok::<_, Infallible>(response.body(Body::from(b"{}".to_vec())).unwrap())
        });
        let credentials = Credentials::from_service(service, "ns");
        Box::pin(async move { one(&credentials) })
    }
}

#[tokio::test(start_paused = true)]
async fn partial_rejections_do_not_cause_a_loop_of_logins() {
    let (vault, login) = (vault(), FreshLogin::default());
    let client = vault.client();
    let working = async {
        loop {
            client.get_json("/working").await.unwrap();
            sleep(Duration::from_millis(10)).await;
        }
    };
    let rejected = client.get_json("/rejecting");
    let minutes = Duration::from_secs(600);
    let all = async {
        tokio::select! {
            // In random order, nine credentials in a row can be rejected before they are used elsewhere.
            biased;
            error = vault.serve(&login) => panic!("{error}"),
            () = working => {}
            _ = rejected => panic!("it is rejected with all credentials"),
        }
    };
    assert!(timeout(minutes, all).await.is_err());
    let logins = *login.0.lock().unwrap();
    assert!((50..150).contains(&logins), "{logins}");
}
