//! Conversion of a patch to the payloads of at most four API calls.
//!
//! | # | endpoint | content | payload |
//! |---|---|---|---|
//! | 1 | the object | merge patch | [`MergeCalls::main`] |
//! | 2 | `/status` | merge patch | [`MergeCalls::status`] |
//! | 3 | the object | JSON patch | [`JsonCalls::main`] after a version test |
//! | 4 | `/status` | JSON patch | [`JsonCalls::status`] after a version test |
//!
//! Without a status subresource everything goes to the object itself. The removal of the finalizer
//! (see [`Removal`](crate::finalizer::Removal)) joins the third call, which needs no version test
//! without other operations, and is the last one then.

use serde_json::{Map, Value, json};

use super::{BoxError, Patch, PatchFn};

/// The error of computing a payload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A function failed; none of them takes effect.
    #[error("the patching function {label} failed")]
    Function {
        /// The label of the function.
        label: &'static str,
        /// The error of the function.
        #[source]
        source: BoxError,
    },
    /// The functions left a value that is not an object.
    #[error("the patching functions replaced the object by something that is not an object")]
    NotAnObject,
    /// The difference cannot be serialised.
    #[error("the changes of the patching functions cannot be written as a JSON patch")]
    Unwritable(#[source] serde_json::Error),
}

/// The payloads of the merge-patch calls; `None` if there is nothing to send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergeCalls {
    /// For the object itself.
    pub main: Option<Value>,
    /// For its `/status`: `{"status": …}`.
    pub status: Option<Value>,
}

/// The operations of the JSON-patch calls, without the version test; empty if there is nothing to
/// send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonCalls {
    /// For the object itself.
    pub main: Vec<Value>,
    /// For its `/status`.
    pub status: Vec<Value>,
}

impl Patch {
    /// Returns the payloads of the dictionary.
    pub fn merge_calls(&self, status_subresource: bool) -> MergeCalls {
        Self {
            merge: self.merge.clone(),
            fns: Vec::new(),
        }
        .take_merge_calls(status_subresource)
    }

    /// Takes the dictionary as payloads; the functions are left.
    pub fn take_merge_calls(&mut self, status_subresource: bool) -> MergeCalls {
        let mut main = std::mem::take(&mut self.merge);
        main.retain(|key, value| !is_idle(key, value));
        if let Some(Value::Object(metadata)) = main.get_mut("metadata") {
            metadata.retain(|key, value| !is_idle_in_metadata(key, value));
        }
        let status = status_subresource.then(|| main.remove("status")).flatten();
        let status =
            status.map(|status| Value::Object(Map::from_iter([("status".to_owned(), status)])));
        MergeCalls {
            main: (!main.is_empty()).then_some(Value::Object(main)),
            status,
        }
    }
}

/// Runs the functions on a copy of the body and returns the changes.
pub fn json_calls(
    fns: &[PatchFn],
    body: &Value,
    status_subresource: bool,
) -> Result<JsonCalls, Error> {
    if fns.is_empty() {
        return Ok(JsonCalls::default());
    }
    let mut changed = body.clone();
    for function in fns {
        let failed = |source| Error::Function {
            label: function.label(),
            source,
        };
        function.call(&mut changed).map_err(failed)?;
    }
    json_calls_between(body, &changed, status_subresource)
}

/// Runs the functions on a copy of the body, and awaits those that must be awaited. Returns the
/// changed copy.
///
/// # Errors
/// Of the first function that fails.
pub async fn transform(fns: &[PatchFn], body: &Value) -> Result<Value, Error> {
    let mut changed = body.clone();
    for function in fns {
        let failed = |source| Error::Function {
            label: function.label(),
            source,
        };
        function.apply(&mut changed).await.map_err(failed)?;
    }
    Ok(changed)
}

/// Returns the operations that turn one body into the other.
///
/// # Errors
/// If the changed body is not an object.
pub fn json_calls_between(
    body: &Value,
    changed: &Value,
    status_subresource: bool,
) -> Result<JsonCalls, Error> {
    if !changed.is_object() {
        return Err(Error::NotAnObject);
    }
    let mut calls = JsonCalls::default();
    for operation in json_patch::diff(body, changed).0 {
        let path = operation.path().as_str();
        let of_status = path == "/status" || path.starts_with("/status/");
        let operation = serde_json::to_value(&operation).map_err(Error::Unwritable)?;
        let target = if of_status && status_subresource {
            &mut calls.status
        } else {
            &mut calls.main
        };
        target.push(operation);
    }
    Ok(calls)
}

/// Returns the payload of a JSON-patch call, which is rejected unless the object still has this
/// version.
pub fn with_version_test(operations: Vec<Value>, resource_version: &str) -> Value {
    let test = json!({
        "op": "test", "path": "/metadata/resourceVersion", "value": resource_version,
    });
    Value::Array([vec![test], operations].concat())
}

/// Returns `true` for an empty stanza of the dictionary, which requests nothing. A null requests a
/// deletion.
pub(super) fn is_idle(key: &str, value: &Value) -> bool {
    match (key, value) {
        ("spec" | "status", Value::Object(map)) => map.is_empty(),
        ("metadata", Value::Object(map)) => map
            .iter()
            .all(|(key, value)| is_idle_in_metadata(key, value)),
        _ => false,
    }
}

fn is_idle_in_metadata(key: &str, value: &Value) -> bool {
    matches!(key, "labels" | "annotations") && value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(merge: Value) -> Patch {
        let Value::Object(merge) = merge else {
            panic!("not an object: {merge}")
        };
        Patch {
            merge,
            fns: Vec::new(),
        }
    }

    #[test]
    fn status_subresource_has_its_own_call() {
        let patch = patch(json!({"spec": {"a": 1}, "status": {"b": 2}}));
        let apart = patch.merge_calls(true);
        assert_eq!(apart.main, Some(json!({"spec": {"a": 1}})));
        assert_eq!(apart.status, Some(json!({"status": {"b": 2}})));
        let together = patch.merge_calls(false);
        assert_eq!(
            together.main,
            Some(json!({"spec": {"a": 1}, "status": {"b": 2}}))
        );
        assert_eq!(together.status, None);
    }

    #[test]
    fn empty_payloads_make_no_calls() {
        assert_eq!(Patch::default().merge_calls(true), MergeCalls::default());
        let status = patch(json!({"status": null})).merge_calls(true);
        assert_eq!(
            (status.main, status.status),
            (None, Some(json!({"status": null})))
        );
        let empty = patch(json!({"status": {}, "data": {}})).merge_calls(true);
        assert_eq!(
            (empty.main, empty.status),
            (Some(json!({"data": {}})), None)
        );
        let finalizers = patch(json!({"metadata": {"finalizers": [], "labels": {}}}));
        assert_eq!(
            finalizers.merge_calls(true).main,
            Some(json!({"metadata": {"finalizers": []}}))
        );
    }

    #[test]
    fn functions_become_operations_by_endpoint() {
        let body = json!({"metadata": {"name": "x"}, "status": {"n": 1}, "statuses": 1});
        let fns = [
            PatchFn::new("finalizer", |body| {
                body["metadata"]["finalizers"] = json!(["f"]);
                Ok(())
            }),
            PatchFn::new("status", |body| {
                body["status"]["n"] =
                    json!(body["metadata"]["finalizers"].as_array().map(Vec::len));
                body["status"]["a/b~c"] = json!(2);
                body["statuses"] = json!(2);
                Ok(())
            }),
        ];
        let finalizer = json!({"op": "add", "path": "/metadata/finalizers", "value": ["f"]});
        let statuses = json!({"op": "replace", "path": "/statuses", "value": 2});
        let inside = json!({"op": "add", "path": "/status/a~1b~0c", "value": 2});

        let apart = json_calls(&fns, &body, true).unwrap();
        assert_eq!(apart.main, [finalizer.clone(), statuses.clone()]);
        assert_eq!(apart.status, std::slice::from_ref(&inside));
        let together = json_calls(&fns, &body, false).unwrap();
        assert_eq!(together.main, [finalizer, inside, statuses]);
        assert_eq!(together.status, [Value::Null; 0]);
    }

    #[test]
    fn new_status_goes_to_the_status_endpoint() {
        let set = PatchFn::new("set", |body| {
            body["status"] = json!({"x": 1});
            Ok(())
        });
        let calls = json_calls(&[set], &json!({}), true).unwrap();
        assert_eq!(
            calls.status,
            [json!({"op": "add", "path": "/status", "value": {"x": 1}})]
        );
        assert!(calls.main.is_empty());
    }

    #[test]
    fn functions_without_effect_make_no_calls() {
        let back_and_forth = [
            PatchFn::new("there", |body| {
                body["spec"] = json!(1);
                Ok(())
            }),
            PatchFn::new("back", |body| {
                body.as_object_mut().unwrap().remove("spec");
                Ok(())
            }),
        ];
        assert_eq!(
            json_calls(&back_and_forth, &json!({}), true).unwrap(),
            JsonCalls::default()
        );
    }

    #[test]
    fn errors_name_the_failed_function() {
        let failing = PatchFn::new("failing", |_| Err("oops".into()));
        let error = json_calls(&[failing], &json!({}), true).unwrap_err();
        assert_eq!(error.to_string(), "the patching function failing failed");
        assert_eq!(
            std::error::Error::source(&error).unwrap().to_string(),
            "oops"
        );
        let replacing = PatchFn::new("replacing", |body| {
            *body = json!([]);
            Ok(())
        });
        assert!(matches!(
            json_calls(&[replacing], &json!({}), true),
            Err(Error::NotAnObject)
        ));
    }

    // As recorded in s02.
    #[test]
    fn version_test_comes_first() {
        let operation = json!({"op": "remove", "path": "/metadata/finalizers"});
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "315"},
            {"op": "remove", "path": "/metadata/finalizers"},
        ]);
        assert_eq!(with_version_test(vec![operation], "315"), expected);
    }
}
