//! Parsing of manifests: YAML or JSON, several documents, lists.

use serde_json::Value;

use super::{Document, Error, yaml};

/// Maximum number of objects, including those of nested lists. The parsers bound the depth.
const MAX_OBJECTS: usize = 1_000_000;

/// Maximum size of a manifest, in bytes. Parsed, it takes a multiple of its size.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Returns all objects of a manifest, in its order. Empty documents are skipped.
pub(super) fn parse(source: &str, text: &str) -> Result<Vec<Document>, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::new(format!("{source} is too large"))
            .because(format!(
                "at most {} MB can be read at once",
                MAX_BYTES >> 20
            ))
            .advise("divide it into several files"));
    }
    let values = if text.trim_start().starts_with('{') {
        json(text)
    } else {
        yaml::read(text)
    };
    let values = values.map_err(|(index, cause)| {
        Error::new(format!("{source}, document {index} cannot be understood"))
            .because(cause)
            .advise("correct the text; `kubectl create --dry-run=client -f …` can help")
    })?;

    let mut documents = Vec::new();
    for (number, value) in values {
        let place = format!("{source}, document {number}");
        flatten(place, value, &mut documents)?;
    }
    Ok(documents)
}

fn json(text: &str) -> Result<Vec<(usize, Value)>, (usize, String)> {
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter() {
        match value {
            Ok(value) => values.push((values.len() + 1, value)),
            Err(error) => return Err((values.len() + 1, error.to_string())),
        }
    }
    Ok(values)
}

/// Flattens lists and nested lists without recursion.
fn flatten(place: String, value: Value, documents: &mut Vec<Document>) -> Result<(), Error> {
    let mut pending = vec![(place, value)];
    while let Some((place, mut value)) = pending.pop() {
        let Some(items) = take_items(&mut value) else {
            if documents.len() >= MAX_OBJECTS {
                return Err(Error::new(format!("too many objects at {place}"))
                    .because(format!("at most {MAX_OBJECTS} can be loaded")));
            }
            documents.push(Document::new(place, value)?);
            continue;
        };
        let (version, kind) = item_type(&value);
        for (index, mut item) in items.into_iter().enumerate().rev() {
            // The items of a typed list (PodList) have neither `apiVersion` nor `kind`.
            if let (Some(item), Some(kind)) = (item.as_object_mut(), &kind) {
                item.entry("apiVersion").or_insert_with(|| version.clone());
                item.entry("kind").or_insert_with(|| kind.clone());
            }
            pending.push((format!("{place}, item {}", index + 1), item));
        }
    }
    Ok(())
}

/// Returns the items if the value is a list: by its kind, with items and without a name.
fn take_items(value: &mut Value) -> Option<Vec<Value>> {
    let is_list = value
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.ends_with("List"));
    if !is_list || value.pointer("/metadata/name").is_some() {
        return None;
    }
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Some(items),
        // Go serialises an empty list as null.
        Some(Value::Null) => Some(Vec::new()),
        _ => None,
    }
}

/// Returns the `apiVersion` and `kind` of a typed list's items. A plain `List` has none.
fn item_type(list: &Value) -> (Value, Option<Value>) {
    let version = list.get("apiVersion").cloned().unwrap_or_default();
    let kind = list
        .get("kind")
        .and_then(Value::as_str)
        .and_then(|kind| kind.strip_suffix("List"));
    (
        version,
        kind.filter(|kind| !kind.is_empty()).map(Value::from),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(text: &str) -> Vec<(String, String)> {
        let documents = parse("f", text).unwrap();
        documents
            .into_iter()
            .map(|d| (d.name.unwrap_or_default(), d.place))
            .collect()
    }

    fn pair(name: &str, place: &str) -> (String, String) {
        (name.to_owned(), place.to_owned())
    }

    #[test]
    fn empty_documents_are_counted_and_skipped() {
        let text = "# words\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n...\n";
        assert_eq!(
            names(text),
            [pair("a", "f, document 1"), pair("b", "f, document 3")]
        );
        assert_eq!(names(""), []);
        assert_eq!(names("---\n# nothing\n"), []);
    }

    #[test]
    fn json_documents_can_be_concatenated() {
        let text = r#" {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
                       {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}"#;
        assert_eq!(
            names(text),
            [pair("a", "f, document 1"), pair("b", "f, document 2")]
        );
    }

    #[test]
    fn lists_are_flattened_in_order() {
        let pod =
            |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            pod("a"),
            {"apiVersion": "v1", "kind": "List", "items": [pod("b")]},
            pod("c"),
        ]});
        let expected = [
            pair("a", "f, document 1, item 1"),
            pair("b", "f, document 1, item 2, item 1"),
            pair("c", "f, document 1, item 3"),
        ];
        assert_eq!(names(&list.to_string()), expected);
    }

    #[test]
    fn items_of_a_typed_list_get_its_type() {
        let text = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n";
        let documents = parse("f", text).unwrap();
        assert_eq!(documents[0].api_version, "apps/v1");
        assert_eq!(documents[0].kind, "Deployment");
        assert_eq!(documents[0].value["kind"], "Deployment");
    }

    #[test]
    fn list_without_items_is_empty() {
        assert_eq!(
            names("{\"apiVersion\": \"v1\", \"kind\": \"PodList\", \"items\": null}"),
            []
        );
    }

    #[test]
    fn scalars_are_parsed_as_by_kubectl() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n\
                    spec: {mode: 0644, on: \"yes\", port: 80, version: 1.5}\n";
        let spec = &parse("f", text).unwrap()[0].value["spec"];
        assert_eq!(
            *spec,
            json!({"mode": 420, "on": "yes", "port": 80, "version": 1.5})
        );
    }

    #[test]
    fn syntax_errors_name_the_document() {
        for (text, index) in [
            ("a: [1\n", 1),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n}{\n",
                2,
            ),
            ("---\n---\na: [\n", 2),
            ("{\"a\": }", 1),
            ("a: b: c\n", 1),
            ("a: *unknown\n", 1),
            ("a: 1\na: 2\n", 1),
        ] {
            let error = parse("f", text).expect_err(text);
            let expected = format!("f, document {index} cannot be understood");
            assert_eq!(error.what(), expected, "{text:?}: {error:?}");
            assert!(!error.causes().is_empty());
        }
    }

    #[test]
    fn deep_nesting_is_rejected_without_overflow() {
        assert!(parse("f", &"[".repeat(100_000)).is_err());
        assert!(parse("f", &"{\"a\":".repeat(100_000)).is_err());
    }
}
