use crate::stage::Stage;

#[tokio::test]
async fn events_and_log_records_are_posted() {
    let stage = Stage::start().await;
    let program = stage.run("04-events");
    stage.create().await;
    for (event_type, reason, message) in [
        ("SomeType", "SomeReason", "Some message"),
        ("Normal", "SomeReason", "Some message"),
        ("Warning", "SomeReason", "Some message"),
        (
            "Error",
            "SomeReason",
            "Some exception: invalid digit found in string",
        ),
        ("Normal", "Logging", "Everything is fine so far."),
        (
            "Normal",
            "Logging",
            "Creation is processed: 1 succeeded; 0 failed.",
        ),
    ] {
        stage.event(event_type, reason, message).await;
    }
    program.stop().await;
}
