//! Objects that are too large to be stored.

use kopf_tests::Api;
use serde_json::json;

#[tokio::test]
async fn objects_above_the_limit_of_etcd_are_rejected() {
    let api = Api::start().await;
    let crd = api.crd().create().await;
    let text = |kilobytes: usize| "x".repeat(kilobytes << 10);
    let large = crd.object("large", json!({"text": text(1700)}));
    let refused = api.create(&crd.path(), &large).await.expect_code(500);
    assert_eq!(refused.message(), "etcdserver: request is too large");
    api.get(&crd.path_of("large")).await.expect_code(404);

    let fitting = crd.object("fitting", json!({"text": text(1400)}));
    api.created(&crd.path(), &fitting).await;
    let patch = json!({"spec": {"more": text(300)}});
    let path = crd.path_of("fitting");
    let refused = api.merge(&path, &patch).await.expect_code(500);
    assert_eq!(refused.message(), "etcdserver: request is too large");
    let kept = api.get(&path).await.ok();
    assert_eq!(kept.at("/spec/more"), &json!(null));
}
