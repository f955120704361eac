//! Tests of the request rate with useless responses: in ten virtual minutes, a watch without
//! progress is requested a few dozen times, and the reason is reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf_core::settings::Watching;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{added, bookmark, ended, event, examples, list, object, open, pages, seconds};
use crate::script::{Piece, Reply, Script, data, refusal, status};
use crate::watching::{Signal, observe};

const MINUTES: Duration = Duration::from_secs(600);

/// Ten delays up to 30 seconds, then one each 22 to 38 seconds; the more requests per delay, the
/// more in total.
const FEW: usize = 45;

/// The traffic of one observer.
#[derive(Debug, Default)]
struct Traffic {
    lists: usize,
    watches: usize,
    events: usize,
    reports: Vec<String>,
}

/// Observes a server for ten virtual minutes.
async fn traffic_of(
    settings: &Watching,
    respond: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> Traffic {
    let (client, script) = Script::by_path(respond);
    let mut observer = observe(client, examples(), None, settings);
    let mut traffic = Traffic::default();
    let end = Instant::now() + MINUTES;
    while let Ok(signal) = timeout_at(end, observer.next()).await {
        match signal {
            Signal::Failure { error, .. } => traffic.reports.push(error.to_string()),
            Signal::Item(_) => traffic.events += 1,
            Signal::Listing | Signal::Listed { .. } => {}
        }
    }
    for path in script.paths() {
        if path.contains("watch=true") {
            traffic.watches += 1;
        } else {
            traffic.lists += 1;
        }
    }
    traffic
}

/// Serves an empty list, and always the same response to watches.
async fn watching(response: Reply) -> Traffic {
    let respond = move |path: &str| {
        if path.contains("watch=true") {
            response.clone()
        } else {
            list(&[], "5")
        }
    };
    traffic_of(&Watching::default(), respond).await
}

/// Checks that there are few requests, and that most delays are reported with this reason.
fn assert_few(traffic: &Traffic, reason: &str) {
    assert!(traffic.watches >= 20, "not retried: {traffic:?}");
    assert!(traffic.watches <= FEW, "{traffic:?}");
    assert!(traffic.lists <= FEW, "{traffic:?}");
    let reasons = traffic
        .reports
        .iter()
        .filter(|report| report.contains(reason));
    assert!(
        reasons.count() + 2 >= traffic.watches,
        "{reason}: {traffic:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn empty_watches_are_slowed_down_and_reported() {
    let reason = "the server ended the watch after 0.0 s without any event, ";
    for chunks in [
        vec![],
        vec![data("")],
        vec![data("\n")],
        vec![data(" \r\n\n"), data("\n")],
    ] {
        let traffic = watching(ended(chunks)).await;
        assert_few(&traffic, reason);
        assert_eq!(traffic.lists, 1);
        assert!(traffic.reports[0].ends_with("without any event, 2 times in a row"));
    }
}

#[tokio::test(start_paused = true)]
async fn short_watches_without_events_are_slowed_down() {
    let traffic = watching(ended(vec![Piece::Pause(seconds(2))])).await;
    assert_few(
        &traffic,
        "the server ended the watch after 2.0 s without any event, ",
    );
}

#[tokio::test(start_paused = true)]
async fn html_responses_are_slowed_down_and_quoted() {
    let reason = r#"it is not JSON (line 1, column 1): "<html>"#;
    for text in [
        "<html>\n<body>Bad gateway</body>\n</html>\n",
        "<html></html>",
    ] {
        assert_few(&watching(ended(vec![data(text)])).await, reason);
        assert_few(
            &watching(open(vec![data(format!("{text}\n"))])).await,
            reason,
        );
    }
}

#[tokio::test(start_paused = true)]
async fn truncated_events_are_slowed_down_and_reported() {
    let whole = event("ADDED", &object("a", "6"));
    let half = data(&whole[..whole.len() / 2]);
    let reason = "it ends too early";
    assert_few(&watching(ended(vec![half.clone()])).await, reason);
    let reset = "reset by the script";
    assert_few(&watching(ended(vec![half, Piece::Reset])).await, reset);
    // An absent server costs nothing, so it is tried every five seconds.
    let traffic = watching(Reply::Reset).await;
    assert!((100..=140).contains(&traffic.watches), "{traffic:?}");
}

#[tokio::test(start_paused = true)]
async fn repeated_bookmarks_and_events_do_not_count_as_progress() {
    let reason = "without any event";
    assert_few(&watching(ended(vec![bookmark("5")])).await, reason);
    assert_few(&watching(ended(vec![bookmark("")])).await, reason);
    assert_few(&watching(ended(vec![added("a", "5")])).await, reason);
    // As a proxy does that caches responses.
    let cached = ended(vec![added("a", "6"), added("b", "7"), bookmark("8")]);
    let traffic = watching(cached).await;
    assert_few(&traffic, reason);
    assert_eq!(traffic.events, 2 * traffic.watches);
    let moved = json!({"metadata": {"resourceVersion": "9"}});
    assert_few(
        &watching(ended(vec![data(event("MOVED", &moved))])).await,
        reason,
    );
}

#[tokio::test(start_paused = true)]
async fn repeated_errors_are_slowed_down_and_reported() {
    let error = |code| ended(vec![data(event("ERROR", &status(code)))]);
    for code in [410, 500, 429, 0] {
        let traffic = watching(error(code)).await;
        assert_few(&traffic, &format!("refused with {code}"));
        assert_eq!(traffic.lists, traffic.watches, "{traffic:?}");
    }
    for code in [410, 400, 404, 500, 503, 429, 401] {
        assert_few(
            &watching(refusal(code)).await,
            &format!("refused with {code}"),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn versions_that_expire_at_once_are_slowed_down_despite_progress() {
    let version = Arc::new(AtomicU64::new(5));
    let respond = move |path: &str| {
        let version = version.fetch_add(1, Ordering::Relaxed).to_string();
        if path.contains("watch=true") {
            ended(vec![
                added("a", &version),
                data(event("ERROR", &status(410))),
            ])
        } else {
            list(&[], &version)
        }
    };
    let traffic = traffic_of(&Watching::default(), respond).await;
    assert_few(&traffic, "refused with 410");
    assert_eq!(traffic.events, traffic.watches);
}

#[tokio::test(start_paused = true)]
async fn useless_lists_are_slowed_down_and_reported() {
    for (response, reason) in [
        (ended(vec![data("<html>")]), "it is not JSON"),
        (ended(vec![data("{}")]), "not a list"),
        (refusal(410), "refused with 410"),
        (pages(&[], "5", "t"), "continues with itself"),
        (pages(&["a"], "5", "t"), "continues with itself"),
    ] {
        let traffic = traffic_of(&Watching::default(), move |_| response.clone()).await;
        assert_eq!(traffic.watches, 0);
        assert!(traffic.lists <= 2 * FEW, "{traffic:?}");
        let reasons = traffic
            .reports
            .iter()
            .filter(|report| report.contains(reason));
        assert!(reasons.count() >= 10, "{reason}: {traffic:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_empty_pages_are_slowed_down() {
    let count = AtomicU64::new(0);
    let respond = move |_: &str| {
        let token = count.fetch_add(1, Ordering::Relaxed).to_string();
        pages(&[], "5", &token)
    };
    let traffic = traffic_of(&Watching::default(), respond).await;
    assert!(traffic.lists <= FEW, "{traffic:?}");
}

#[tokio::test(start_paused = true)]
async fn endless_lines_are_aborted() {
    let endless = || open(vec![data("x".repeat(1 << 20)); 33]);
    let replies = [list(&[], "5"), endless(), endless(), list(&[], "6")];
    let (client, script) = Script::new(replies);
    let mut observer = observe(client, examples(), None, &Watching::default());
    let mut delays = Vec::new();
    while script.left() > 0 {
        if let Signal::Failure {
            error, retry_in, ..
        } = observer.next().await
        {
            let reason = "a line of the watch exceeds the limit of 33554432 bytes";
            assert_eq!(error.to_string(), reason);
            delays.push(retry_in);
        }
    }
    assert!(delays.len() == 2 && delays[1] > delays[0], "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_with_progress_are_spaced() {
    let version = Arc::new(AtomicU64::new(5));
    let respond = move |path: &str| {
        let version = version.fetch_add(1, Ordering::Relaxed).to_string();
        if path.contains("watch=true") {
            ended(vec![added("a", &version)])
        } else {
            list(&[], &version)
        }
    };
    let traffic = traffic_of(&Watching::default(), respond).await;
    // One each 0.1 seconds.
    assert!(
        (5_900..6_100).contains(&traffic.watches),
        "{}",
        traffic.watches
    );
    assert_eq!(traffic.reports, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn ordinary_ends_are_silent_and_immediate() {
    let traffic = watching(ended(vec![Piece::Pause(seconds(60))])).await;
    assert_eq!(traffic.reports, Vec::<String>::new());
    assert_eq!((traffic.lists, traffic.watches), (1, 11));
    // Timeouts that are requested are ordinary, even if they are short.
    let mut settings = Watching::default();
    settings.server_timeout = Some(seconds(5));
    let respond = |path: &str| {
        if path.contains("timeoutSeconds=5") {
            ended(vec![Piece::Pause(seconds(5))])
        } else {
            list(&[], "5")
        }
    };
    let traffic = traffic_of(&settings, respond).await;
    assert_eq!(traffic.reports, Vec::<String>::new());
    assert_eq!(traffic.watches, 121);
}
