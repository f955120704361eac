//! Labels of children.

use serde_json::{Map, Value};

use super::Error;
use super::walk::{each, metadata_mut, not_an_object, object_mut};
use crate::field::FieldPath;

/// Options of labelling.
#[derive(Clone, Debug, Default)]
pub struct Labelling {
    /// Replaces labels that the objects already have.
    pub forced: bool,
    /// Paths inside of the objects that are labelled as well, such as `spec.template`. Absent ones
    /// are skipped.
    pub nested: Vec<FieldPath>,
}

/// Sets labels on objects, and at paths inside of them.
pub fn label(
    objs: &mut Value,
    labels: &Map<String, Value>,
    options: &Labelling,
) -> Result<(), Error> {
    each(objs, |object| {
        set(object, labels, options.forced)?;
        for path in &options.nested {
            match place_mut(object, path) {
                Some(Value::Object(object)) => set(object, labels, options.forced)?,
                Some(other) => return Err(not_an_object(other)),
                None => {}
            }
        }
        Ok(())
    })
}

fn set(
    object: &mut Map<String, Value>,
    labels: &Map<String, Value>,
    forced: bool,
) -> Result<(), Error> {
    let present = object_mut(metadata_mut(object)?, "labels", "metadata.labels")?;
    for (key, value) in labels {
        if forced || !present.contains_key(key) {
            present.insert(key.clone(), value.clone());
        }
    }
    Ok(())
}

fn place_mut<'a>(object: &'a mut Map<String, Value>, path: &FieldPath) -> Option<&'a mut Value> {
    let (first, rest) = path.steps().split_first()?;
    let first = object.get_mut(&**first)?;
    rest.iter()
        .try_fold(first, |value, step| value.as_object_mut()?.get_mut(&**step))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labelled(mut obj: Value, forced: bool, nested: &[&str]) -> Result<Value, Error> {
        let labels = json!({"a": "1", "b": "2"});
        let options = Labelling {
            forced,
            nested: nested.iter().map(|path| FieldPath::parse(path)).collect(),
        };
        label(&mut obj, labels.as_object().unwrap(), &options)?;
        Ok(obj)
    }

    #[test]
    fn present_labels_are_kept_unless_forced() {
        let obj = json!({"metadata": {"labels": {"a": "own", "c": "3"}}});
        let kept = labelled(obj.clone(), false, &[]).unwrap();
        assert_eq!(
            kept,
            json!({"metadata": {"labels": {"a": "own", "b": "2", "c": "3"}}})
        );
        let forced = labelled(obj, true, &[]).unwrap();
        assert_eq!(
            forced,
            json!({"metadata": {"labels": {"a": "1", "b": "2", "c": "3"}}})
        );
    }

    #[test]
    fn missing_parents_are_created() {
        let expected = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        for obj in [
            json!({}),
            json!({"metadata": null}),
            json!({"metadata": {"labels": null}}),
        ] {
            assert_eq!(labelled(obj, false, &[]).unwrap(), expected);
        }
    }

    #[test]
    fn nested_paths_are_labelled_if_they_exist() {
        let obj = json!({"spec": {"template": {"metadata": {"labels": {"a": "own"}}}, "x": 1}});
        let nested = [
            "spec.template",
            "spec.jobTemplate",
            "spec.x.y",
            "other.template",
        ];
        let obj = labelled(obj, false, &nested).unwrap();
        let template = json!({"metadata": {"labels": {"a": "own", "b": "2"}}});
        assert_eq!(obj["spec"], json!({"template": template, "x": 1}));
        assert_eq!(obj["metadata"]["labels"], json!({"a": "1", "b": "2"}));
    }

    #[test]
    fn nested_paths_to_other_values_are_rejected() {
        let error = labelled(
            json!({"spec": {"template": [1]}}),
            false,
            &["spec.template"],
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "not a Kubernetes object: [1]"
        );
    }
}
