//! Whether an operator tells the truth about itself.

use kopf_sandbox::fault::{Fault, Verb};
use serde_json::json;

use crate::front::on;
use crate::stage::sandboxed;

#[test]
fn a_quiet_cluster_is_no_problem() {
    sandboxed(async |stage| {
        let operator = stage.run([on::create("make")]).await;
        for _ in 0..20 {
            stage.pass(180.0).await;
            let health = operator.inspect().health();
            assert!(health.is_alive(), "{health}");
        }
    });
}

#[test]
fn an_outage_is_told_and_is_over_when_it_is_over() {
    sandboxed(async |stage| {
        let operator = stage.run([on::create("make")]).await;
        stage.pass(10.0).await;
        let outage = || Fault::error(503).kind("things");
        let watch = stage.faults().inject(outage().verb(Verb::Watch));
        let list = stage.faults().inject(outage().verb(Verb::List));
        stage.faults().kill_watches();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert!(
            operator.inspect().health().is_alive(),
            "it can be over soon"
        );
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let health = operator.inspect().health();
        assert!(!health.is_alive(), "{health}");
        let reason = health.to_string();
        assert!(reason.contains("things"), "{reason}");
        assert!(reason.contains("nothing is heard for"), "{reason}");

        stage.faults().remove(watch);
        stage.faults().remove(list);
        stage.create("obj", json!({})).await;
        stage.until_handled("obj").await;
        let health = operator.inspect().health();
        assert!(health.is_alive(), "{health}");
    });
}

#[test]
fn what_is_forbidden_is_noted_only() {
    sandboxed(async |stage| {
        let forbidden = || Fault::error(403).kind("things");
        stage.faults().inject(forbidden().verb(Verb::List));
        let operator = stage.run([on::create("make")]).await;
        tokio::time::sleep(std::time::Duration::from_secs(1_000)).await;
        let health = operator.inspect().health();
        assert!(health.is_alive(), "{health}");
        assert!(health.notes[0].contains("refused"), "{health}");
    });
}
