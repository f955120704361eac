//! Tests of network faults over TLS.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use kopf_sandbox::fault::{Fault, Verb};
use kopf_sandbox::{Listen, Listening, Sandbox};
use tokio::time::timeout;

use crate::support::tls::{Connection, Kubeconfig};
use crate::support::{Api, CONFIG_MAPS, config_map, get, in_time};

/// Time after which a response is considered absent.
const A_WHILE: Duration = Duration::from_millis(150);
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

struct Setup {
    sandbox: Sandbox,
    listening: Listening,
    kubeconfig: Kubeconfig,
}

impl Setup {
    async fn new() -> Self {
        let sandbox = Sandbox::builder().build().unwrap();
        let listening = sandbox.listen(Listen::default()).await.unwrap();
        let kubeconfig = Kubeconfig::read(&listening.kubeconfig());
        Self {
            sandbox,
            listening,
            kubeconfig,
        }
    }

    async fn connect(&self) -> Connection {
        let connected = in_time("a connection", self.kubeconfig.connect()).await;
        connected.unwrap()
    }

    async fn create(&self, name: &str) {
        let mut connection = self.connect().await;
        let made = connection.create(CONFIG_MAPS, &config_map(name, "")).await;
        made.unwrap().expect(201);
    }
}

fn is_reset(error: &hyper::Error) -> bool {
    let source = error.source().and_then(|e| e.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

#[tokio::test]
async fn reset_fault_resets_the_connection() {
    let setup = Setup::new().await;
    let fault = Fault::reset().verb(Verb::Create).times(1);
    setup.sandbox.faults().inject(fault);
    let mut connection = setup.connect().await;
    connection.get(CONFIG_MAPS).await.unwrap().expect(200);
    let object = config_map("one", "");
    let error = connection.create(CONFIG_MAPS, &object).await.unwrap_err();
    assert!(is_reset(&error), "{error:?}");
    let mut connection = setup.connect().await;
    let answer = connection.create(CONFIG_MAPS, &object).await.unwrap();
    answer.expect(201); // the first one was not carried out
}

#[tokio::test]
async fn all_connections_are_reset_and_new_ones_work() {
    let setup = Setup::new().await;
    let mut idle = setup.connect().await;
    idle.get(CONFIG_MAPS).await.unwrap().expect(200);
    let mut watching = setup.connect().await;
    let mut watch = watching.watch(WATCH).await;
    setup.create("one").await;
    assert_eq!(watch.event().await.name(), "one");

    setup.sandbox.faults().reset_connections();
    assert!(watch.breaks().await);
    assert!(idle.get(CONFIG_MAPS).await.is_err());
    let mut connection = setup.connect().await;
    connection.get(CONFIG_MAPS).await.unwrap().expect(200);
}

#[tokio::test]
async fn frozen_connections_resume() {
    let setup = Setup::new().await;
    let mut connection = setup.connect().await;
    connection.get(CONFIG_MAPS).await.unwrap().expect(200);
    let mut watching = setup.connect().await;
    let mut watch = watching.watch(WATCH).await;
    setup.create("one").await;
    assert_eq!(watch.event().await.name(), "one");

    let faults = setup.sandbox.faults();
    faults.freeze_connections(true);
    {
        let mut call = std::pin::pin!(connection.get(CONFIG_MAPS));
        assert!(timeout(A_WHILE, &mut call).await.is_err());
        let new = timeout(A_WHILE, setup.kubeconfig.connect()).await;
        assert!(new.is_err(), "new connections are not served either");
        assert!(timeout(A_WHILE, watch.line()).await.is_err());
        faults.freeze_connections(false);
        in_time("the response", call).await.unwrap().expect(200);
    }
    setup.create("two").await;
    assert_eq!(watch.event().await.name(), "two");
}

#[tokio::test]
async fn half_open_socket_is_silent_until_reset() {
    let setup = Setup::new().await;
    let faults = setup.sandbox.faults();
    faults.inject(Fault::half_open().verb(Verb::List).times(1));
    let mut connection = setup.connect().await;
    let mut call = std::pin::pin!(connection.get(CONFIG_MAPS));
    assert!(timeout(A_WHILE, &mut call).await.is_err());
    // Other connections are served meanwhile.
    let mut other = setup.connect().await;
    other.get(CONFIG_MAPS).await.unwrap().expect(200);
    faults.reset_connections();
    let error = in_time("the end", call).await.unwrap_err();
    assert!(is_reset(&error), "{error:?}");
}

#[tokio::test]
async fn frozen_watch_keeps_its_connection_open() {
    let setup = Setup::new().await;
    let mut connection = setup.connect().await;
    let mut watch = connection.watch(WATCH).await;
    let faults = setup.sandbox.faults();
    faults.inject(Fault::freeze_watch().name("two"));
    setup.create("one").await;
    setup.create("two").await;
    assert_eq!(watch.event().await.name(), "one");
    assert!(timeout(A_WHILE, watch.line()).await.is_err());
    faults.kill_watches();
    assert!(watch.breaks().await);
}

#[tokio::test]
async fn errors_arrive_with_their_headers() {
    let setup = Setup::new().await;
    let busy = Fault::error(429).retry_after(3).times(1);
    setup.sandbox.faults().inject(busy);
    let mut connection = setup.connect().await;
    let answer = connection.get(CONFIG_MAPS).await.unwrap().expect(429);
    assert_eq!(answer.headers["retry-after"], "3");
    assert_eq!(answer.json()["reason"], "TooManyRequests");
    connection.get(CONFIG_MAPS).await.unwrap().expect(200);
}

#[tokio::test]
async fn restart_keeps_data_port_and_certificates() {
    let setup = Setup::new().await;
    setup.create("one").await;
    let before = (
        setup.listening.url().to_owned(),
        setup.listening.local_addr(),
        setup.listening.authority_pem().to_owned(),
        setup.listening.kubeconfig(),
    );
    let mut connection = setup.connect().await;
    let one = format!("{CONFIG_MAPS}/one");
    let object = connection.get(&one).await.unwrap().expect(200).json();

    setup.listening.restart().await.unwrap();

    assert!(connection.get(&one).await.is_err(), "connections break");
    let after = (
        setup.listening.url().to_owned(),
        setup.listening.local_addr(),
        setup.listening.authority_pem().to_owned(),
        setup.listening.kubeconfig(),
    );
    assert_eq!(before, after);
    // The client continues with the same address, CA and certificate.
    let mut connection = setup.connect().await;
    let answer = connection.get(&one).await.unwrap().expect(200);
    assert_eq!(answer.json(), object);
}

#[tokio::test]
async fn restart_ends_watches_and_drops_old_versions() {
    let setup = Setup::new().await;
    let mut connection = setup.connect().await;
    let old = connection.get(CONFIG_MAPS).await.unwrap().version();
    let mut watch = connection.watch(WATCH).await;
    setup.create("one").await;
    assert_eq!(watch.event().await.name(), "one");
    let mut in_process = Api::of(&setup.sandbox).watch(CONFIG_MAPS).await;
    assert_eq!(in_process.event().await.name(), "one");

    setup.listening.restart().await.unwrap();

    assert!(in_process.breaks().await);
    // An end or a break: either can happen when a server dies.
    let end = in_time("the end of the watch", watch.line()).await;
    assert!(!matches!(end, Ok(Some(_))), "{end:?}");

    let mut connection = setup.connect().await;
    let mut again = connection
        .watch(&format!("{WATCH}&resourceVersion={old}"))
        .await;
    let error = again.event().await;
    assert_eq!(
        (&*error.kind, error.object["code"].as_u64()),
        ("ERROR", Some(410))
    );

    // A list and a watch from there, as after a 410.
    let mut connection = setup.connect().await;
    let list = connection.get(CONFIG_MAPS).await.unwrap().expect(200);
    let path = format!("{WATCH}&resourceVersion={}", list.version());
    let mut again = connection.watch(&path).await;
    setup.create("two").await;
    let event = again.event().await;
    assert_eq!(event.brief(), ("ADDED", "two"));
    let old: u64 = old.parse().unwrap();
    assert!(event.version() > old + 1, "versions go on where they were");
}

#[tokio::test]
async fn clients_survive_many_restarts() {
    let setup = Setup::new().await;
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..4 {
        let kubeconfig = setup.kubeconfig.clone();
        tasks.spawn(async move {
            for round in 0..5 {
                let object = config_map(&format!("c{client}-{round}"), "");
                loop {
                    let Ok(mut connection) = kubeconfig.connect().await else {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        continue;
                    };
                    match connection.create(CONFIG_MAPS, &object).await {
                        // 409: it was carried out, but the response was lost.
                        Ok(answer) if matches!(answer.code, 201 | 409) => break,
                        Ok(answer) => panic!("{}", answer.text()),
                        Err(_) => {}
                    }
                }
            }
        });
    }
    for _ in 0..5 {
        setup.listening.restart().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    in_time("all clients", async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    })
    .await;
    let mut connection = setup.connect().await;
    let list = connection.get(CONFIG_MAPS).await.unwrap().json();
    assert_eq!(list["items"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn listener_shutdown_closes_the_port_and_keeps_the_sandbox() {
    let setup = Setup::new().await;
    setup.create("one").await;
    let mut connection = setup.connect().await;
    let mut watch = connection.watch(WATCH).await;
    assert_eq!(watch.event().await.name(), "one");
    in_time("the shutdown", setup.listening.shutdown()).await;
    assert!(!matches!(watch.line().await, Ok(Some(_))));
    assert!(setup.kubeconfig.connect().await.is_err());
    let api = Api::of(&setup.sandbox);
    api.send(get(CONFIG_MAPS)).await.expect(200);
    // The sandbox can listen again, with the same CA.
    let listening = setup.sandbox.listen(Listen::default()).await.unwrap();
    let again = Kubeconfig::read(&listening.kubeconfig());
    let mut connection = again.connect().await.unwrap();
    connection.get(CONFIG_MAPS).await.unwrap().expect(200);
}
