//! Tests of servers that reject, fail, compact, or stall.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::resource::Resource;
use kopf_core::settings::Watching;
use tokio::time::{Instant, timeout};

use super::{
    added, bookmark, brief, event, examples, failure, list, next, open, quiet, seconds, started,
    watch,
};
use crate::script::{Piece, Reply, Script, data, refusal, status, text};
use crate::watching::{Observer, observe};

#[tokio::test(start_paused = true)]
async fn list_follows_410() {
    let gone = data(event("ERROR", &status(410)));
    let replies = [
        list(&["a"], "5"),
        open(vec![added("b", "6"), gone]),
        list(&["b"], "20"),
        refusal(410),
        list(&["c"], "30"),
        open(vec![]),
    ];
    let (mut observer, script) = started(replies);
    let signals = next(&mut observer, 10).await;
    assert_eq!(
        signals,
        [
            "listing", "- a", "listed 1", "ADDED b", "listing", "- b", "listed 1", "listing",
            "- c", "listed 1"
        ]
    );
    quiet(&mut observer, seconds(1)).await;
    assert_eq!(script.paths()[5], watch("30"));
}

#[tokio::test(start_paused = true)]
async fn repeated_410_slows_down() {
    let mut replies = Vec::new();
    for _ in 0..20 {
        replies.extend([list(&[], "5"), refusal(410)]);
    }
    let start = Instant::now();
    let (mut observer, script) = started(replies);
    while script.left() > 0 {
        observer.next().await;
    }
    assert!(start.elapsed() > seconds(60), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn other_errors_in_the_stream_are_reported_and_followed_by_a_list() {
    let error = data(event("ERROR", &status(500)));
    let replies = [
        list(&[], "5"),
        open(vec![error]),
        list(&["a"], "6"),
        open(vec![]),
    ];
    let (mut observer, _) = started(replies);
    assert_eq!(
        next(&mut observer, 6).await,
        [
            "listing",
            "listed 0",
            "failure 500",
            "listing",
            "- a",
            "listed 1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn silent_streams_are_reopened() {
    let pause = |time| Piece::Pause(seconds(time));
    let replies = [
        list(&[], "5"),
        open(vec![pause(60), bookmark("6"), pause(60), bookmark("7")]),
        open(vec![added("a", "8")]),
    ];
    let (mut observer, script) = started(replies);
    next(&mut observer, 2).await;
    let start = Instant::now();
    assert_eq!(next(&mut observer, 1).await, ["ADDED a"]);
    assert_eq!(start.elapsed(), seconds(60 + 60 + 70));
    assert_eq!(observer.last_activity(), Instant::now());
    assert_eq!(script.paths()[1..], ["5", "7"].map(watch));
}

#[tokio::test(start_paused = true)]
async fn inactivity_limit_can_be_disabled() {
    let mut settings = Watching::default();
    settings.inactivity_timeout = None;
    let hour = Piece::Pause(seconds(3_600));
    let replies = [list(&[], "5"), open(vec![hour, added("a", "6")])];
    let (client, script) = Script::new(replies);
    let mut observer = observe(client, examples(), None, &settings);
    let signals = next(&mut observer, 3).await;
    assert_eq!(signals, ["listing", "listed 0", "ADDED a"]);
    quiet(&mut observer, seconds(36_000)).await;
    assert_eq!(script.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn unpolled_stream_gets_a_grace_time_once() {
    // The event arrived while the stream was not polled.
    let replies = [
        list(&[], "5"),
        open(vec![Piece::Pause(seconds(72)), added("a", "6")]),
        open(vec![added("b", "7")]),
    ];
    let (mut observer, script) = started(replies);
    next(&mut observer, 2).await;
    quiet(&mut observer, seconds(1)).await;
    tokio::time::sleep(seconds(80)).await;
    assert_eq!(next(&mut observer, 1).await, ["ADDED a"]);
    assert_eq!(script.left(), 1);
    // The stream is dead, even if `next` is called and dropped repeatedly.
    let start = Instant::now();
    let signal = loop {
        if let Ok(signal) = timeout(seconds(1), observer.next()).await {
            break brief(&signal);
        }
    };
    assert_eq!(signal, "ADDED b");
    assert!(start.elapsed() <= seconds(76), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn streams_that_do_not_open_in_time_fail() {
    let mut settings = Watching::default();
    settings.connect_timeout = Some(seconds(3));
    let replies = [list(&[], "5"), Reply::Never, open(vec![added("a", "6")])];
    let (client, _) = Script::new(replies);
    let mut observer = observe(client, examples(), None, &settings);
    let start = Instant::now();
    assert_eq!(
        next(&mut observer, 3).await,
        [
            "listing",
            "listed 0",
            "failure no response within 3 seconds"
        ]
    );
    assert_eq!(start.elapsed(), seconds(3));
    assert_eq!(next(&mut observer, 1).await, ["ADDED a"]);
}

#[tokio::test(start_paused = true)]
async fn rejections_are_permanent_failures_and_retried() {
    let replies = [
        refusal(403),
        refusal(403),
        list(&[], "5"),
        refusal(403),
        list(&["a"], "6"),
        refusal(405),
        open(vec![]),
    ];
    let (mut observer, script) = started(replies);
    let refused = async |observer: &mut Observer, code: u16| {
        let (error, retry_in, permanent) = failure(observer).await;
        assert!(
            error.starts_with(&format!("refused with {code}")),
            "{error}"
        );
        assert!(permanent);
        assert!(
            retry_in >= seconds(22) && retry_in <= seconds(38),
            "{retry_in:?}"
        );
    };
    let start = Instant::now();
    assert_eq!(next(&mut observer, 1).await, ["listing"]);
    refused(&mut observer, 403).await;
    assert_eq!(next(&mut observer, 1).await, ["listing"]);
    refused(&mut observer, 403).await;
    assert_eq!(next(&mut observer, 2).await, ["listing", "listed 0"]);
    refused(&mut observer, 403).await;
    assert_eq!(next(&mut observer, 3).await, ["listing", "- a", "listed 1"]);
    refused(&mut observer, 405).await;
    assert!(start.elapsed() > seconds(66), "{:?}", start.elapsed());
    assert_eq!(script.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn missing_resources_are_retried_soon() {
    let replies = [refusal(404), refusal(404), list(&[], "5"), open(vec![])];
    let (mut observer, _) = started(replies);
    let start = Instant::now();
    assert_eq!(
        next(&mut observer, 6).await,
        [
            "listing",
            "permanent failure 404",
            "listing",
            "permanent failure 404",
            "listing",
            "listed 0"
        ]
    );
    assert!(start.elapsed() < seconds(4), "{:?}", start.elapsed());

    let (mut observer, _) = started(vec![refusal(404); 20]);
    let mut last = Duration::ZERO;
    for _ in 0..20 {
        assert_eq!(next(&mut observer, 1).await, ["listing"]);
        last = failure(&mut observer).await.1;
    }
    assert!(last >= seconds(22), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn unreachable_servers_are_retried_with_growing_delays() {
    let run = |name: &'static str| async move {
        let (client, _) = Script::new(vec![Reply::Reset; 12]);
        let mut observer = observe(client, examples(), Some(name.into()), &Watching::default());
        assert_eq!(next(&mut observer, 1).await, ["listing"]);
        let mut waits = Vec::new();
        for _ in 0..12 {
            let (_, retry_in, permanent) = failure(&mut observer).await;
            assert!(!permanent);
            waits.push(retry_in);
        }
        waits
    };
    let waits = run("ns1").await;
    assert!(waits[0] < Duration::from_millis(200));
    assert!(waits[11] > seconds(3) && waits[11] < seconds(7));
    assert_eq!(waits, run("ns1").await, "the same observer waits the same");
    assert_ne!(waits, run("ns2").await, "different ones do not");
}

#[tokio::test(start_paused = true)]
async fn throttling_is_obeyed() {
    let busy = || text(429, "").with("Retry-After", "17");
    let replies = [busy(), list(&[], "5"), busy(), open(vec![added("a", "6")])];
    let (mut observer, script) = started(replies);
    let start = Instant::now();
    assert_eq!(
        next(&mut observer, 5).await,
        [
            "listing",
            "failure 429",
            "listed 0",
            "failure 429",
            "ADDED a"
        ]
    );
    assert_eq!(start.elapsed(), seconds(34));
    assert_eq!(
        script.paths()[3],
        watch("5"),
        "watching goes on without listing"
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_lines_fail_and_are_skipped() {
    let page = || open(vec![data("<html>\n<body>Bad gateway</body>\n</html>\n")]);
    let replies = [
        list(&[], "5"),
        page(),
        page(),
        list(&["a"], "9"),
        open(vec![added("b", "10")]),
    ];
    let (mut observer, _) = started(replies);
    let malformed = "failure unexpected response";
    assert_eq!(
        next(&mut observer, 8).await,
        [
            "listing", "listed 0", malformed, malformed, "listing", "- a", "listed 1", "ADDED b"
        ]
    );

    let (mut observer, _) = started([text(200, "<html>"), text(200, "{}"), list(&[], "5")]);
    assert_eq!(
        next(&mut observer, 6).await,
        [
            "listing", malformed, "listing", malformed, "listing", "listed 0"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn unusable_versions_are_dropped_after_failures() {
    // After a restored backup, the version is from the future: the server cannot serve it yet.
    let mut replies = vec![list(&[], "500")];
    replies.extend(vec![refusal(504); 3]);
    replies.extend([list(&["a"], "7"), open(vec![])]);
    let (mut observer, _) = started(replies);
    assert_eq!(
        next(&mut observer, 8).await,
        [
            "listing",
            "listed 0",
            "failure 504",
            "failure 504",
            "failure 504",
            "listing",
            "- a",
            "listed 1"
        ]
    );
    // A version that the server rejects.
    let replies = [list(&[], "x"), refusal(400), list(&[], "7")];
    let (mut observer, _) = started(replies);
    assert_eq!(
        next(&mut observer, 5).await,
        ["listing", "listed 0", "failure 400", "listing", "listed 0"]
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_scopes_are_permanent_failures() {
    let (client, script) = Script::new([]);
    let nodes = Resource {
        version: "v1".into(),
        plural: "nodes".into(),
        ..Resource::default()
    };
    let mut observer = observe(
        client,
        Arc::new(nodes),
        Some("ns".into()),
        &Watching::default(),
    );
    for _ in 0..3 {
        let (error, _, permanent) = failure(&mut observer).await;
        assert!(error.contains("cluster-scoped"), "{error}");
        assert!(permanent);
    }
    assert!(script.requests().is_empty());
}
