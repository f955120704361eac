//! Taps and several listeners over TLS.

use std::sync::{Arc, Mutex};

use kopf_sandbox::tap::{Decision, Gate, Reply, Tap, TapFuture, TapRequest};
use kopf_sandbox::{Listen, Listening, Sandbox};
use tokio::sync::Notify;

use crate::support::tls::{Connection, Kubeconfig};
use crate::support::{Api, CONFIG_MAPS, config_map, in_time};
use crate::taps::Script;

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

async fn listen(sandbox: &Sandbox, endpoint: &str) -> Listening {
    let mut listen = Listen::default();
    listen.endpoint = endpoint.to_owned();
    sandbox.listen(listen).await.unwrap()
}

async fn connect(listening: &Listening) -> Connection {
    let kubeconfig = Kubeconfig::read(&listening.kubeconfig());
    let connected = in_time("a connection", kubeconfig.connect()).await;
    connected.unwrap()
}

#[tokio::test]
async fn endpoints_are_distinguished_and_end_alone() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&seen);
    let script = Script::default().requests(move |request| {
        told.lock().unwrap().push(request.endpoint.to_string());
        None
    });
    let (sandbox, api, _) = script.start();
    let one = listen(&sandbox, "one").await;
    let two = listen(&sandbox, "two").await;
    assert_ne!(one.url(), two.url());
    let mut first = connect(&one).await;
    let mut second = connect(&two).await;
    let mut watch_one = first.watch(WATCH).await;
    let mut watch_two = second.watch(WATCH).await;
    api.create(CONFIG_MAPS, &config_map("a", ""))
        .await
        .expect(201);
    assert_eq!(watch_one.event().await.name(), "a");
    assert_eq!(watch_two.event().await.name(), "a");
    assert_eq!(*seen.lock().unwrap(), ["one", "two", "in-process"]);

    let address = one.local_addr();
    in_time("the end of the first", one.kill()).await;
    assert!(watch_one.breaks().await, "a killed server says nothing");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    api.create(CONFIG_MAPS, &config_map("b", ""))
        .await
        .expect(201);
    assert_eq!(watch_two.event().await.name(), "b", "the other goes on");

    let three = listen(&sandbox, "three").await;
    in_time("an orderly end", two.shutdown()).await;
    assert!(!watch_two.breaks().await, "a watch ends in order");
    let mut third = connect(&three).await;
    third.get(CONFIG_MAPS).await.unwrap().expect(200);
}

#[tokio::test]
async fn connections_break_before_and_after_the_commit() {
    let script = Script::default()
        .requests(|request| {
            let gate = Gate::new();
            gate.open();
            (request.number == 1).then_some((gate, Decision::Break))
        })
        .responses(|request, _| match request.number {
            2 => Reply::Break,
            _ => Reply::Send,
        });
    let (sandbox, api, _) = script.start();
    let listening = listen(&sandbox, "main").await;
    for (exists, code) in [(false, 404), (true, 200)] {
        let mut connection = connect(&listening).await;
        let object = config_map("a", "");
        let lost = connection.create(CONFIG_MAPS, &object).await;
        assert!(lost.is_err(), "{exists}");
        let path = format!("{CONFIG_MAPS}/a");
        if !exists {
            // Number 2 must be the second creation.
            let listed = sandbox.export();
            assert!(
                !listed
                    .iter()
                    .any(|object| object["metadata"]["name"] == "a")
            );
            continue;
        }
        api.get(&path).await.expect(code);
    }
}

/// Holds all requests, and reports those that are dropped.
#[derive(Default)]
struct Holder {
    arrived: Notify,
    dropped: Arc<Notify>,
}

struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Tap for Holder {
    fn on_request<'a>(&'a self, request: &'a TapRequest) -> TapFuture<'a, Decision> {
        let guard = Guard(Arc::clone(&self.dropped));
        let is_held = request.user_agent != "friend";
        Box::pin(async move {
            let _guard = guard;
            self.arrived.notify_one();
            if is_held {
                std::future::pending::<()>().await;
            }
            Decision::Proceed
        })
    }
}

#[tokio::test]
async fn hold_ends_with_the_connection_of_its_client() {
    let holder = Arc::new(Holder::default());
    let tap: Arc<dyn Tap> = Arc::<Holder>::clone(&holder);
    let sandbox = Sandbox::builder().tap(tap).build().unwrap();
    let listening = listen(&sandbox, "main").await;
    let mut connection = connect(&listening).await;
    {
        let mut waiting = std::pin::pin!(connection.get(CONFIG_MAPS));
        tokio::select! {
            response = &mut waiting => panic!("it is held: {response:?}"),
            () = in_time("the request", holder.arrived.notified()) => {}
        }
    }
    drop(connection);
    in_time("the end of the hold", holder.dropped.notified()).await;

    // Held requests do not delay the end of a listener beyond its grace time.
    let mut connection = connect(&listening).await;
    let held = async { connection.get(CONFIG_MAPS).await };
    let end = async {
        holder.arrived.notified().await;
        in_time("the end", listening.kill()).await;
    };
    let (response, ()) = tokio::join!(held, end);
    assert!(response.is_err());
    let mut request = crate::support::get(CONFIG_MAPS);
    let agent = "friend".parse().unwrap();
    request.headers_mut().insert("user-agent", agent);
    let api = Api::of(&sandbox);
    let response = in_time("a free request", api.try_send(request)).await;
    response.unwrap().expect(200);
}
