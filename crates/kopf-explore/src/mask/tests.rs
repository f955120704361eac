use serde_json::json;

use super::*;

fn snapshot(objects: &[Value]) -> Snapshot {
    let mut uids = BTreeMap::new();
    let objects = objects.iter().map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap();
        let key = ObjectKey::new("", "configmaps", Some("default"), name);
        if let Some(uid) = object["metadata"]["uid"].as_str() {
            uids.insert(uid.to_owned(), key.clone());
        }
        (key, Arc::new(object.clone()))
    });
    let objects = objects.collect();
    Snapshot {
        objects,
        uids: Arc::new(uids),
        ..Snapshot::default()
    }
}

fn learn(runs: &[Snapshot]) -> Result<Mask, Unstable> {
    let runs: Vec<Vec<Option<Snapshot>>> = runs.iter().map(|run| vec![Some(run.clone())]).collect();
    let runs: Vec<&[Option<Snapshot>]> = runs.iter().map(Vec::as_slice).collect();
    Mask::default().learn(&runs)
}

#[test]
fn values_that_differ_between_references_are_masked() {
    let run = |port: u16| {
        snapshot(&[json!({"metadata": {"name": "a"}, "data": {"port": port, "size": 1}})])
    };
    let mask = learn(&[run(1), run(2), run(3)]).unwrap();
    let masked: Vec<String> = mask.fields().map(ToString::to_string).collect();
    assert_eq!(masked, ["configmaps:data.port"]);
    let expected = mask.view(&run(1));
    assert_eq!(differences(&expected, &mask.view(&run(9))), []);
    let other = snapshot(&[json!({"metadata": {"name": "a"}, "data": {"size": 2}})]);
    assert_eq!(differences(&expected, &mask.view(&other)).len(), 1);
}

#[test]
fn random_names_become_patterns() {
    let run = |end: &str| {
        let name = format!("web-{end}");
        snapshot(&[
            json!({"metadata": {"name": name}, "data": {"own": name}}),
            json!({"metadata": {"name": "fixed"}, "data": {"pod": format!("in {name}")}}),
        ])
    };
    let mask = learn(&[run("x7k2p"), run("b9d4f"), run("q1w2e")]).unwrap();
    assert_eq!(mask.fields().count(), 0);
    let view = mask.view(&run("zzzzz"));
    assert_eq!(differences(&mask.view(&run("x7k2p")), &view), []);
    assert!(view.keys().any(|key| key.name == "web-*"));
}

#[test]
fn uids_in_names_and_assigned_fields_do_not_count() {
    let mask = Mask::new([]);
    let key = ObjectKey::new(
        "",
        "persistentvolumes",
        None,
        "pvc-00000000-0000-4000-8000-000000000001",
    );
    assert_eq!(mask.names().pattern(&key, None).name, "pvc-*");
    let mut pod = json!({"status": {"podIP": "10.0.0.1", "phase": "Running"}});
    mask.strip(&ObjectKey::new("", "pods", None, "a"), &mut pod);
    assert_eq!(pod, json!({"status": {"phase": "Running"}}));
}

#[test]
fn generated_names_are_patterns_without_learning() {
    let run = |name: &str| snapshot(&[json!({"metadata": {"name": name, "generateName": "job-"}})]);
    let mask = Mask::default();
    assert_eq!(
        differences(&mask.view(&run("job-a")), &mask.view(&run("job-b"))),
        []
    );
}

#[test]
fn different_sets_of_objects_are_unstable() {
    let one = snapshot(&[json!({"metadata": {"name": "a"}})]);
    let none = snapshot(&[]);
    assert!(learn(&[one.clone(), none]).is_err());
    assert!(learn(&[one.clone(), one]).is_ok());
}

#[test]
fn uids_are_compared_by_their_objects() {
    let first = "00000000-0000-4000-8000-000000000001";
    let second = "00000000-0000-4000-8000-000000000002";
    let run = |uid: &str, reference: &str| {
        let mut run = snapshot(&[
            json!({"metadata": {"name": "owner", "uid": uid}}),
            json!({"metadata": {"name": "child", "ownerReferences": [{"uid": reference}]}}),
        ]);
        let owner = ObjectKey::new("", "configmaps", Some("default"), "owner");
        if uid != reference {
            Arc::make_mut(&mut run.uids).insert(reference.to_owned(), owner);
            Arc::make_mut(&mut run.gone).insert(reference.to_owned());
        }
        run
    };
    let mask = Mask::default();
    let expected = mask.view(&run(first, first));
    assert_eq!(differences(&expected, &mask.view(&run(second, second))), []);
    assert_eq!(
        differences(&expected, &mask.view(&run(second, first))).len(),
        1
    );
}

#[test]
fn times_and_generations_do_not_count_but_outdated_ones_do() {
    let run = |generation: u32, observed: u32, time: &str| {
        snapshot(&[json!({
            "metadata": {"name": "a", "generation": generation},
            "status": {"observedGeneration": observed, "at": time},
        })])
    };
    let mask = Mask::default();
    let expected = mask.view(&run(1, 1, "2026-01-01T00:00:00Z"));
    let same = mask.view(&run(3, 3, "2026-01-02T10:20:30.123Z"));
    assert_eq!(differences(&expected, &same), []);
    let outdated = mask.view(&run(3, 2, "2026-01-02T10:20:30.123Z"));
    assert_eq!(differences(&expected, &outdated).len(), 1);
}

#[test]
fn order_of_conditions_does_not_count() {
    let run = |types: [&str; 2]| {
        let conditions = types.map(|name| json!({"type": name, "status": "True"}));
        snapshot(&[json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}})])
    };
    let mask = Mask::default();
    let expected = mask.view(&run(["A", "B"]));
    assert_eq!(differences(&expected, &mask.view(&run(["B", "A"]))), []);
}

#[test]
fn ignored_paths_can_name_a_resource() {
    let field = MaskedField::parse("configmaps:data.time").unwrap();
    assert!(field.applies_to("configmaps"));
    assert!(!field.applies_to("secrets"));
    let field = MaskedField::parse("deployments.apps:spec").unwrap();
    assert!(field.applies_to("deployments.apps"));
    let field = MaskedField::parse("metadata.annotations[\"a:b\"]").unwrap();
    assert_eq!(field.resource, None);
}

/// Returns the state of a workload, with what its controllers keep of former states.
fn workload(kept: &[(&str, &str)], of_system: bool) -> Snapshot {
    let key = |group: &str, resource: &str, name: &str| {
        ObjectKey::new(group, resource, Some("default"), name)
    };
    let claim = json!({"persistentVolumeClaim": {"claimName": "data-db-0"}});
    let mut objects = BTreeMap::from([
        (
            key("", "pods", "db-0"),
            Arc::new(json!({"spec": {"volumes": [claim]}})),
        ),
        (
            key("", "persistentvolumeclaims", "data-db-0"),
            Arc::new(json!({"spec": {}})),
        ),
    ]);
    for (resource, name) in kept {
        let is_core = matches!(*resource, "persistentvolumeclaims" | "configmaps");
        let group = if is_core { "" } else { "apps" };
        let object = Arc::new(json!({"spec": {"replicas": 0}}));
        objects.insert(key(group, resource, name), object);
    }
    let created = objects.keys().filter(|_| of_system).cloned().collect();
    Snapshot {
        objects,
        of_system: Arc::new(created),
        ..Snapshot::default()
    }
}

#[test]
fn history_of_workloads_does_not_count() {
    let mask = Mask::default();
    let kept = [
        ("replicasets", "web-1"),
        ("controllerrevisions", "db-1"),
        ("persistentvolumeclaims", "data-db-1"),
        ("configmaps", "kube-root-ca.crt"),
    ];
    let without = mask.view(&workload(&[], true));
    assert_eq!(
        differences(&without, &mask.view(&workload(&kept, true))),
        []
    );
    assert_eq!(without.len(), 2, "the claim of an existing pod counts");
    let of_operator = mask.view(&workload(&kept, false));
    assert_eq!(
        differences(&mask.view(&workload(&[], false)), &of_operator).len(),
        4
    );
}

#[test]
fn label_of_another_client_does_not_count_in_stored_configurations() {
    let stored = |text: &str| {
        let annotations = json!({"last-applied": text});
        snapshot(&[json!({"metadata": {"name": "a", "annotations": annotations}})])
    };
    let mask = Mask::default();
    let plain = mask.view(&stored("{\"spec\":{\"size\":1}}\n"));
    let labels = json!({"metadata": {"labels": {INTERFERENCE_LABEL: "true"}}, "spec": {"size": 1}});
    assert_eq!(
        differences(&plain, &mask.view(&stored(&labels.to_string()))),
        []
    );
    let other = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 1}}).to_string();
    assert_eq!(differences(&plain, &mask.view(&stored(&other))).len(), 1);
}

#[test]
fn records_of_elections_do_not_count() {
    let run = |renewed: &str| {
        let leader = json!({"control-plane.alpha.kubernetes.io/leader": renewed, "kept": "yes"});
        snapshot(&[json!({"metadata": {"name": "lock", "annotations": leader}})])
    };
    let mask = Mask::new([]);
    let expected = mask.view(&run("first"));
    assert_eq!(differences(&expected, &mask.view(&run("second"))), []);
    let other = snapshot(&[json!({"metadata": {"name": "lock"}})]);
    assert_eq!(differences(&expected, &mask.view(&other)).len(), 1);
}

#[test]
fn order_of_keyed_lists_does_not_count() {
    let view = |mask: &Mask, object: Value| mask.view(&snapshot(&[object]));
    let service = |ports: [u16; 2]| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {
            "ports": ports.map(|port| json!({"port": port, "protocol": "TCP"})),
        }})
    };
    let mask = Mask::default();
    let expected = view(&mask, service([1, 2]));
    assert_eq!(differences(&expected, &view(&mask, service([2, 1]))), []);
    assert_eq!(
        differences(&expected, &view(&mask, service([1, 3]))).len(),
        1
    );
    let slice = |ports: [u16; 2]| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"},
            "ports": ports.map(|port| json!({"port": port})),
        })
    };
    let expected = view(&mask, slice([1, 2]));
    assert_eq!(differences(&expected, &view(&mask, slice([2, 1]))), []);
    let shop = |shelves: [&str; 2]| {
        json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}, "spec": {
            "shelves": shelves.map(|name| json!({"name": name})),
        }})
    };
    let crd = |list: &str| {
        json!({"spec": {"group": "example.com", "names": {"kind": "Shop"}, "versions": [{
            "name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "properties": {"shelves": {
                    "type": "array", "x-kubernetes-list-type": list,
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                }},
            }}}},
        }]}})
    };
    for (list, differing) in [("map", 0), ("atomic", 1)] {
        let mask = Mask::default().with_crds([&crd(list)]);
        let (left, right) = (view(&mask, shop(["x", "y"])), view(&mask, shop(["y", "x"])));
        assert_eq!(differences(&left, &right).len(), differing, "{list}");
    }
}
