//! Observers of a scripted server, in paused time.

mod failures;
mod rate;
mod restricted;

use std::sync::Arc;
use std::time::Duration;

use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use kopf_core::settings::Watching;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Observer, Signal, observe};
use crate::Client;
use crate::script::{Piece, Reply, Script, data, ok, refusal, status};

const LIST: &str = "/apis/kopf.dev/v1/kopfexamples?limit=500";

fn watch(version: &str) -> String {
    format!(
        "/apis/kopf.dev/v1/kopfexamples?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
    )
}

fn examples() -> Arc<Resource> {
    Arc::new(Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        kind: "KopfExample".into(),
        namespaced: true,
        ..Resource::default()
    })
}

fn observing(client: Client) -> Observer {
    observe(client, examples(), None, &Watching::default())
}

fn started(replies: impl IntoIterator<Item = Reply>) -> (Observer, Script) {
    let (client, script) = Script::new(replies);
    (observing(client), script)
}

fn object(name: &str, version: &str) -> Value {
    json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample",
           "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version}})
}

fn list(names: &[&str], version: &str) -> Reply {
    pages(names, version, "")
}

fn pages(names: &[&str], version: &str, next: &str) -> Reply {
    let items: Vec<Value> = names.iter().map(|name| object(name, "1")).collect();
    ok(
        &json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExampleList", "items": items,
               "metadata": {"resourceVersion": version, "continue": next}}),
    )
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn added(name: &str, version: &str) -> Piece {
    data(event("ADDED", &object(name, version)))
}

fn bookmark(version: &str) -> Piece {
    data(event(
        "BOOKMARK",
        &json!({"metadata": {"resourceVersion": version}}),
    ))
}

/// Returns a watch that stays open after these pieces.
fn open(mut pieces: Vec<Piece>) -> Reply {
    pieces.push(Piece::Hang);
    Reply::Response(200, Vec::new(), pieces)
}

/// Returns a watch that ends after these pieces.
fn ended(pieces: Vec<Piece>) -> Reply {
    Reply::Response(200, Vec::new(), pieces)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Formats a signal briefly.
fn brief(signal: &Signal) -> String {
    match signal {
        Signal::Listing => "listing".to_owned(),
        Signal::Listed { objects } => format!("listed {objects}"),
        Signal::Item(item) => {
            let kind = match item.event {
                EventType::Listed => "-",
                EventType::Added => "ADDED",
                EventType::Modified => "MODIFIED",
                EventType::Deleted => "DELETED",
            };
            format!("{kind} {}", item.key.name.as_deref().unwrap_or("?"))
        }
        Signal::Failure {
            error, permanent, ..
        } => {
            let what = match error.code() {
                Some(code) => code.to_string(),
                None => error.to_string(),
            };
            let what = what.split(['(', ':']).next().unwrap_or_default().trim();
            format!(
                "{}failure {what}",
                if *permanent { "permanent " } else { "" }
            )
        }
    }
}

/// Returns the next signals, formatted briefly.
async fn next(observer: &mut Observer, count: usize) -> Vec<String> {
    let mut signals = Vec::new();
    for _ in 0..count {
        signals.push(brief(&observer.next().await));
    }
    signals
}

/// Asserts that there is no signal for a time.
async fn quiet(observer: &mut Observer, for_time: Duration) {
    if let Ok(signal) = timeout(for_time, observer.next()).await {
        panic!("{signal:?}");
    }
}

async fn failure(observer: &mut Observer) -> (String, Duration, bool) {
    match observer.next().await {
        Signal::Failure {
            error,
            retry_in,
            permanent,
        } => (error.to_string(), retry_in, permanent),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_listed_then_watched() {
    let watched = [
        ("ADDED", "c", "6"),
        ("MODIFIED", "a", "7"),
        ("DELETED", "b", "8"),
    ]
    .map(|(kind, name, version)| data(event(kind, &object(name, version))));
    let replies = [list(&["a", "b"], "5"), open(watched.to_vec())];
    let (mut observer, script) = started(replies);
    assert_eq!(
        next(&mut observer, 7).await,
        [
            "listing",
            "- a",
            "- b",
            "listed 2",
            "ADDED c",
            "MODIFIED a",
            "DELETED b"
        ]
    );
    quiet(&mut observer, seconds(10)).await;
    assert_eq!(script.paths(), [LIST.to_owned(), watch("5")]);
}

#[tokio::test(start_paused = true)]
async fn one_object_is_selected_by_its_name() {
    let (client, script) = Script::new([list(&["a"], "5"), open(vec![])]);
    let mut observer = observing(client).named("a.b");
    assert_eq!(next(&mut observer, 3).await, ["listing", "- a", "listed 1"]);
    quiet(&mut observer, seconds(10)).await;
    let selector = "&fieldSelector=metadata.name%3Da%2Eb";
    let paths = script.paths();
    assert_eq!(paths[0], format!("{LIST}{selector}"));
    assert!(paths[1].contains(selector), "{}", paths[1]);
}

#[tokio::test(start_paused = true)]
async fn pages_are_one_listing() {
    let replies = [
        pages(&["a", "b"], "5", "t1"),
        pages(&["c"], "5", "t2"),
        pages(&[], "5", ""),
        open(vec![]),
    ];
    let (mut observer, script) = started(replies);
    assert_eq!(
        next(&mut observer, 5).await,
        ["listing", "- a", "- b", "- c", "listed 3"]
    );
    quiet(&mut observer, seconds(10)).await;
    assert_eq!(script.paths()[2], format!("{LIST}&continue=t2"));
    assert_eq!(script.paths()[3], watch("5"));
}

#[tokio::test(start_paused = true)]
async fn failed_pages_are_requested_again() {
    let replies = [
        pages(&["a"], "5", "t1"),
        refusal(500),
        Reply::Reset,
        list(&["b"], "5"),
        open(vec![]),
    ];
    let (mut observer, script) = started(replies);
    assert_eq!(
        next(&mut observer, 6).await,
        [
            "listing",
            "- a",
            "failure 500",
            "failure connection failed",
            "- b",
            "listed 2"
        ]
    );
    let page = format!("{LIST}&continue=t1");
    assert_eq!(script.paths()[1..4], [page.clone(), page.clone(), page]);
}

#[tokio::test(start_paused = true)]
async fn expired_pages_restart_the_listing_with_larger_pages() {
    let replies = [
        pages(&["a"], "5", "t1"),
        refusal(410),
        list(&["a", "b"], "6"),
        ended(vec![data(event("ERROR", &status(410)))]),
        list(&[], "9"),
    ];
    let (mut observer, script) = started(replies);
    assert_eq!(
        next(&mut observer, 6).await,
        ["listing", "- a", "listing", "- a", "- b", "listed 2"]
    );
    assert_eq!(next(&mut observer, 2).await, ["listing", "listed 0"]);
    let bigger = "/apis/kopf.dev/v1/kopfexamples?limit=4000";
    assert_eq!([&script.paths()[2], &script.paths()[4]], [bigger, bigger]);
}

#[tokio::test(start_paused = true)]
async fn watches_are_continued_from_the_last_version() {
    let replies = [
        list(&[], "5"),
        ended(vec![added("a", "6"), bookmark("60")]),
        ended(vec![added("b", "61")]),
        Reply::Response(200, vec![], vec![added("c", "62"), Piece::Reset]),
        ended(vec![data(
            "{\"type\":\"MOVED\",\"object\":{\"metadata\":{\"resourceVersion\":\"70\"}}}\n",
        )]),
        open(vec![]),
    ];
    let start = Instant::now();
    let (mut observer, script) = started(replies);
    assert_eq!(
        next(&mut observer, 5).await,
        ["listing", "listed 0", "ADDED a", "ADDED b", "ADDED c"]
    );
    quiet(&mut observer, seconds(1)).await;
    assert!(start.elapsed() < seconds(2), "{:?}", start.elapsed());
    let versions = ["5", "60", "61", "62", "70"].map(watch);
    assert_eq!(script.paths()[1..], versions);
}

#[tokio::test(start_paused = true)]
async fn lines_are_assembled_from_any_pieces() {
    let huge = "ä".repeat(1_000_000);
    let mut big = object("big", "7");
    big["spec"] = json!({"field": huge});
    let text = event("ADDED", &object("a", "6")) + &event("MODIFIED", &big) + "\n\r\n";
    for size in [1_usize, 7, 16_384] {
        // Splits within characters as well. Byte by byte only around the beginning.
        let (small, rest) = text.as_bytes().split_at(400);
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in small.chunks(size).chain(rest.chunks(size.max(1000))) {
            pieces.push(Piece::Data(bytes::Bytes::copy_from_slice(piece)));
        }
        let (mut observer, _) = started([list(&[], "5"), open(pieces)]);
        assert_eq!(
            next(&mut observer, 3).await,
            ["listing", "listed 0", "ADDED a"]
        );
        let Signal::Item(item) = observer.next().await else {
            panic!("no item")
        };
        let received: Value = serde_json::from_slice(&item.raw).unwrap();
        assert!(received == big, "by {size}");
        quiet(&mut observer, seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn last_line_needs_no_line_feed() {
    let whole = event("ADDED", &object("a", "6"));
    let replies = [
        list(&[], "5"),
        ended(vec![data(whole.trim_end())]),
        ended(vec![added("b", "7"), data(&whole[..whole.len() / 2])]),
        open(vec![]),
    ];
    let (mut observer, script) = started(replies);
    assert_eq!(
        next(&mut observer, 4).await,
        ["listing", "listed 0", "ADDED a", "ADDED b"]
    );
    quiet(&mut observer, seconds(1)).await;
    assert_eq!(script.paths()[1..], ["5", "6", "7"].map(watch));
}

#[tokio::test(start_paused = true)]
async fn streams_can_be_limited_in_time() {
    let mut settings = Watching::default();
    settings.server_timeout = Some(Duration::from_millis(12_500));
    settings.client_timeout = Some(seconds(20));
    let (client, script) = Script::new([list(&[], "5"), open(vec![]), open(vec![])]);
    let mut observer = observe(client, examples(), Some("ns".into()), &settings);
    quiet_after_listing(&mut observer, seconds(21)).await;
    assert_eq!(
        script.paths()[2],
        "/apis/kopf.dev/v1/namespaces/ns/kopfexamples\
         ?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=12"
    );
}

async fn quiet_after_listing(observer: &mut Observer, time: Duration) {
    assert_eq!(next(observer, 2).await, ["listing", "listed 0"]);
    quiet(observer, time).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_next_loses_nothing() {
    let slow = |reply: Reply| match reply {
        Reply::Response(code, headers, mut pieces) => {
            pieces.insert(0, Piece::Pause(seconds(1)));
            Reply::Response(code, headers, pieces)
        }
        other => other,
    };
    let watched = ["c", "d"]
        .map(|name| event("ADDED", &object(name, "6")))
        .concat();
    let mut pieces = Vec::new();
    for piece in watched.as_bytes().chunks(50) {
        pieces.push(Piece::Data(bytes::Bytes::copy_from_slice(piece)));
        pieces.push(Piece::Pause(Duration::from_millis(300)));
    }
    let replies = [
        slow(pages(&["a"], "5", "t1")),
        Reply::Reset,
        slow(list(&["b"], "5")),
        slow(open(pieces)),
    ];
    let (mut observer, script) = started(replies);
    let mut signals = Vec::new();
    while signals.len() < 7 {
        if let Ok(signal) = timeout(Duration::from_millis(70), observer.next()).await {
            signals.push(brief(&signal));
        }
    }
    assert_eq!(
        signals,
        [
            "listing",
            "- a",
            "failure connection failed",
            "- b",
            "listed 2",
            "ADDED c",
            "ADDED d"
        ]
    );
    assert_eq!(script.requests().len(), 4);
}
