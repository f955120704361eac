use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use kopf_tests::eventually;
use serde_json::Value;

use crate::stage::Stage;

/// Returns the results of the probes, or `None` if the connection is refused.
pub(crate) fn probe(port: u16) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{response}");
    serde_json::from_str(body).ok()
}

/// Returns a port that is free at the time of the call.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn activities_are_called_and_probes_are_served() {
    let stage = Stage::start().await;
    let port = free_port();
    let address = format!("http://127.0.0.1:{port}/healthz");
    let mut program = stage.run_with("13-hooks", &["--liveness", &address], &[]);
    program.await_log("Connected to db://somewhere.").await;
    assert!(program.log().contains("the database is not ready"));
    program.await_log("Logging in.").await;
    stage.create().await;
    program
        .await_log("Storing kopf-example-1 in db://somewhere.")
        .await;
    // Results of probes are cached.
    let results = eventually("the object to be counted", async || {
        probe(port).filter(|results| results["created"] == 1)
    })
    .await;
    assert!(results["now"].is_string(), "{results}");

    let log = program.stop().await;
    let events = stage.api.get(&stage.api.ns_path("events")).await;
    let events = events.expect_code(200).json;
    assert_eq!(
        events["items"],
        serde_json::json!([]),
        "only warnings are posted"
    );
    assert!(log.contains("Disconnected from db://somewhere."), "{log}");
    assert!(probe(port).is_none());
}
