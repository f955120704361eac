use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn the_program_stops_its_operator_when_it_has_seen_enough() {
    let stage = Stage::start().await;
    let mut program = stage.start_alone("12-embedded", &[stage.api.namespace()]);
    program.says("The operator is ready.").await;
    for number in 1..=3 {
        stage
            .create_changed(|object| object["metadata"]["name"] = json!(format!("object-{number}")))
            .await;
        program.says(&format!("object-{number} is created.")).await;
    }
    let log = program.end().await;
    assert!(log.ends_with("The operator has ended.\n"), "{log}");
    stage.finish().await;
}
