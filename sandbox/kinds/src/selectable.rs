//! Fields that field selectors support, by kind, and their values.

use kopf_sandbox_schema::json_path::{JsonPath, scalar_text};
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::selectors::FieldSelector;
use serde_json::Value;

use crate::strategy::Strategy;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// Returns all fields that selectors of this kind and version support.
pub(crate) fn supported_fields(kind: &Kind, version: &str) -> Vec<String> {
    let selectable = Strategy::of(kind).selectable;
    let mut fields = vec![NAME.to_owned()];
    if selectable.namespace && (kind.namespaced || !kind.is_custom()) {
        fields.push(NAMESPACE.to_owned());
    }
    fields.extend(selectable.fields.iter().map(|&field| field.to_owned()));
    if let Some(version) = kind.version(version) {
        let paths = version.selectable_fields.iter();
        fields.extend(paths.map(|path| path.trim_start_matches('.').to_owned()));
    }
    fields
}

/// Returns the value of a supported field; `None` for other fields. Events can have the shape of
/// either of their groups.
pub fn field_value(kind: &Kind, object: &Value, field: &str) -> Option<String> {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match field {
        NAME => return Some(text("/metadata/name")),
        NAMESPACE => {
            let namespaced = kind.namespaced;
            return Some(if namespaced {
                text("/metadata/namespace")
            } else {
                String::new()
            });
        }
        _ => {}
    }
    if kind.is_custom() {
        return custom_value(kind, object, field);
    }
    if !Strategy::of(kind).selectable.fields.contains(&field) {
        return None;
    }
    let number = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
            .to_string()
    };
    let switch = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_bool)
            .unwrap_or_default()
            .to_string()
    };
    Some(match (&*kind.kind, field) {
        ("Pod", "spec.host") => text("/spec/nodeName"),
        ("Pod", "spec.hostNetwork") => switch("/spec/hostNetwork"),
        ("Pod", "status.podIP") => match text("/status/podIPs/0/ip") {
            first if first.is_empty() => text("/status/podIP"),
            first => first,
        },
        // Accepted by the real server, but always empty.
        ("Pod", "status.podIPs") => String::new(),
        ("Node", "spec.unschedulable") => switch("/spec/unschedulable"),
        ("ReplicationController", _) => number("/status/replicas"),
        ("Job", _) => number("/status/succeeded"),
        ("Event", _) => event_value(object, field),
        _ => text(&format!("/{}", field.replace('.', "/"))),
    })
}

/// Rejects fields that the kind does not support, with the message of the 400 response.
pub fn check(selector: &FieldSelector, kind: &Kind, version: &str) -> Result<(), String> {
    let supported = supported_fields(kind, version);
    let unsupported = |field: &&str| !supported.iter().any(|known| known == field);
    match selector.fields().find(unsupported) {
        None => Ok(()),
        Some(field) => Err((Strategy::of(kind).selectable.refuse)(field)),
    }
}

fn custom_value(kind: &Kind, object: &Value, field: &str) -> Option<String> {
    let declared = |path: &&String| path.trim_start_matches('.') == field;
    let path = kind
        .versions
        .iter()
        .flat_map(|version| &version.selectable_fields)
        .find(declared)?;
    let found = JsonPath::parse(path).ok()?;
    let value = found
        .find(object)
        .ok()?
        .first()
        .map(|value| scalar_text(value));
    Some(value.unwrap_or_default())
}

fn event_value(object: &Value, field: &str) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let either = |one: &str, other: &str| match text(one) {
        "" => text(other).to_owned(),
        value => value.to_owned(),
    };
    match field {
        "reportingComponent" | "reportingController" => {
            either("/reportingComponent", "/reportingController")
        }
        "source" => match either("/source/component", "/deprecatedSource/component") {
            source if source.is_empty() => either("/reportingComponent", "/reportingController"),
            source => source,
        },
        "reason" | "type" => text(&format!("/{field}")).to_owned(),
        other => {
            let name = other.split_once('.').map_or(other, |(_, name)| name);
            either(
                &format!("/involvedObject/{name}"),
                &format!("/regarding/{name}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_schema::kind::Origin;
    use serde_json::json;

    use super::*;
    use crate::builtin::builtin;

    fn custom() -> Kind {
        let kinds = builtin();
        let mut kind = Kind::clone(kinds.by_plural("", "configmaps").unwrap());
        kind.origin = Origin::Custom {
            crd: "x".into(),
            born: 1,
        };
        kind.versions[0].selectable_fields =
            vec![".spec.color".to_owned(), ".spec.size".to_owned()];
        kind
    }

    #[test]
    fn unsupported_field_errors_match_a_real_server() {
        let kinds = builtin();
        let error = |group: &str, plural: &str, selector: &str| {
            let kind = kinds.by_plural(group, plural).unwrap();
            let selector = FieldSelector::parse(selector).unwrap();
            check(&selector, kind, "v1").unwrap_err()
        };
        assert_eq!(
            error("", "pods", "spec.x=1"),
            "field label not supported: spec.x"
        );
        assert_eq!(
            error("", "namespaces", "metadata.namespace=x"),
            "field label not supported: metadata.namespace"
        );
        assert_eq!(
            error("batch", "jobs", "a=1"),
            r#"field label "a" not supported for Job"#
        );
        assert_eq!(
            error("apps", "replicasets", "status.replicas=1"),
            r#""status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
        let selector = FieldSelector::parse("spec.x=1").unwrap();
        let error = check(&selector, &custom(), "v1").unwrap_err();
        assert_eq!(error, "field label not supported: spec.x");
    }

    #[test]
    fn built_in_kinds_are_selected_by_fields() {
        let kinds = builtin();
        let selects = |plural: &str, object: &Value, selector: &str| {
            let kind = kinds.by_plural("", plural).unwrap();
            let selector = FieldSelector::parse(selector).unwrap();
            check(&selector, kind, "v1").unwrap();
            selector.matches(|field| field_value(kind, object, field))
        };
        let pod = json!({
            "metadata": { "name": "p", "namespace": "n" },
            "spec": { "nodeName": "host", "hostNetwork": true },
            "status": { "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }] },
        });
        for good in [
            "metadata.name=p,metadata.namespace=n",
            "spec.nodeName=host",
            "spec.host=host",
            "spec.hostNetwork=true",
            "status.phase!=Pending",
            "status.podIP=10.0.0.1",
            "status.nominatedNodeName=",
            "spec.restartPolicy!=Always",
        ] {
            assert!(selects("pods", &pod, good), "{good}");
        }
        assert!(!selects("pods", &pod, "status.phase=Pending"));
        assert!(selects("nodes", &json!({}), "spec.unschedulable=false"));
        assert!(selects(
            "secrets",
            &json!({ "type": "Opaque" }),
            "type=Opaque"
        ));
        assert!(selects(
            "services",
            &json!({ "spec": { "type": "X" } }),
            "spec.type=X"
        ));
        assert!(selects(
            "replicationcontrollers",
            &json!({}),
            "status.replicas=0"
        ));
    }

    #[test]
    fn events_of_both_groups_are_selected_by_fields() {
        let kinds = builtin();
        let core = kinds.by_plural("", "events").unwrap();
        let new = kinds.by_plural("events.k8s.io", "events").unwrap();
        let core_event = json!({
            "involvedObject": { "kind": "Pod", "name": "p" },
            "reason": "R", "reportingComponent": "c", "type": "Normal",
        });
        let new_event = json!({
            "regarding": { "kind": "Pod", "name": "p" },
            "reason": "R", "reportingController": "c", "type": "Normal",
        });
        let core_selector =
            FieldSelector::parse("involvedObject.name=p,source=c,reason=R,type=Normal").unwrap();
        let new_selector =
            FieldSelector::parse("regarding.name=p,reportingController=c,type=Normal").unwrap();
        check(&core_selector, core, "v1").unwrap();
        check(&new_selector, new, "v1").unwrap();
        for event in [&core_event, &new_event] {
            assert!(core_selector.matches(|field| field_value(core, event, field)));
            assert!(new_selector.matches(|field| field_value(new, event, field)));
        }
        assert!(check(&new_selector, core, "v1").is_err());
    }

    #[test]
    fn custom_resources_are_selected_by_declared_paths() {
        let kind = custom();
        let object = json!({ "spec": { "color": "blue", "size": 5 } });
        let selects = |selector: &str| {
            let selector = FieldSelector::parse(selector).unwrap();
            check(&selector, &kind, "v1").unwrap();
            selector.matches(|field| field_value(&kind, &object, field))
        };
        assert!(selects("spec.color=blue,spec.size=5"));
        assert!(!selects("spec.color=red"));
        assert!(supported_fields(&kind, "v1").contains(&"spec.color".to_owned()));
        assert_eq!(
            field_value(&kind, &json!({}), "spec.color"),
            Some(String::new())
        );
        assert_eq!(field_value(&kind, &object, "spec.other"), None);
    }
}
