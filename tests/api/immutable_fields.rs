//! The immutable address of a Service.

use kopf_tests::{Api, objects};
use serde_json::json;

#[tokio::test]
async fn cluster_ip_of_a_service_is_immutable() {
    let api = Api::start().await;
    let all = api.ns_path("services");
    // All tests on one server share its few addresses: takes a free one.
    let unique = api.unique("");
    let start = usize::from_str_radix(&unique[unique.len() - 4..], 16).unwrap();
    let mut taken = None;
    for attempt in 0..250 {
        let address = format!("10.0.0.{}", 2 + (start + attempt) % 250);
        let mut object = objects::service("one");
        object["spec"]["clusterIP"] = json!(address);
        let response = api.create(&all, &object).await;
        if response.code != 422 {
            taken = Some((address, response.expect_code(201)));
            break;
        }
    }
    let (address, made) = taken.unwrap();
    assert_eq!(made.at("/spec/clusterIP"), &json!(address));
    assert_eq!(made.at("/spec/clusterIPs"), &json!([address]));
    let other = if address == "10.0.0.2" {
        "10.0.0.3"
    } else {
        "10.0.0.2"
    };
    let patch = json!({"spec": {"clusterIP": other}});
    let refused = api.merge(&format!("{all}/one"), &patch).await;
    let refused = refused.expect_failure(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [("FieldValueInvalid", "spec.clusterIPs[0]")]
    );
    let patch = json!({"spec": {"selector": {"app": "other"}}});
    let patched = api.merge(&format!("{all}/one"), &patch).await;
    assert_eq!(
        patched.expect_code(200).at("/spec/clusterIP"),
        &json!(address)
    );
}
