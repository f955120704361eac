//! JSON patches (RFC 6902), with the deviations of the real server's library: indices may be
//! negative, `replace` may add a member, and a `test` for null passes for an absent member.

use super::PatchError;
use serde_json::{Map, Value};

/// Maximum number of operations, as on the real server.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum total size of copied values, in bytes of JSON.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Maximum depth of the result. Copies and moves can nest a document deeper than parsers allow, and
/// all functions on documents recurse.
const MAX_DEPTH: usize = 128;

/// Maximum number of steps through documents and along lists: about 0.25 s.
const MAX_STEPS: usize = 20_000_000;
/// List elements that are moved in the time of one step.
const MOVED_PER_STEP: usize = 8;

/// Members of an operation; others are unknown fields.
const MEMBERS: [&str; 4] = ["from", "op", "path", "value"];

/// A decoded patch.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
    /// Errors of strict decoding, e.g. `json patch unknown field "[0].foo"`.
    pub unknown: Vec<String>,
}

impl JsonPatch {
    /// Decodes a patch.
    pub fn decode(patch: Value) -> Result<Self, PatchError> {
        let unfit = |value: &Value, of: &str| {
            let what = super::json_kind(value);
            let text = format!("error decoding patch: json: cannot unmarshal {what} into Go {of}");
            PatchError::BadRequest(text)
        };
        let items = match patch {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(unfit(&other, "value of type []handlers.jsonPatchOp")),
        };
        let mut operations = Vec::with_capacity(items.len());
        let mut unknown = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let operation = match item {
                Value::Object(operation) => operation,
                Value::Null => Map::new(),
                other => return Err(unfit(&other, "value of type handlers.jsonPatchOp")),
            };
            for member in ["from", "op", "path"] {
                if let Some(value) = operation.get(member)
                    && !(value.is_string() || value.is_null())
                {
                    let of = format!("struct field jsonPatchOp.{member} of type string");
                    return Err(unfit(value, &of));
                }
            }
            for member in operation
                .keys()
                .filter(|name| !MEMBERS.contains(&name.as_str()))
            {
                unknown.push(format!("json patch unknown field \"[{index}].{member}\""));
            }
            operations.push(operation);
        }
        if operations.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is \
                 {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        Ok(Self {
            operations,
            unknown,
        })
    }

    /// Returns the document after all operations. The error is that of the first failed operation.
    pub fn apply(&self, document: &Value) -> Result<Value, PatchError> {
        let mut document = document.clone();
        let mut limits = Limits {
            depth: depth(&document),
            copied: 0,
            steps: 0,
        };
        for operation in &self.operations {
            if operation.get("op").is_some_and(|op| op == "test") {
                test(&mut document, operation)?;
            } else {
                step(&mut document, operation, &mut limits).map_err(PatchError::Unprocessable)?;
            }
            if limits.depth > MAX_DEPTH {
                limits.depth = limits.measure(&document);
            }
            if limits.steps > MAX_STEPS {
                return Err(PatchError::TooLarge(
                    "Request entity too large: the patch takes too many steps".to_owned(),
                ));
            }
            if limits.depth > MAX_DEPTH {
                return Err(PatchError::Unprocessable(
                    "the document is nested too deeply".to_owned(),
                ));
            }
        }
        Ok(document)
    }
}

/// Decodes and applies a patch.
pub fn apply(document: &Value, patch: Value) -> Result<Value, PatchError> {
    JsonPatch::decode(patch)?.apply(document)
}

/// The accumulated cost of the operations.
struct Limits {
    /// An upper bound of the depth of the document. It is measured only when it exceeds the limit.
    depth: usize,
    copied: usize,
    steps: usize,
}

impl Limits {
    /// Accounts for a value of this depth at this path.
    fn nest(&mut self, path: &str, depth: usize) {
        self.depth = self.depth.max(path.matches('/').count() + depth);
    }

    /// Returns the depth of a value and counts the steps of measuring it.
    fn measure(&mut self, value: &Value) -> usize {
        self.steps = self.steps.saturating_add(1);
        match value {
            Value::Array(items) => {
                let below = items.iter().map(|item| self.measure(item)).max();
                1 + below.unwrap_or_default()
            }
            Value::Object(map) => {
                let below = map.values().map(|member| self.measure(member)).max();
                1 + below.unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// Counts the elements that are moved by an insertion or removal before them.
    fn shift(&mut self, target: &Value, key: &str) {
        if let Value::Array(items) = target {
            let at = place(items.len() + 1, key).unwrap_or(items.len());
            let moved = items.len().saturating_sub(at) / MOVED_PER_STEP;
            self.steps = self.steps.saturating_add(moved);
        }
    }

    fn copy(&mut self, copied: &Value) -> Result<(), String> {
        self.copied += copied.to_string().len();
        if self.copied > MAX_COPIED {
            Err("the copied values are too large".to_owned())
        } else {
            Ok(())
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Applies one operation. Error messages are for logs: the server sends clients only a generic one.
fn step(
    document: &mut Value,
    operation: &Map<String, Value>,
    limits: &mut Limits,
) -> Result<(), String> {
    let member = |name: &str| {
        let text = operation.get(name).and_then(Value::as_str);
        text.ok_or_else(|| format!("an operation has no {name:?}"))
    };
    let value = operation.get("value").unwrap_or(&Value::Null);
    match member("op")? {
        "add" => {
            let path = member("path")?;
            limits.nest(path, depth(value));
            let (target, key) = find(document, path)?;
            limits.shift(target, &key);
            add(target, &key, value.clone())
        }
        "remove" => {
            let (target, key) = find(document, member("path")?)?;
            limits.shift(target, &key);
            remove(target, &key).map(drop)
        }
        "replace" => {
            let path = member("path")?;
            limits.nest(path, depth(value));
            if !path.is_empty() {
                let (target, key) = find(document, path)?;
                return replace(target, &key, value.clone());
            }
            if !(value.is_object() || value.is_array()) {
                return Err("the root of a document must be an object or a list".to_owned());
            }
            *document = value.clone();
            Ok(())
        }
        "move" => {
            let from = member("from")?;
            let (source, key) = find(document, from)?;
            limits.shift(source, &key);
            let moved = remove(source, &key)?;
            let path = member("path")?;
            // A moved value is at most as deep as the document below its former path.
            let depth = limits.depth.saturating_sub(from.matches('/').count());
            limits.nest(path, depth);
            let (target, key) = find(document, path)?;
            limits.shift(target, &key);
            add(target, &key, moved)
        }
        "copy" => {
            let (source, key) = find(document, member("from")?)?;
            let copied = get(source, &key)?.cloned().unwrap_or_default();
            limits.copy(&copied)?;
            let path = member("path")?;
            limits.nest(path, depth(&copied));
            let (target, key) = find(document, path)?;
            limits.shift(target, &key);
            add(target, &key, copied)
        }
        other => Err(format!("unknown operation {other:?}")),
    }
}

/// Compares a value with the one of a `test`.
fn test(document: &mut Value, operation: &Map<String, Value>) -> Result<(), PatchError> {
    let path = operation.get("path").and_then(Value::as_str);
    let path = path.ok_or_else(|| "an operation has no \"path\"".to_owned());
    let path = path.map_err(PatchError::Unprocessable)?;
    let actual = if path.is_empty() {
        Some(&*document)
    } else {
        let (target, key) = find(document, path).map_err(PatchError::Unprocessable)?;
        get(target, &key).map_err(PatchError::Unprocessable)?
    };
    let wanted = operation.get("value").unwrap_or(&Value::Null);
    if actual.unwrap_or(&Value::Null) == wanted {
        return Ok(());
    }
    let why = format!("the value of {path:?} differs from the tested one");
    Err(PatchError::TestFailed(why))
}

/// Returns the parent of a path and the last key. The part before the first slash is ignored.
fn find<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let missing = || format!("{path:?} does not exist");
    let mut keys = path
        .split('/')
        .skip(1)
        .map(|key| key.replace("~1", "/").replace("~0", "~"));
    let mut last = keys.next().ok_or_else(missing)?;
    let mut target = document;
    for key in keys {
        let step = std::mem::replace(&mut last, key);
        target = match target {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(items) => {
                let at = place(items.len(), &step)?;
                items.get_mut(at)
            }
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    if target.is_object() || target.is_array() {
        Ok((target, last))
    } else {
        Err(missing())
    }
}

fn get<'a>(target: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match target {
        Value::Array(items) => Ok(items.get(place(items.len(), key)?)),
        other => Ok(other.get(key)),
    }
}

fn add(target: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match target {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // An insertion has one position more than there are elements.
            let at = place(items.len() + 1, key)?;
            items.insert(at, value);
        }
        other => return replace(other, key, value),
    }
    Ok(())
}

fn remove(target: &mut Value, key: &str) -> Result<Value, String> {
    match target {
        Value::Array(items) => {
            let at = place(items.len(), key)?;
            Ok(items.remove(at))
        }
        other => {
            let removed = other.as_object_mut().and_then(|map| map.remove(key));
            removed.ok_or_else(|| format!("{key:?} does not exist"))
        }
    }
}

fn replace(target: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match target {
        Value::Array(items) => {
            let at = place(items.len(), key)?;
            items.splice(at..=at, [value]);
        }
        other => {
            let map = other.as_object_mut().ok_or("a scalar has no members")?;
            map.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

/// Parses an index into a list of this length; negative ones count from the end.
fn place(length: usize, key: &str) -> Result<usize, String> {
    let at: i64 = key
        .parse()
        .map_err(|_| format!("{key:?} is not an index"))?;
    let place = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    let place = if at < 0 {
        length.checked_sub(place)
    } else {
        Some(place)
    };
    place
        .filter(|place| *place < length)
        .ok_or_else(|| format!("index {at} is out of range"))
}

#[cfg(test)]
mod tests {
    use super::super::merge::tests::any_json;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn operations_apply_in_order() {
        let document = json!({"a": {"b": [1, 2]}, "c": "d"});
        for (patch, expected) in [
            (json!([]), document.clone()),
            (json!(null), document.clone()),
            (
                json!([{"op": "add", "path": "/a/b/-", "value": 3}, {"op": "remove", "path": "/c"}]),
                json!({"a": {"b": [1, 2, 3]}}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/0", "value": 0}]),
                json!({"a": {"b": [0, 1, 2]}, "c": "d"}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/-1", "value": 3}]),
                json!({"a": {"b": [1, 2, 3]}, "c": "d"}),
            ),
            (
                json!([{"op": "remove", "path": "/a/b/-1"}]),
                json!({"a": {"b": [1]}, "c": "d"}),
            ),
            (
                json!([{"op": "replace", "path": "/new", "value": 1}]),
                json!({"a": {"b": [1, 2]}, "c": "d", "new": 1}),
            ),
            (
                json!([{"op": "move", "from": "/c", "path": "/a/c"}]),
                json!({"a": {"b": [1, 2], "c": "d"}}),
            ),
            (
                json!([{"op": "copy", "from": "/a/b", "path": "/e~1f"}]),
                json!({"a": {"b": [1, 2]}, "c": "d", "e/f": [1, 2]}),
            ),
            (
                json!([{"op": "copy", "from": "/nothing", "path": "/c"}]),
                json!({"a": {"b": [1, 2]}, "c": null}),
            ),
            (
                json!([
                    {"op": "test", "path": "/c", "value": "d"},
                    {"op": "test", "path": "/nothing", "value": null},
                    {"op": "test", "path": "/nothing"},
                    {"op": "replace", "path": "", "value": {}},
                ]),
                json!({}),
            ),
        ] {
            assert_eq!(apply(&document, patch.clone()), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn inapplicable_patches_are_rejected() {
        let document = json!({"a": {"b": [1]}, "c": "d"});
        for operation in [
            json!({"op": "test", "path": "/x/y", "value": null}),
            json!({"op": "test"}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "add", "path": "/x/y", "value": 1}),
            json!({"op": "add", "path": "/c/y", "value": 1}),
            json!({"op": "add", "path": "/a/b/5", "value": 1}),
            json!({"op": "add", "path": "/a/b/x", "value": 1}),
            json!({"op": "remove", "path": "/x"}),
            json!({"op": "remove", "path": "/a/b/-"}),
            json!({"op": "replace", "path": "/a/b/1", "value": 1}),
            json!({"op": "replace", "path": "", "value": 1}),
            json!({"op": "move", "path": "/c"}),
            json!({"op": "add"}),
            json!({"op": "spec"}),
            json!({}),
        ] {
            let refused = apply(&document, json!([operation]));
            assert!(
                matches!(refused, Err(PatchError::Unprocessable(_))),
                "{operation}"
            );
        }
        for operation in [
            json!({"op": "test", "path": "/x", "value": 1}),
            json!({"op": "test", "path": "/a/b/0", "value": 1.0}),
            json!({"op": "test", "path": "/c", "value": "x"}),
            json!({"op": "test", "path": "", "value": "x"}),
        ] {
            let refused = apply(&document, json!([operation]));
            assert!(
                matches!(refused, Err(PatchError::TestFailed(_))),
                "{operation}"
            );
        }
    }

    #[test]
    fn malformed_patches_are_bad_requests() {
        for (patch, expected) in [
            (
                json!({}),
                "object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                json!(["x"]),
                "string into Go value of type handlers.jsonPatchOp",
            ),
            (
                json!([{"op": 1}]),
                "number into Go struct field jsonPatchOp.op of type string",
            ),
        ] {
            let expected = format!("error decoding patch: json: cannot unmarshal {expected}");
            assert_eq!(
                apply(&json!({}), patch),
                Err(PatchError::BadRequest(expected))
            );
        }
        let unknown = JsonPatch::decode(json!([{"op": "add", "path": "/a", "foo": 1}])).unwrap();
        assert_eq!(unknown.unknown, ["json patch unknown field \"[0].foo\""]);
    }

    #[test]
    fn too_many_operations_are_rejected() {
        let test = json!({"op": "test", "path": "/x", "value": null});
        assert!(apply(&json!({}), vec![test.clone(); MAX_OPERATIONS].into()).is_ok());
        let refused = apply(&json!({}), vec![test; MAX_OPERATIONS + 1].into());
        assert!(matches!(refused, Err(PatchError::TooLarge(_))));
    }

    #[test]
    fn copied_bytes_are_limited() {
        let mut patch = vec![json!({"op": "add", "path": "/a", "value": []})];
        patch.extend((0..100).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})));
        assert!(matches!(
            apply(&json!({}), patch.into()),
            Err(PatchError::Unprocessable(_))
        ));
    }

    #[test]
    fn nesting_by_moves_is_limited() {
        let mut patch = vec![json!({"op": "add", "path": "/a", "value": {}})];
        for _ in 0..3000 {
            patch.push(json!({"op": "add", "path": "/b", "value": {}}));
            patch.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
            patch.push(json!({"op": "move", "from": "/b", "path": "/a"}));
        }
        let refused = apply(&json!({}), patch.into());
        let expected = "the document is nested too deeply".to_owned();
        assert_eq!(refused, Err(PatchError::Unprocessable(expected)));
        let moves = [("/a", "/b"), ("/b", "/a")].repeat(3000).into_iter();
        let moves = moves.map(|(from, path)| json!({"op": "move", "from": from, "path": path}));
        assert!(apply(&json!({"a": {}}), moves.collect()).is_ok());
    }

    proptest! {
        #[test]
        fn diff_transforms_one_document_to_the_other(a in any_json(), b in any_json()) {
            // The server supports only objects, so the difference is wrapped in one.
            let (a, b) = (json!({"root": a}), json!({"root": b}));
            let patch = serde_json::to_value(json_patch::diff(&a, &b)).unwrap();
            prop_assert_eq!(apply(&a, patch), Ok(b));
        }

        #[test]
        fn malformed_patches_never_panic(document in any_json(), patch in any_json()) {
            let _ = apply(&document, patch);
        }

        #[test]
        fn random_operations_never_panic(
            document in any_json(),
            op in "add|remove|replace|move|copy|test",
            paths in prop::collection::vec("(/([a-d]|-?[0-3]|-|~1|~0)){0,4}", 2),
            value in any_json(),
        ) {
            let patch = json!([{"op": op, "path": paths[0], "from": paths[1], "value": value}]);
            let _ = apply(&document, patch);
        }
    }
}
