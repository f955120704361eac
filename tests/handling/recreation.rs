//! Objects that are deleted and created again under the same name while the first one is handled.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::front::{done, on, temporary};
use crate::stage::{everywhere, is_handled, progress};

#[test]
fn outcome_of_a_deleted_object_is_not_written_to_its_successor() {
    everywhere(async |stage| {
        let handler = on::create("made").does(|call| async move {
            if call.body().spec()["generation"] == "first" {
                sleep(Duration::from_secs(3)).await;
                return done();
            }
            if call.retry < 1 {
                return temporary("not yet", 6.0);
            }
            done()
        });
        let _operator = stage.run([handler]).await;
        stage.create("obj", json!({"generation": "first"})).await;
        stage
            .wait_for("the first call", || stage.journal.count("made") == 1)
            .await;
        stage.delete("obj").await;
        stage.until_gone("obj").await;
        stage.create("obj", json!({"generation": "second"})).await;
        stage
            .until("obj", "waiting", |object| {
                progress(object, "made")["retries"] == 1
            })
            .await;
        // The first call ends meanwhile.
        stage.sleep(4.0).await;
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "made")["retries"], 1, "{object}");
        assert!(!is_handled(&object), "{object}");
        stage.until_settled("obj").await;
        let calls = stage.journal.of("made").into_iter();
        let calls: Vec<_> = calls.map(|entry| entry.retry).collect();
        assert_eq!(calls, [0, 0, 1]);
    });
}
