//! The part of Helm's templates that our charts use, for tests. `tests/helm.sh` renders charts with
//! Helm itself.

use serde_json::{Value, json};

/// A template with the data that it reads.
struct Template<'a> {
    text: &'a str,
    data: &'a Value,
}

/// Renders a template for the release `rel` in the namespace `relns`. Returns the message of `fail` as
/// an error.
pub(super) fn render(text: &str, values: &Value) -> Result<String, String> {
    let data = json!({"Values": values, "Release": {"Name": "rel", "Namespace": "relns"}});
    let mut template = Template { text, data: &data };
    let mut output = String::new();
    let rest = template.block(&data, Some(&mut output))?;
    assert_eq!(rest, None, "an end without a beginning");
    Ok(output)
}

impl<'a> Template<'a> {
    /// Renders until the end of a block, or skips it without an output. Returns the closing word.
    fn block(
        &mut self,
        dot: &Value,
        mut output: Option<&mut String>,
    ) -> Result<Option<&'a str>, String> {
        while let Some((before, rest)) = self.text.split_once("{{") {
            let (action, after) = rest.split_once("}}").expect("an open expression");
            self.text = after;
            let (before, action) = match action.strip_prefix('-') {
                Some(action) => (before.trim_end(), action.trim()),
                None => (before, action.trim()),
            };
            if let Some(output) = output.as_deref_mut() {
                output.push_str(before);
            }
            let (word, argument) = action.split_once(' ').unwrap_or((action, ""));
            match word {
                "if" | "with" | "range" => {
                    self.branch(word, argument, dot, output.as_deref_mut())?;
                }
                "else" | "end" => return Ok(Some(word)),
                _ => {
                    if let Some(output) = output.as_deref_mut() {
                        output.push_str(&shown(&self.evaluate(action, dot)?));
                    }
                }
            }
        }
        if let Some(output) = output {
            output.push_str(self.text);
        }
        self.text = "";
        Ok(None)
    }

    fn branch(
        &mut self,
        word: &str,
        argument: &str,
        dot: &Value,
        mut output: Option<&mut String>,
    ) -> Result<(), String> {
        let value = match output {
            Some(_) => self.evaluate(argument, dot)?,
            None => Value::Null,
        };
        let items = match (word, &value) {
            _ if !is_true(&value) => vec![],
            ("range", Value::Array(items)) => items.clone(),
            ("with", value) => vec![value.clone()],
            _ => vec![dot.clone()],
        };
        let body = self.text;
        for item in &items {
            self.text = body;
            self.block(item, output.as_deref_mut())?;
        }
        self.text = body;
        let closing = self.block(dot, None)?;
        if closing == Some("else") {
            self.block(dot, output.filter(|_| items.is_empty()))?;
        }
        Ok(())
    }

    /// Evaluates a pipeline.
    fn evaluate(&self, text: &str, dot: &Value) -> Result<Value, String> {
        let mut parts = text.split(" | ");
        let mut value = self.call(parts.next().unwrap_or_default(), None, dot)?;
        for part in parts {
            value = self.call(part, Some(value), dot)?;
        }
        Ok(value)
    }

    fn call(&self, text: &str, last: Option<Value>, dot: &Value) -> Result<Value, String> {
        let words = words(text);
        let (name, rest) = words.split_first().expect("an empty expression");
        let mut arguments = rest
            .iter()
            .map(|word| self.call(word, None, dot))
            .collect::<Result<Vec<_>, _>>()?;
        arguments.extend(last);
        Ok(match (name.as_str(), arguments.as_slice()) {
            (".", []) => dot.clone(),
            ("quote", [value]) => json!(json!(shown(value)).to_string()),
            ("toYaml", [value]) => json!(serde_saphyr::to_string(value).unwrap().trim()),
            ("nindent", [indent, text]) => {
                let indent = " ".repeat(usize::try_from(indent.as_u64().unwrap()).unwrap());
                let lines = shown(text);
                let lines = lines.lines().map(|line| format!("\n{indent}{line}"));
                json!(lines.collect::<String>())
            }
            ("int", [value]) => value.clone(),
            ("not", [value]) => json!(!is_true(value)),
            ("and", [first, second]) => json!(is_true(first) && is_true(second)),
            ("gt", [first, second]) => json!(first.as_i64() > second.as_i64()),
            ("eq", [first, second]) => json!(first == second),
            ("fail", [message]) => return Err(shown(message)),
            (word, []) if word.starts_with('.') => {
                let path = word[1..].split('.');
                path.fold(self.data, |value, key| &value[key]).clone()
            }
            (word, []) if word.contains(' ') && !word.starts_with('"') => {
                self.evaluate(word, dot)?
            }
            (word, []) => serde_json::from_str(word).unwrap_or_else(|_| panic!("{word:?}")),
            unknown => panic!("{unknown:?}"),
        })
    }
}

/// Splits at spaces outside of parentheses and quotes, and removes outer parentheses.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut depth, mut is_quoted) = (Vec::new(), String::new(), 0, false);
    for char in text.trim().chars() {
        match char {
            '(' if !is_quoted => {
                depth += 1;
                if depth == 1 {
                    continue;
                }
            }
            ')' if !is_quoted => {
                depth -= 1;
                if depth == 0 {
                    continue;
                }
            }
            '"' => is_quoted = !is_quoted,
            ' ' if depth == 0 && !is_quoted => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(char);
    }
    words.push(word);
    words
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
