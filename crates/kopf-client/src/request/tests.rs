//! Retries, limits and errors of requests.

use super::*;
use crate::script::{Piece, Reply, Script, data, ok, refusal, text};
use kopf_core::settings::Networking;
use serde_json::json;
use tokio::time::Instant;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried() {
    let cut_off = Reply::Response(200, vec![], vec![data("{\"a\""), Piece::Reset]);
    let replies = [
        Reply::Reset,
        refusal(500),
        text(503, "<html>Bad day</html>"),
        cut_off,
        ok(&json!({"a": 1})),
    ];
    let (client, script) = Script::new(replies);
    let start = Instant::now();
    assert_eq!(client.get_json("/version").await.unwrap(), json!({"a": 1}));
    assert_eq!(start.elapsed(), seconds(1 + 1 + 2 + 3));
    assert_eq!(script.paths(), ["/version"; 5]);
}

#[tokio::test(start_paused = true)]
async fn last_error_is_returned() {
    let mut replies = vec![Reply::Reset; 8];
    replies.push(refusal(502));
    let (client, script) = Script::new(replies);
    let start = Instant::now();
    let error = client.get_json("/version").await.unwrap_err();
    assert_eq!(error.code(), Some(502));
    assert_eq!(start.elapsed(), seconds(1 + 1 + 2 + 3 + 5 + 8 + 13 + 21));
    assert_eq!(script.left(), 0);
}

#[tokio::test(start_paused = true)]
async fn rejections_are_not_retried() {
    for code in [400, 401, 403, 404, 409, 410, 422] {
        let (client, script) = Script::new([refusal(code), ok(&json!({}))]);
        let error = client.get_json("/version").await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert_eq!(
            error.status().unwrap().message,
            format!("refused with {code}")
        );
        assert_eq!(script.left(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn settings_determine_the_number_of_retries() {
    let mut networking = Networking::default();
    networking.error_backoffs = Backoffs::none();
    let (client, script) = Script::new([refusal(500), ok(&json!({}))]);
    let client = client.with_networking(&networking);
    assert!(client.get_json("/version").await.is_err());
    assert_eq!(script.left(), 1);

    networking.error_backoffs = Backoffs::repeating([seconds(2)]);
    let mut replies = vec![refusal(500); 50];
    replies.push(ok(&json!({})));
    let (client, _) = Script::new(replies);
    let client = client.with_networking(&networking);
    let start = Instant::now();
    assert!(client.get_json("/version").await.is_ok());
    assert_eq!(start.elapsed(), seconds(100));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let busy = json!({"kind": "Status", "details": {"retryAfterSeconds": 4}}).to_string();
    let replies = [
        text(429, "").with("Retry-After", "10.7"),
        text(429, busy.clone()),
        text(429, "").with("Retry-After", "0"),
        ok(&json!({})),
    ];
    let (client, _) = Script::new(replies.clone());
    let start = Instant::now();
    client.get_json("/version").await.unwrap();
    assert_eq!(start.elapsed(), seconds(10 + 4 + 2));

    let mut networking = Networking::default();
    networking.enforce_retry_after = true;
    let (client, _) = Script::new(replies);
    let start = Instant::now();
    let client = client.with_networking(&networking);
    client.get_json("/version").await.unwrap();
    assert_eq!(start.elapsed(), seconds(10 + 4));
}

#[tokio::test(start_paused = true)]
async fn long_delays_of_the_server_are_cut() {
    let busy = || text(503, "").with("Retry-After", "3600");
    let (client, _) = Script::new([busy(), busy(), ok(&json!({}))]);
    let start = Instant::now();
    client.get_json("/version").await.unwrap();
    assert_eq!(start.elapsed(), seconds(60 + 60));
}

#[tokio::test(start_paused = true)]
async fn rejected_content_is_not_repeated() {
    let problem = "failed to create typed patch object (ns/x; v1, Kind=ConfigMap): .x: unknown";
    let status = json!({"kind": "Status", "code": 500, "message": problem}).to_string();
    let (client, script) = Script::new([text(500, status), ok(&json!({}))]);
    let error = client.get_json("/version").await.unwrap_err();
    assert!(error.to_string().contains("typed patch"), "{error}");
    assert_eq!(script.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn timeout_applies_to_the_response_body() {
    let mut networking = Networking::default();
    networking.request_timeout = Some(seconds(7));
    networking.error_backoffs = Backoffs::from(seconds(1));
    let half = Reply::Response(200, vec![], vec![data("{"), Piece::Hang]);
    let (client, _) = Script::new([Reply::Never, half]);
    let start = Instant::now();
    let error = client
        .with_networking(&networking)
        .get_json("/version")
        .await;
    assert!(matches!(error, Err(Error::Timeout { after }) if after == seconds(7)));
    assert_eq!(start.elapsed(), seconds(7 + 1 + 7));
}

#[tokio::test]
async fn bodies_are_limited_and_joined() {
    let body = |chunks: Vec<Piece>| async {
        let (client, _) = Script::new([Reply::Response(200, vec![], chunks)]);
        let mut call = Call::get("/version");
        call.limit = 10;
        client.ask(call).await
    };
    assert_eq!(body(vec![]).await.unwrap(), "");
    assert_eq!(body(vec![data("0123456789")]).await.unwrap(), "0123456789");
    let chunks = vec![data("0123"), data(""), data("45"), data("6789")];
    assert_eq!(body(chunks).await.unwrap(), "0123456789");
    for chunks in [
        vec![data("0123456789a"), Piece::Hang],
        vec![data("0123"), data("45"), data("6789a"), Piece::Hang],
    ] {
        let error = body(chunks).await.unwrap_err();
        assert!(!error.is_transient());
        assert_eq!(
            error.to_string(),
            "the body of the response exceeds the limit of 10 bytes"
        );
    }
}

#[tokio::test]
async fn malformed_responses_are_not_retried() {
    for nonsense in ["", "<html>", "{\"a\": ", "{} {}"] {
        let (client, script) = Script::new([text(200, nonsense), ok(&json!({}))]);
        let error = client.get_json("/version").await.unwrap_err();
        assert!(
            matches!(error, Error::Malformed { .. }),
            "{nonsense}: {error}"
        );
        assert_eq!(script.left(), 1);
    }
}

#[tokio::test]
async fn invalid_paths_are_rejected() {
    let (client, script) = Script::new([]);
    let error = client.get_json("/with space").await.unwrap_err();
    assert!(matches!(error, Error::Impossible { .. }), "{error}");
    assert!(script.requests().is_empty());
}

#[tokio::test]
async fn requests_have_a_user_agent_and_a_content_type() {
    let (client, script) = Script::new([ok(&json!({"a": 1}))]);
    let response = client
        .post_json("/api/v1/namespaces", &json!({"b": 2}))
        .await;
    assert_eq!(response.unwrap(), json!({"a": 1}));
    let request = script.requests().remove(0);
    assert_eq!(request.method, Method::POST);
    assert_eq!(request.headers["content-type"], "application/json");
    assert_eq!(request.headers["accept"], "application/json");
    assert!(
        request.headers["user-agent"]
            .to_str()
            .unwrap()
            .starts_with("kopf/")
    );
    assert_eq!(&request.body[..], br#"{"b":2}"#);
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_limited() {
    let mut networking = Networking::default();
    networking.concurrency = 2;
    let slow = Reply::Response(200, vec![], vec![Piece::Pause(seconds(3)), data("{}")]);
    let (client, script) = Script::new(vec![slow; 5]);
    let client = client.with_networking(&networking);
    let start = Instant::now();
    let watching = async {
        tokio::time::sleep(seconds(1)).await;
        assert_eq!(script.requests().len(), 2);
    };
    let all = futures::future::join_all((0..5).map(|_| client.get_json("/version")));
    let (answers, ()) = futures::future::join(all, watching).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), seconds(3 + 3 + 3));
}
