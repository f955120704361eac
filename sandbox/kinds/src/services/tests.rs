use super::*;

fn spec(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is not an object"),
    }
}

fn assigned(pool: &mut Pool, value: Value) -> Map<String, Value> {
    let mut spec = spec(value);
    let allocation = assign(&mut spec, &Allocation::default(), pool).unwrap();
    pool.reserve(allocation);
    spec
}

#[test]
fn services_get_one_address_and_its_family() {
    let mut pool = Pool::default();
    let service = assigned(&mut pool, json!({ "type": "ClusterIP" }));
    assert_eq!(service["clusterIP"], "10.0.1.0");
    assert_eq!(service["clusterIPs"], json!(["10.0.1.0"]));
    assert_eq!(service["ipFamilies"], json!(["IPv4"]));
    assert_eq!(service["ipFamilyPolicy"], "SingleStack");
    let other = assigned(&mut pool, json!({ "clusterIP": "10.0.0.7" }));
    assert_eq!(other["clusterIPs"], json!(["10.0.0.7"]));
    let mut taken = spec(json!({ "clusterIP": "10.0.0.7" }));
    assert!(assign(&mut taken, &Allocation::default(), &mut pool).is_err());
}

#[test]
fn headless_and_external_services_get_no_address() {
    let mut pool = Pool::default();
    let headless = assigned(
        &mut pool,
        json!({ "clusterIP": "None", "selector": { "a": "b" } }),
    );
    assert_eq!(headless["clusterIPs"], json!(["None"]));
    assert_eq!(headless["ipFamilyPolicy"], "SingleStack");
    let manual = assigned(&mut pool, json!({ "clusterIP": "None" }));
    assert_eq!(manual["ipFamilies"], json!(["IPv4", "IPv6"]));
    let external = json!({ "type": "ExternalName", "externalName": "example.com" });
    assert_eq!(assigned(&mut pool, external.clone()), spec(external));
}

#[test]
fn node_ports_are_unique_and_in_range() {
    let mut pool = Pool::default();
    let ports = json!([
        { "port": 53, "protocol": "UDP" }, { "port": 53, "protocol": "TCP" }, { "port": 80 },
    ]);
    let service = assigned(&mut pool, json!({ "type": "NodePort", "ports": ports }));
    let port = |at: usize| service["ports"][at]["nodePort"].as_u64().unwrap();
    assert_eq!(port(0), port(1));
    assert_ne!(port(0), port(2));
    for (given, why) in [
        (port(2), "already allocated"),
        (80, "not in the valid range"),
    ] {
        let mut taken =
            spec(json!({ "type": "NodePort", "ports": [{ "port": 1, "nodePort": given }] }));
        let failure = assign(&mut taken, &Allocation::default(), &mut pool).unwrap_err();
        assert!(format!("{failure:?}").contains(why), "{failure:?}");
    }
}

#[test]
fn load_balancers_can_disable_node_ports() {
    let mut pool = Pool::default();
    let without = json!({
        "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{ "port": 80 }],
        "externalTrafficPolicy": "Local",
    });
    let service = assigned(&mut pool, without);
    assert_eq!(service["ports"], json!([{ "port": 80 }]));
    assert!(service["healthCheckNodePort"].is_u64());
}

#[test]
fn updates_keep_omitted_addresses() {
    let mut pool = Pool::default();
    let old = assigned(
        &mut pool,
        json!({ "type": "NodePort", "ports": [{ "port": 80 }] }),
    );
    let mut new = spec(json!({ "type": "NodePort", "ports": [{ "port": 80 }] }));
    carry_over(&mut new, &old);
    assert_eq!(new, old);
    let mut external = old.clone();
    external.insert("type".to_owned(), json!("ExternalName"));
    carry_over(&mut external, &old);
    assert_eq!(
        external,
        spec(json!({ "type": "ExternalName", "ports": [{ "port": 80 }] }))
    );
}
