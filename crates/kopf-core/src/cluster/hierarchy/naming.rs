//! Names and namespaces of children.

use serde_json::{Map, Value};

use super::Error;
use super::walk::{each, metadata_mut};

/// Options of naming.
#[derive(Clone, Copy, Debug, Default)]
pub struct Naming {
    /// Replaces names that the objects already have.
    pub forced: bool,
    /// Uses the name unchanged; otherwise, the server adds a suffix to it.
    pub strict: bool,
}

/// Names objects, unless they have names or `generateName`.
pub fn harmonize_naming(objs: &mut Value, name: &str, options: Naming) -> Result<(), Error> {
    each(objs, |object| {
        let metadata = metadata_mut(object)?;
        let is_named = has(metadata, "name") || has(metadata, "generateName");
        if options.forced || !is_named {
            let (key, other, value) = if options.strict {
                ("name", "generateName", name.to_owned())
            } else {
                ("generateName", "name", format!("{name}-"))
            };
            metadata.insert(key.to_owned(), Value::from(value));
            metadata.remove(other);
        }
        Ok(())
    })
}

/// Sets the namespace of objects, unless they have one. If none is given, `forced` removes theirs.
pub fn adjust_namespace(
    objs: &mut Value,
    namespace: Option<&str>,
    forced: bool,
) -> Result<(), Error> {
    each(objs, |object| {
        let metadata = metadata_mut(object)?;
        if forced || !has(metadata, "namespace") {
            match namespace {
                Some(namespace) => metadata.insert("namespace".to_owned(), Value::from(namespace)),
                None => metadata.remove("namespace"),
            };
        }
        Ok(())
    })
}

fn has(metadata: &Map<String, Value>, key: &str) -> bool {
    metadata.get(key).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(metadata: &Value, forced: bool, strict: bool) -> Value {
        let mut obj = json!({"metadata": metadata});
        harmonize_naming(&mut obj, "n", Naming { forced, strict }).unwrap();
        obj["metadata"].clone()
    }

    #[test]
    fn naming() {
        let prefix = json!({"generateName": "n-"});
        let exact = json!({"name": "n"});
        for (metadata, forced, strict, expected) in [
            (json!({}), false, false, &prefix),
            (json!(null), false, false, &prefix),
            (json!({"name": null}), false, false, &prefix),
            (json!({}), false, true, &exact),
            (json!({"name": "x"}), false, false, &json!({"name": "x"})),
            (
                json!({"generateName": "x-"}),
                false,
                true,
                &json!({"generateName": "x-"}),
            ),
            (json!({"name": "x"}), true, false, &prefix),
            (json!({"generateName": "x-"}), true, true, &exact),
        ] {
            assert_eq!(
                &named(&metadata, forced, strict),
                expected,
                "{metadata} {forced} {strict}"
            );
        }
    }

    #[test]
    fn namespaces() {
        let adjusted = |metadata: Value, namespace: Option<&str>, forced: bool| {
            let mut obj = json!({"metadata": metadata});
            adjust_namespace(&mut obj, namespace, forced).unwrap();
            obj["metadata"].clone()
        };
        assert_eq!(
            adjusted(json!({}), Some("ns"), false),
            json!({"namespace": "ns"})
        );
        let null = json!({"namespace": null});
        assert_eq!(
            adjusted(null, Some("ns"), false),
            json!({"namespace": "ns"})
        );
        let own = json!({"namespace": "own"});
        assert_eq!(adjusted(own.clone(), Some("ns"), false), own);
        assert_eq!(
            adjusted(own.clone(), Some("ns"), true),
            json!({"namespace": "ns"})
        );
        assert_eq!(adjusted(own.clone(), None, false), own);
        assert_eq!(adjusted(own, None, true), json!({}));
    }
}
