use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn program_stops_its_operator_after_three_objects() {
    let stage = Stage::start().await;
    let mut program = stage.start_alone("12-embedded", &[stage.api.namespace()]);
    program.await_log("The operator is ready.").await;
    for number in 1..=3 {
        stage
            .create_changed(|object| object["metadata"]["name"] = json!(format!("object-{number}")))
            .await;
        program
            .await_log(&format!("object-{number} is created."))
            .await;
    }
    let log = program.end().await;
    assert!(log.ends_with("The operator has ended.\n"), "{log}");
}
