//! Paths to the values of a response: `metadata.name`, `items[0]`, `items[*].metadata.name`,
//! `resources[name=pods].kind`, `columns[?priority=0][*].name`, `metadata.annotations["example.com/a"]`.

use serde_json::{Map, Value};

/// A step from a value to a value inside it.
#[derive(Debug, PartialEq)]
enum Segment {
    Key(String),
    Index(usize),
    /// The element whose value at the path is this text.
    Where(Path, String),
    /// All elements whose value at the path is this text, as a list.
    Filter(Path, String),
    /// The values of all elements.
    All,
}

/// A parsed path; the empty path or `.` is the whole value.
#[derive(Debug, PartialEq)]
pub(super) struct Path(Vec<Segment>);

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut segments = Vec::new();
        let mut rest = if text == "." { "" } else { text };
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (segment, after) = bracket(inside).ok_or(format!("invalid path {text:?}"))?;
                segments.push(segment);
                rest = after.strip_prefix('.').unwrap_or(after);
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                segments.push(Segment::Key(rest[..end].to_owned()));
                rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
            }
        }
        Ok(Self(segments))
    }

    /// Returns the value at the path; null if it is absent.
    pub(super) fn get(&self, value: &Value) -> Value {
        get(&self.0, value)
    }

    /// Sets the value at the path; objects on the way are created. `None` removes it.
    pub(super) fn set(&self, target: &mut Value, value: Option<Value>) -> Result<(), String> {
        let (last, way) = self.0.split_last().ok_or("the path of a change is empty")?;
        let mut target = target;
        for segment in way {
            target = enter(target, segment)?;
        }
        match (last, value) {
            (Segment::Key(key), None) => drop(object(target)?.remove(key)),
            (Segment::Index(index), None) => {
                let list = target.as_array_mut().filter(|list| *index < list.len());
                drop(list.ok_or(format!("no element {index}"))?.remove(*index));
            }
            (segment, Some(value)) => *enter(target, segment)? = value,
            (segment, None) => return Err(format!("cannot remove {segment:?}")),
        }
        Ok(())
    }
}

/// Parses the inside of brackets. Returns it with the text behind them.
fn bracket(inside: &str) -> Option<(Segment, &str)> {
    if let Some(quoted) = inside.strip_prefix('"') {
        let (key, after) = quoted.split_once("\"]")?;
        return Some((Segment::Key(key.to_owned()), after));
    }
    let (inside, after) = inside.split_once(']')?;
    let segment = if inside == "*" {
        Segment::All
    } else if let Some((path, text)) = inside.split_once('=') {
        match path.strip_prefix('?') {
            Some(path) => Segment::Filter(Path::parse(path).ok()?, text.to_owned()),
            None => Segment::Where(Path::parse(path).ok()?, text.to_owned()),
        }
    } else {
        Segment::Index(inside.parse().ok()?)
    };
    Some((segment, after))
}

/// Returns `true` if an element has this text, or a number or flag that is written so.
fn is(element: &Value, path: &Path, text: &str) -> bool {
    match path.get(element) {
        Value::String(found) => found == text,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
        found => serde_json::from_str::<Value>(text).is_ok_and(|wanted| wanted == found),
    }
}

fn get(segments: &[Segment], value: &Value) -> Value {
    let Some((first, rest)) = segments.split_first() else {
        return value.clone();
    };
    let elements = || value.as_array().into_iter().flatten();
    let found = match first {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(index),
        Segment::Where(path, text) => elements().find(|element| is(element, path, text)),
        Segment::Filter(path, text) => {
            let found = elements().filter(|element| is(element, path, text));
            return get(rest, &found.cloned().collect());
        }
        Segment::All if value.is_array() => {
            return elements().map(|element| get(rest, element)).collect();
        }
        Segment::All => None,
    };
    found.map_or(Value::Null, |found| get(rest, found))
}

fn object(target: &mut Value) -> Result<&mut Map<String, Value>, String> {
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    let shown = target.to_string();
    target
        .as_object_mut()
        .ok_or(format!("{shown} has no fields"))
}

fn enter<'a>(target: &'a mut Value, segment: &Segment) -> Result<&'a mut Value, String> {
    match segment {
        Segment::Key(key) => Ok(object(target)?.entry(key).or_insert(Value::Null)),
        Segment::Index(index) => {
            let list = target.as_array_mut().ok_or("not a list")?;
            if *index == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(*index).ok_or(format!("no element {index}"))
        }
        Segment::Where(path, text) => {
            let mut elements = target.as_array_mut().into_iter().flatten();
            let found = elements.find(|element| is(element, path, text));
            found.ok_or(format!("no element with {text:?}"))
        }
        Segment::All | Segment::Filter(..) => Err("a change needs one place".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Path;

    fn at(value: &Value, path: &str) -> Value {
        Path::parse(path).unwrap().get(value)
    }

    #[test]
    fn paths_lead_to_keys_elements_and_all_elements() {
        let value = json!({"a": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "b": {"c.d/e": 3}});
        assert_eq!(at(&value, "a[1].v"), 2);
        assert_eq!(at(&value, "a[n=x].v"), 1);
        assert_eq!(at(&value, "a[*].v"), json!([1, 2]));
        assert_eq!(at(&value, "a[?v=2][*].n"), json!(["y"]));
        assert_eq!(at(&value, "b[\"c.d/e\"]"), 3);
        assert_eq!(at(&value, "."), value);
        assert_eq!(at(&value, "a[7].v"), Value::Null);
        assert_eq!(at(&value, "b[*]"), Value::Null);
        assert!(Path::parse("a[x").is_err());
    }

    #[test]
    fn values_are_set_and_removed_by_paths() {
        let mut value = json!({"a": [{"n": 1}]});
        let mut set = |path: &str, new| Path::parse(path).unwrap().set(&mut value, new);
        set("a[0].n", Some(json!(2))).unwrap();
        set("a[1]", Some(json!("new"))).unwrap();
        set("b.c", Some(json!(3))).unwrap();
        set("a[0].m", None).unwrap();
        assert!(set("a[9].n", Some(json!(0))).is_err());
        assert_eq!(value, json!({"a": [{"n": 2}, "new"], "b": {"c": 3}}));
    }
}
