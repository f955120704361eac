//! Comparison of CRDs: changes that could invalidate stored objects or break clients.

use std::collections::BTreeSet;

use serde_json::Value;

/// Schemas deeper than this are not compared: those of CRDs are a few levels deep.
const DEPTH: usize = 64;

/// Bounds that narrow a schema when they decrease.
const UPPER: [&str; 4] = ["maximum", "maxItems", "maxLength", "maxProperties"];

/// Bounds that narrow a schema when they increase.
const LOWER: [&str; 4] = ["minimum", "minItems", "minLength", "minProperties"];

/// Returns what the desired CRD permits less than the existing one: a line for each difference. Empty
/// if every object and client of the existing CRD stays valid.
///
/// ```
/// use kopf_core::definition::narrowings;
/// use serde_json::json;
///
/// let definition = |field: &str| json!({"spec": {"versions": [{"name": "v1", "served": true, "schema": {
///     "openAPIV3Schema": {"type": "object", "properties": {field: {"type": "string"}}}}}]}});
/// assert_eq!(
///     narrowings(&definition("old"), &definition("new")),
///     ["version v1: the field old is missing"]
/// );
/// ```
pub fn narrowings(existing: &Value, desired: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let (existing, desired) = (&existing["spec"], &desired["spec"]);
    for pointer in ["/group", "/scope", "/names/kind", "/names/plural"] {
        let (old, new) = (existing.pointer(pointer), desired.pointer(pointer));
        if old != new {
            let name = pointer.trim_start_matches('/').replace('/', ".");
            found.push(format!(
                "{name} is {} instead of {}",
                shown(new),
                shown(old)
            ));
        }
    }
    for old in items(&existing["versions"]) {
        let name = old["name"].as_str().unwrap_or_default();
        let new = items(&desired["versions"]).find(|new| new["name"] == old["name"]);
        match new {
            None if old["served"] == false && old["storage"] != true => {}
            None => found.push(format!("version {name} is missing")),
            Some(new) => {
                if old["served"] == true && new["served"] == false {
                    found.push(format!("version {name} is not served"));
                }
                if old.pointer("/subresources/status").is_some()
                    && new.pointer("/subresources/status").is_none()
                {
                    found.push(format!("version {name}: the subresource status is missing"));
                }
                let pair = Pair {
                    old: &old["schema"]["openAPIV3Schema"],
                    new: &new["schema"]["openAPIV3Schema"],
                };
                let mut lines = Vec::new();
                pair.compare("", DEPTH, &mut lines);
                let lines = lines.into_iter();
                found.extend(lines.map(|line| format!("version {name}: {line}")));
            }
        }
    }
    found
}

/// Returns the conditions for which a CRD is not usable yet. Empty if its objects are served.
pub fn pending(definition: &Value) -> Vec<String> {
    let conditions = || items(&definition["status"]["conditions"]);
    ["NamesAccepted", "Established"]
        .iter()
        .filter_map(
            |type_| match conditions().find(|condition| condition["type"] == *type_) {
                Some(condition) if condition["status"] == "True" => None,
                Some(condition) => Some(format!(
                    "{type_} is not True: {}",
                    condition["message"].as_str().unwrap_or("no message")
                )),
                None => Some(format!("{type_} is not reported")),
            },
        )
        .collect()
}

/// Two schemas of the same field.
struct Pair<'a> {
    old: &'a Value,
    new: &'a Value,
}

impl Pair<'_> {
    fn compare(&self, path: &str, depth: usize, found: &mut Vec<String>) {
        if depth == 0 {
            return;
        }
        let subject = if path.is_empty() {
            "the object".to_owned()
        } else {
            format!("the field {path}")
        };
        self.compare_values(&subject, found);
        self.compare_bounds(&subject, found);
        self.compare_properties(path, depth, found);
        for key in ["items", "additionalProperties"] {
            let pair = self.at(key);
            if pair.old.is_object() && pair.new.is_object() {
                pair.compare(&format!("{path}[]"), depth - 1, found);
            } else if pair.old.is_object() && !self.accepts_anything() {
                found.push(format!("{subject}: {key} is missing"));
            }
        }
    }

    fn at(&self, key: &str) -> Pair<'_> {
        Pair {
            old: &self.old[key],
            new: &self.new[key],
        }
    }

    fn accepts_anything(&self) -> bool {
        self.new["x-kubernetes-preserve-unknown-fields"] == true
    }

    fn compare_values(&self, subject: &str, found: &mut Vec<String>) {
        let Pair { old, new } = self.at("type");
        if !old.is_null() && !new.is_null() && old != new {
            found.push(format!("{subject} is of type {new} instead of {old}"));
        }
        if self.old["x-kubernetes-preserve-unknown-fields"] == true && !self.accepts_anything() {
            found.push(format!("{subject} does not accept unknown fields"));
        }
        if self.old["nullable"] == true && self.new["nullable"] != true {
            found.push(format!("{subject} does not accept null"));
        }
        let Pair { old, new } = self.at("enum");
        if let Some(accepted) = new.as_array() {
            match old.as_array() {
                None => found.push(format!("{subject} accepts only the values {new}")),
                Some(values) => {
                    let lost = values.iter().filter(|value| !accepted.contains(value));
                    found.extend(lost.map(|value| format!("{subject} does not accept {value}")));
                }
            }
        }
        for key in ["pattern", "format"] {
            let Pair { old, new } = self.at(key);
            if !new.is_null() && old != new {
                found.push(format!("{subject} has the {key} {new} instead of {old}"));
            }
        }
        let known: Vec<_> = items(&self.old["x-kubernetes-validations"]).collect();
        for rule in items(&self.new["x-kubernetes-validations"]) {
            if !known.iter().any(|known| known["rule"] == rule["rule"]) {
                found.push(format!("{subject} has the new rule {}", rule["rule"]));
            }
        }
    }

    fn compare_bounds(&self, subject: &str, found: &mut Vec<String>) {
        for (keys, is_upper) in [(UPPER, true), (LOWER, false)] {
            for key in keys {
                let Pair { old, new } = self.at(key);
                let Some(bound) = new.as_f64() else {
                    continue;
                };
                let is_narrower = old.as_f64().is_none_or(|known| {
                    if is_upper {
                        bound < known
                    } else {
                        bound > known
                    }
                });
                if is_narrower {
                    found.push(format!("{subject} has {key} {new} instead of {old}"));
                }
            }
        }
    }

    fn compare_properties(&self, path: &str, depth: usize, found: &mut Vec<String>) {
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        for (name, old) in self.old["properties"].as_object().into_iter().flatten() {
            match self.new["properties"].get(name) {
                Some(new) => Pair { old, new }.compare(&below(name), depth - 1, found),
                None if self.accepts_anything() => {}
                None => found.push(format!("the field {} is missing", below(name))),
            }
        }
        let required: BTreeSet<_> = items(&self.old["required"])
            .filter_map(Value::as_str)
            .collect();
        for name in items(&self.new["required"]).filter_map(Value::as_str) {
            if !required.contains(name) {
                found.push(format!("the field {} is required", below(name)));
            }
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: &Value) -> Value {
        json!({"spec": {
            "group": "g", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": schema}}],
        }})
    }

    fn between(old: &Value, new: &Value) -> Vec<String> {
        let spec = |spec: &Value| definition(&json!({"properties": {"spec": spec}}));
        narrowings(&spec(old), &spec(new))
    }

    #[test]
    fn equal_and_wider_schemas_are_accepted() {
        let old = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer", "minimum": 1, "maximum": 5, "enum": [1, 2]}}});
        assert_eq!(between(&old, &old), [""; 0]);
        let new = json!({"type": "object", "properties": {
            "a": {"type": "integer", "minimum": 0, "enum": [1, 2, 3]},
            "b": {"type": "string"}}});
        assert_eq!(between(&old, &new), [""; 0]);
    }

    #[test]
    fn narrower_schemas_are_described_by_field() {
        let cases = [
            (json!({"a": {}}), json!({}), "the field spec.a is missing"),
            (
                json!({"a": {"type": "string"}}),
                json!({"a": {"type": "integer"}}),
                "the field spec.a is of type \"integer\" instead of \"string\"",
            ),
            (
                json!({"a": {"enum": ["x", "y"]}}),
                json!({"a": {"enum": ["x"]}}),
                "the field spec.a does not accept \"y\"",
            ),
            (
                json!({"a": {"maxLength": 5}}),
                json!({"a": {"maxLength": 4}}),
                "the field spec.a has maxLength 4 instead of 5",
            ),
            (
                json!({"a": {}}),
                json!({"a": {"minimum": 1}}),
                "the field spec.a has minimum 1 instead of null",
            ),
            (
                json!({"a": {"items": {"properties": {"b": {}}}}}),
                json!({"a": {"items": {"properties": {}}}}),
                "the field spec.a[].b is missing",
            ),
            (
                json!({"a": {"nullable": true}}),
                json!({"a": {}}),
                "the field spec.a does not accept null",
            ),
            (
                json!({"a": {"x-kubernetes-preserve-unknown-fields": true}}),
                json!({"a": {}}),
                "the field spec.a does not accept unknown fields",
            ),
            (
                json!({"a": {}}),
                json!({"a": {"x-kubernetes-validations": [{"rule": "self > 1"}]}}),
                "the field spec.a has the new rule \"self > 1\"",
            ),
        ];
        for (old, new, expected) in cases {
            let found = between(&json!({"properties": old}), &json!({"properties": new}));
            assert_eq!(found, [format!("version v1: {expected}")]);
        }
        let found = between(&json!({}), &json!({"required": ["a"]}));
        assert_eq!(found, ["version v1: the field spec.a is required"]);
    }

    #[test]
    fn missing_versions_and_other_names_are_narrowings() {
        let old = definition(&json!({}));
        let mut new = old.clone();
        new["spec"]["versions"][0]["name"] = json!("v2");
        new["spec"]["scope"] = json!("Cluster");
        assert_eq!(
            narrowings(&old, &new),
            [
                "scope is \"Cluster\" instead of \"Namespaced\"",
                "version v1 is missing"
            ]
        );
    }

    #[test]
    fn crd_is_usable_with_both_conditions() {
        let conditions = |established: &str| {
            json!({"status": {"conditions": [
                {"type": "NamesAccepted", "status": "True"},
                {"type": "Established", "status": established, "message": "wait"}]}})
        };
        assert_eq!(pending(&conditions("True")), [""; 0]);
        assert_eq!(
            pending(&conditions("False")),
            ["Established is not True: wait"]
        );
        assert_eq!(pending(&json!({})).len(), 2);
    }
}
