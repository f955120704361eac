//! Objects that go without being marked for deletion, or while nobody looks; kinds that go.

use kopf_engine::daemons::StopReason;
use serde_json::json;

use super::{Flags, silent};
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
        stage.create_settled("obj", json!({})).await;
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
        stage.create_settled("obj", json!({})).await;
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
        stage.create_settled("obj", json!({})).await;
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

#[test]
fn those_of_a_kind_that_is_served_anew_do_not_run_twice() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let watch = silent("watch", &flags, 30).cancellation_backoff(100.0);
        let group = stage.api.group();
        let operator = stage.run([watch.on(&[&group, "v1", "gadgets"])]).await;
        let crd = stage.api.crd().named("gadgets", "gadget", "Gadget");
        let crd = crd.create().await;
        let object = crd.object("it", json!({}));
        stage.api.created(&crd.path(), &object).await;
        stage.pass(60.0).await;
        assert_eq!(flags.reasons(), [StopReason::NONE]);
        // Its other names have changed, so that other handlers may be meant.
        let patch = json!({"spec": {"names": {"shortNames": ["gd"]}}});
        let definition = crd.definition_path();
        stage.api.merged(&definition, &patch).await;
        stage.pass(20.0).await;
        let reason = StopReason::OPERATOR_PAUSING | StopReason::DAEMON_SIGNALLED;
        assert_eq!(flags.reasons(), [reason], "it still ends");
        stage.pass(20.0).await;
        assert_eq!(flags.reasons().len(), 2);
        assert_eq!(flags.last(), StopReason::NONE);
        assert_eq!(operator.inspect().snapshot().daemons, 1);
    });
}
