//! Tests of selectors of streams, and of existing objects that are streamed instead of listed.

use kopf_core::selector::Selector;
use kopf_core::settings::StreamSelector;

use super::*;

const STREAM: &str = "/apis/kopf.dev/v1/kopfexamples?watch=true&allowWatchBookmarks=true\
                      &sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn end_of_initial(version: &str) -> Piece {
    data(event(
        "BOOKMARK",
        &json!({"metadata": {"resourceVersion": version,
                "annotations": {"k8s.io/initial-events-end": "true"}}}),
    ))
}

fn streaming(replies: impl IntoIterator<Item = Reply>) -> (Observer, Script) {
    let mut settings = Watching::default();
    settings.initial_streaming = true;
    let (client, script) = Script::new(replies);
    (observe(client, examples(), None, &settings), script)
}

#[tokio::test(start_paused = true)]
async fn selectors_go_to_listings_and_watches() {
    let selector =
        |plural| StreamSelector::new(Selector::parse(&["kopf.dev", "v1", plural]).unwrap());
    let mut ours = selector("kopfexamples");
    ours.labels = Some("a=b,!c".to_owned());
    ours.shard = Some("shardRange(object.metadata.uid, '0x0', '0x8')".to_owned());
    let mut others = selector("others");
    others.fields = Some("metadata.name=x".to_owned());
    let mut settings = Watching::default();
    settings.selectors = vec![ours, others];
    let (client, script) = Script::new([list(&[], "5"), open(vec![])]);
    let mut observer = observe(client, examples(), None, &settings);
    quiet_after_listing(&mut observer, seconds(1)).await;
    let query = "labelSelector=a%3Db%2C%21c&shardSelector=\
                 shardRange%28object%2Emetadata%2Euid%2C%20%270x0%27%2C%20%270x8%27%29";
    let base = "/apis/kopf.dev/v1/kopfexamples";
    assert_eq!(
        script.paths(),
        [
            format!("{base}?limit=500&{query}"),
            format!("{base}?watch=true&allowWatchBookmarks=true&{query}&resourceVersion=5"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn existing_objects_are_streamed_up_to_a_bookmark() {
    let (mut observer, script) = streaming([open(vec![
        added("a", "1"),
        bookmark("2"),
        added("b", "3"),
        end_of_initial("4"),
        added("c", "5"),
    ])]);
    let signals = next(&mut observer, 5).await;
    assert_eq!(signals, ["listing", "- a", "- b", "listed 2", "ADDED c"]);
    assert_eq!(script.paths(), [STREAM]);
}

#[tokio::test(start_paused = true)]
async fn broken_streaming_of_existing_objects_starts_again() {
    let (mut observer, script) = streaming([
        ended(vec![added("a", "1")]),
        open(vec![added("a", "1"), end_of_initial("4")]),
        open(vec![]),
    ]);
    let signals = next(&mut observer, 5).await;
    assert_eq!(signals, ["listing", "- a", "listing", "- a", "listed 1"]);
    assert_eq!(script.paths(), [STREAM, STREAM]);
}

#[tokio::test(start_paused = true)]
async fn later_watches_continue_from_the_version() {
    let (mut observer, script) = streaming([
        ended(vec![added("a", "1"), end_of_initial("4")]),
        open(vec![added("b", "5")]),
    ]);
    let signals = next(&mut observer, 4).await;
    assert_eq!(signals, ["listing", "- a", "listed 1", "ADDED b"]);
    assert_eq!(script.paths(), [STREAM.to_owned(), watch("4")]);
}

#[tokio::test(start_paused = true)]
async fn rejected_streaming_falls_back_to_listing() {
    let (mut observer, script) =
        streaming([refusal(422), list(&["a"], "5"), open(vec![added("b", "6")])]);
    let signals = next(&mut observer, 5).await;
    assert_eq!(
        signals,
        ["listing", "listing", "- a", "listed 1", "ADDED b"]
    );
    assert_eq!(script.paths()[1..], [LIST.to_owned(), watch("5")]);
}

/// An observer of the objects `a` to `c`, by the hashes of `uid-a` to `uid-c`.
fn sharded(replies: impl IntoIterator<Item = Reply>) -> Observer {
    let kind = Selector::parse(&["kopf.dev", "v1", "kopfexamples"]).unwrap();
    let mut low = StreamSelector::new(kind);
    let range = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8a6b430000000000')";
    low.shard = Some(range.to_owned());
    let mut settings = Watching::default();
    settings.selectors = vec![low];
    let (client, _script) = Script::new(replies);
    observe(client, examples(), None, &settings)
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_shards_are_left_out_if_the_server_ignores_the_selector() {
    let mut observer = sharded([
        list(&["a", "e", "f"], "5"),
        open(vec![added("d", "6"), added("b", "7")]),
    ]);
    let signals = next(&mut observer, 4).await;
    assert_eq!(signals, ["listing", "- a", "listed 1", "ADDED b"]);
    quiet(&mut observer, seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn confirmed_shard_selectors_are_applied_by_the_server_alone() {
    let confirmed = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExampleList", "items": [object("e", "1")],
        "metadata": {"resourceVersion": "5", "shardInfo": {"selector": "as it was sent"}},
    });
    let mut observer = sharded([ok(&confirmed), open(vec![added("d", "6")])]);
    let signals = next(&mut observer, 4).await;
    assert_eq!(signals, ["listing", "- e", "listed 1", "ADDED d"]);
}
