use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use kopf_tests::eventually;
use serde_json::Value;

use crate::stage::Stage;

/// The results of the probes; none if nobody answers.
pub(crate) fn probe(port: u16) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    serde_json::from_str(body).ok()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn the_operator_has_a_life_of_its_own() {
    let stage = Stage::start().await;
    let port = free_port();
    let address = format!("http://127.0.0.1:{port}/healthz");
    let mut program = stage.run_with("13-hooks", &["--liveness", &address], &[]);
    program.says("Connected to db://somewhere.").await;
    assert!(program.log().contains("The database is not there yet."));
    program.says("Logging in.").await;
    stage.create().await;
    program.says("kopf-example-1 goes to db://somewhere").await;
    // Answers are remembered for a while.
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
    stage.finish().await;
}
