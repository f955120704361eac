//! Objects that go without being marked for deletion, or while nobody looks; kinds that go.

use kopf_engine::background::StopReason;
use serde_json::json;

use super::Flags;
use crate::front::{Declaration, done, on};
use crate::stage::{FINALIZER, sandboxed};

fn listening(flags: &Flags) -> Declaration {
    let flags = flags.clone();
    on::daemon("watch").does(move |call| {
        let stopped = flags.keep(&call);
        async move {
            stopped.wait(None).await;
            done()
        }
    })
}

#[test]
fn those_of_an_object_that_is_gone_are_stopped() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let handlers = [listening(&flags), on::timer("tick").interval(600.0)];
        let operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.settled().await;
        // Somebody takes the finalizer away, and the object goes at once.
        let none = json!({"metadata": {"finalizers": []}});
        stage.faults().kill_watches();
        stage.merge("obj", none).await;
        stage.delete("obj").await;
        stage.pass(60.0).await;
        assert_eq!(
            flags.last(),
            StopReason::RESOURCE_DELETED | StopReason::DONE
        );
        let now = operator.inspect().snapshot();
        assert_eq!((now.daemons, now.timers, now.objects), (0, 0, 0));
    });
}

#[test]
fn those_of_an_object_that_is_not_listed_are_stopped() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([listening(&flags)]).await;
        stage.create("obj", json!({})).await;
        stage.settled().await;
        stage.relist();
        let none = json!({"metadata": {"finalizers": []}});
        stage.merge("obj", none).await;
        stage.delete("obj").await;
        stage.pass(60.0).await;
        assert_eq!(
            flags.last(),
            StopReason::RESOURCE_DELETED | StopReason::DONE
        );
        assert_eq!(operator.inspect().snapshot().daemons, 0);
    });
}

#[test]
fn the_next_object_of_that_name_has_its_own() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([listening(&flags)]).await;
        stage.create("obj", json!({})).await;
        stage.settled().await;
        stage.relist();
        stage
            .merge("obj", json!({"metadata": {"finalizers": []}}))
            .await;
        stage.delete("obj").await;
        stage.create("obj", json!({})).await;
        stage.pass(60.0).await;
        assert_eq!(flags.reasons().len(), 2);
        assert_eq!(flags.last(), StopReason::NONE);
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        let object = stage.get("obj").await;
        assert_eq!(object["metadata"]["finalizers"], json!([FINALIZER]));
    });
}
