//! Named values of a transcript, and their use in requests and expectations.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::Path;

/// Values by name: `$namespace`, `$group`, `$suffix`, the fixtures, and what a case has saved.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope(BTreeMap<String, Value>);

impl Scope {
    pub(super) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn named(&self, name: &str) -> Result<&Value, String> {
        self.0
            .get(name)
            .ok_or_else(|| format!("unknown name ${name}"))
    }

    /// Replaces the names in a text; `$$` is a dollar.
    pub(super) fn text(&self, text: &str) -> Result<String, String> {
        let mut result = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            result.push_str(before);
            let end = name_length(after);
            match self.0.get(&after[..end]) {
                Some(Value::String(value)) => result.push_str(value),
                Some(value) => result.push_str(&value.to_string()),
                None if end > 0 => self.named(&after[..end]).map(drop)?,
                None => result.push('$'),
            }
            rest = match after[end..].strip_prefix('$') {
                Some(escaped) if end == 0 => escaped,
                _ => &after[end..],
            };
        }
        result.push_str(rest);
        Ok(result)
    }

    /// Replaces the names in a value. A text that is one name becomes the value of any type.
    ///
    /// In an object, `$from` is merged with the other fields, as by a merge patch; `$set` then sets
    /// values by their paths, and `$remove` lists the paths of values to remove. An object with
    /// `$repeat`, a text and a number, is that text so many times.
    pub(super) fn value(&self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) if !name.is_empty() && name_length(name) == name.len() => {
                    self.named(name)?.clone()
                }
                _ => Value::String(self.text(text)?),
            },
            Value::Array(list) => list
                .iter()
                .map(|item| self.value(item))
                .collect::<Result<_, _>>()?,
            Value::Object(fields) => self.object(fields)?,
            other => other.clone(),
        })
    }

    fn object(&self, fields: &Map<String, Value>) -> Result<Value, String> {
        if let Some(repeated) = fields.get("$repeat") {
            let pair = repeated.as_array().and_then(|pair| match &pair[..] {
                [Value::String(text), Value::Number(times)] => Some((text, times.as_u64()?)),
                _ => None,
            });
            let (text, times) = pair.ok_or("$repeat takes a text and a number")?;
            return Ok(text.repeat(usize::try_from(times).unwrap_or(0)).into());
        }
        let mut own = Map::new();
        for (key, value) in fields {
            if !["$from", "$set", "$remove"].contains(&key.as_str()) {
                own.insert(key.clone(), self.value(value)?);
            }
        }
        let mut result = Value::Object(own);
        if let Some(base) = fields.get("$from") {
            let mut merged = self.value(base)?;
            merge(&mut merged, result);
            result = merged;
        }
        if let Some(changes) = fields.get("$set") {
            let changes = self.value(changes)?;
            for (path, value) in changes.as_object().ok_or("$set takes paths with values")? {
                Path::parse(&self.text(path)?)?.set(&mut result, Some(value.clone()))?;
            }
        }
        if let Some(paths) = fields.get("$remove") {
            let paths = self.value(paths)?;
            for path in paths.as_array().ok_or("$remove takes a list of paths")? {
                let path = path.as_str().ok_or("$remove takes a list of paths")?;
                Path::parse(path)?.set(&mut result, None)?;
            }
        }
        Ok(result)
    }
}

/// Returns the length of the name at the beginning of a text.
fn name_length(text: &str) -> usize {
    let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    match text.chars().next() {
        Some(first) if first.is_ascii_lowercase() => text.find(other).unwrap_or(text.len()),
        _ => 0,
    }
}

/// Merges a patch into a value (RFC 7386).
pub(super) fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Scope;

    fn scope() -> Scope {
        let mut scope = Scope::default();
        scope.set("name", "one");
        scope.set("object", json!({"a": 1, "b": {"c": 2}, "list": [{"n": 1}]}));
        scope
    }

    #[test]
    fn names_are_replaced_in_texts_and_values() {
        let value = scope().value(&json!([
            "$name",
            "a-$name.b",
            "$object",
            "^a$",
            "$$name",
            "$.x"
        ]));
        let object = json!({"a": 1, "b": {"c": 2}, "list": [{"n": 1}]});
        assert_eq!(
            value.unwrap(),
            json!(["one", "a-one.b", object, "^a$", "$name", "$.x"])
        );
        assert_eq!(scope().text("/$nope/x").unwrap_err(), "unknown name $nope");
    }

    #[test]
    fn objects_are_derived_from_others() {
        let value = json!({
            "$from": "$object", "a": null, "b": {"d": "$name"},
            "$set": {"list[0].n": 5}, "$remove": ["b.c"],
        });
        let expected = json!({"b": {"d": "one"}, "list": [{"n": 5}]});
        assert_eq!(
            scope().value(&json!({"$repeat": ["ab", 2]})).unwrap(),
            "abab"
        );
        assert_eq!(scope().value(&value).unwrap(), expected);
    }
}
