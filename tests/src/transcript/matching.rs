//! Comparison of a response with the expectations of a step.

use serde_json::Value;

use super::path::Path;

/// Returns the difference between an expected and a found value, if any. Unknown conditions are errors.
///
/// An expected null is a null or an absent field. An expected text in angle brackets is a condition:
/// `<string>`, `<any>`, `<not X>`, `<contains X>`, `<lacks X>`, `<starts X>`, `<ends X>`,
/// `<line X>` for the first line, `<one of X|Y>`, `<length N>`, `<at least N>`, `<more than N>`, and `<is X>` for a text in angle brackets itself.
pub(super) fn difference(expected: &Value, found: &Value) -> Result<Option<String>, String> {
    if same(expected, found) {
        return Ok(None);
    }
    match unknown(expected) {
        Some(condition) => Err(format!("unknown condition {condition}")),
        None => Ok(Some(format!("expected {expected}, got {found}"))),
    }
}

fn same(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(text), _) => {
            match text.strip_prefix('<').and_then(|t| t.strip_suffix('>')) {
                Some(condition) => holds(condition, found),
                None => found == expected,
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .zip(found)
                    .all(|(expected, found)| same(expected, found))
        }
        (Value::Object(expected), Value::Object(found)) => {
            found.keys().all(|key| expected.contains_key(key))
                && expected.iter().all(|(key, expected)| {
                    found
                        .get(key)
                        .map_or(expected.is_null(), |found| same(expected, found))
                })
        }
        // 1 and 1.0 are one number in YAML and JSON.
        (Value::Number(expected), Value::Number(found)) => expected.as_f64() == found.as_f64(),
        _ => expected == found,
    }
}

/// Returns an unknown condition inside an expected value.
fn unknown(expected: &Value) -> Option<&str> {
    const WORDS: [&str; 11] = [
        "not ",
        "contains ",
        "lacks ",
        "starts ",
        "ends ",
        "one of ",
        "line ",
        "length ",
        "at least ",
        "more than ",
        "is ",
    ];
    match expected {
        Value::String(text) => {
            let condition = text.strip_prefix('<')?.strip_suffix('>')?;
            let known = ["string", "any"].contains(&condition)
                || WORDS.iter().any(|word| condition.starts_with(word));
            (!known).then_some(text)
        }
        Value::Array(list) => list.iter().find_map(unknown),
        Value::Object(fields) => fields.values().find_map(unknown),
        _ => None,
    }
}

fn holds(condition: &str, found: &Value) -> bool {
    let text = found.as_str();
    let check = |prefix: &str, test: &dyn Fn(&str, &str) -> bool| {
        condition
            .strip_prefix(prefix)
            .map(|wanted| text.is_some_and(|text| test(text, wanted)))
    };
    let (word, number) = condition.rsplit_once(' ').unwrap_or_default();
    let number: Option<u64> = number.parse().ok();
    match (condition, word) {
        ("string", _) => return text.is_some(),
        ("any", _) => return !found.is_null(),
        (_, "length") => {
            let length = text.map(str::len).or(found.as_array().map(Vec::len));
            return number.is_some() && length.map(|length| length as u64) == number;
        }
        (_, "at least" | "more than") => {
            let value = found.as_u64().or(text.and_then(|text| text.parse().ok()));
            let enough = if word == "at least" {
                value >= number
            } else {
                value > number
            };
            return number.is_some() && enough;
        }
        _ => {}
    }
    if let Some(wanted) = condition.strip_prefix("not ") {
        return text.map_or_else(|| found.to_string(), str::to_owned) != wanted;
    }
    check("contains ", &|text, wanted| text.contains(wanted))
        .or(check("lacks ", &|text, wanted| !text.contains(wanted)))
        .or(check("starts ", &|text, wanted| text.starts_with(wanted)))
        .or(check("ends ", &|text, wanted| text.ends_with(wanted)))
        .or(check("one of ", &|text, wanted| {
            wanted.split('|').any(|one| one == text)
        }))
        .or(check("line ", &|text, wanted| {
            text.lines().next() == Some(wanted)
        }))
        .or(check("is ", &|text, wanted| text == wanted))
        .unwrap_or(false)
}

/// Returns the value that a key of `has` selects: a path, behind `sorted`,
/// `unique` (sorted without repetitions) or `count` if wanted.
pub(super) fn selected(key: &str, body: &Value) -> Result<Value, String> {
    let get = |path: &str| Path::parse(path).map(|path| path.get(body));
    if let Some(path) = key.strip_prefix("sorted ") {
        let mut value = get(path)?;
        if let Some(list) = value.as_array_mut() {
            list.sort_by_key(|item| {
                item.as_str()
                    .map_or_else(|| item.to_string(), str::to_owned)
            });
        }
        return Ok(value);
    }
    if let Some(path) = key.strip_prefix("unique ") {
        let mut value = selected(&format!("sorted {path}"), body)?;
        if let Some(list) = value.as_array_mut() {
            list.dedup();
        }
        return Ok(value);
    }
    if let Some(path) = key.strip_prefix("count ") {
        let value = get(path)?;
        return Ok(value.as_array().map(Vec::len).into());
    }
    get(key)
}

/// Returns the expected elements that a list lacks.
pub(super) fn lacking(expected: &[Value], found: &Value) -> Vec<Value> {
    let found: Vec<&Value> = found.as_array().into_iter().flatten().collect();
    let absent = |wanted: &&Value| !found.iter().any(|found| same(wanted, found));
    expected.iter().filter(absent).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{difference, lacking, selected};

    fn equal(expected: Value, found: Value) -> bool {
        difference(&expected, &found).unwrap().is_none()
    }

    #[test]
    fn values_are_compared_exactly() {
        assert!(equal(
            json!({"a": [1, {"b": 2.0}]}),
            json!({"a": [1, {"b": 2}]})
        ));
        assert!(equal(json!({"a": null}), json!({})));
        assert!(!equal(json!({}), json!({"a": null})));
        assert!(!equal(json!([1]), json!([1, 2])));
        assert!(!equal(json!("1"), json!(1)));
    }

    #[test]
    fn conditions_hold_or_not() {
        for (condition, yes, no) in [
            ("<string>", json!("x"), json!(1)),
            ("<any>", json!(false), Value::Null),
            ("<not x>", json!("y"), json!("x")),
            ("<contains bc>", json!("abcd"), json!("acbd")),
            ("<lacks bc>", json!("acbd"), json!("abcd")),
            ("<starts ab>", json!("abc"), json!("bab")),
            ("<ends bc>", json!("abc"), json!("bca")),
            ("<line ab>", json!("ab\ncd"), json!("abcd")),
            ("<one of a|b>", json!("b"), json!("c")),
            ("<length 2>", json!([1, 2]), json!([1])),
            ("<length 3>", json!("abc"), json!("ab")),
            ("<at least 30>", json!("31"), json!("29")),
            ("<more than 9>", json!("10"), json!("9")),
            ("<is <none>>", json!("<none>"), json!("none")),
        ] {
            assert!(equal(json!(condition), yes), "{condition}");
            assert!(!equal(json!(condition), no), "{condition}");
        }
        let unknown = difference(&json!(["<bogus>"]), &json!(["x"]));
        assert_eq!(unknown.unwrap_err(), "unknown condition <bogus>");
    }

    #[test]
    fn lists_are_sorted_counted_and_searched() {
        let body = json!({"list": [{"n": "b"}, {"n": "a"}], "twice": ["b", "a", "b"]});
        assert_eq!(selected("unique twice", &body).unwrap(), json!(["a", "b"]));
        assert_eq!(
            selected("sorted list[*].n", &body).unwrap(),
            json!(["a", "b"])
        );
        assert_eq!(selected("count list", &body).unwrap(), 2);
        assert_eq!(selected("count none", &body).unwrap(), Value::Null);
        assert_eq!(
            lacking(&[json!("a"), json!("c")], &json!(["b", "a"])),
            [json!("c")]
        );
    }
}
