//! The differences of a response from the expectations of a step.

use http::Method;
use serde_json::{Map, Value, json};

use super::matching::{difference, lacking, selected};
use super::scope::Scope;
use super::step::Step;
use crate::ApiResponse;

/// Returns the differences of a response. Errors are mistakes in the transcript.
pub(super) fn response_differences(
    step: &Step,
    method: &Method,
    response: &ApiResponse,
    scope: &Scope,
) -> Result<Vec<String>, String> {
    let expected = &step.expected;
    let mut wrong = Wrong {
        found: Vec::new(),
        scope,
    };
    wrong.status(expected.status.as_ref(), method, response)?;
    wrong.compare(
        "message",
        expected.message.as_ref(),
        &json!(response.message()),
    )?;
    let causes = response.details()["causes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if let Some(pattern) = &expected.causes {
        let pattern = scope.value(pattern)?;
        let found = shaped(&causes, &pattern);
        wrong.compare("causes", Some(&pattern), &found)?;
    }
    if let Some(some) = &expected.some_causes {
        let some = scope.value(some)?;
        for cause in some.as_array().ok_or("some_causes: expected a list")? {
            let found = shaped(&causes, &json!([cause]));
            wrong.include("some_causes", std::slice::from_ref(cause), &found);
        }
    }
    wrong.body(&expected.has, &expected.includes, &response.json)?;
    if let Some(names) = &expected.names {
        let found = selected("items[*].metadata.name", &response.json)?;
        wrong.compare("names", Some(names), &found)?;
    }
    let mut warnings = response.warnings();
    let expected_warnings = match expected.warnings.as_ref() {
        Some(Value::Object(any_order)) => {
            warnings.sort_unstable();
            any_order.get("sorted")
        }
        other => other,
    };
    wrong.compare("warnings", expected_warnings, &json!(warnings))?;
    wrong.compare("text", expected.text.as_ref(), &json!(response.text()))?;
    for (name, value) in &expected.returns {
        let found = response
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok());
        wrong.compare(name, Some(value), &json!(found))?;
    }
    Ok(wrong.found)
}

/// Returns the differences of the object in an event.
pub(super) fn event_differences(
    step: &Step,
    object: &Value,
    scope: &Scope,
) -> Result<Vec<String>, String> {
    let mut wrong = Wrong {
        found: Vec::new(),
        scope,
    };
    wrong.body(&step.expected.has, &step.expected.includes, object)?;
    Ok(wrong.found)
}

/// Returns causes as lists of reason, field and message, as long as the lists of the pattern.
fn shaped(causes: &[Value], pattern: &Value) -> Value {
    let length = pattern.get(0).and_then(Value::as_array).map_or(2, Vec::len);
    let fields = ["reason", "field", "message"].into_iter().take(length);
    let shaped = causes.iter().map(|cause| {
        fields
            .clone()
            .map(|field| cause[field].clone())
            .collect::<Value>()
    });
    shaped.collect()
}

struct Wrong<'a> {
    found: Vec<String>,
    scope: &'a Scope,
}

impl Wrong<'_> {
    fn compare(
        &mut self,
        name: &str,
        expected: Option<&Value>,
        found: &Value,
    ) -> Result<(), String> {
        let Some(expected) = expected else {
            return Ok(());
        };
        let difference = difference(&self.scope.value(expected)?, found)?;
        self.found
            .extend(difference.map(|difference| format!("{name}: {difference}")));
        Ok(())
    }

    fn include(&mut self, name: &str, expected: &[Value], found: &Value) {
        let lacking = lacking(expected, found);
        let shown = lacking
            .iter()
            .map(|value| format!("{name}: expected {value} in {found}"));
        self.found.extend(shown);
    }

    fn body(
        &mut self,
        has: &Map<String, Value>,
        includes: &Map<String, Value>,
        body: &Value,
    ) -> Result<(), String> {
        for (path, value) in has {
            let found = selected(&self.scope.text(path)?, body)?;
            self.compare(path, Some(value), &found)?;
        }
        for (path, values) in includes {
            let found = selected(&self.scope.text(path)?, body)?;
            let values = self.scope.value(values)?;
            let values = values
                .as_array()
                .ok_or(format!("includes: {path}: expected a list"))?;
            self.include(path, values, &found);
        }
        Ok(())
    }

    /// Compares the status: `404`, `404 NotFound`, `refused` for any error of the client, or
    /// `failure` for any error. The body of an error must agree with its code.
    fn status(
        &mut self,
        expected: Option<&Value>,
        method: &Method,
        response: &ApiResponse,
    ) -> Result<(), String> {
        let usual = json!(if method == Method::POST { 201 } else { 200 });
        let expected = self.scope.value(expected.unwrap_or(&usual))?;
        let text = expected
            .as_str()
            .map_or_else(|| expected.to_string(), str::to_owned);
        let (code, reason) = text.split_once(' ').unwrap_or((&text, ""));
        let matches = match code {
            "failure" => response.code >= 400,
            "refused" => (400..500).contains(&response.code),
            code => {
                let code: u16 = code
                    .parse()
                    .map_err(|_| format!("status: invalid {text:?}"))?;
                response.code == code
            }
        };
        let is_status = response.json["kind"] == "Status";
        let has_reason = reason.is_empty() || is_status && response.reason() == reason;
        if !matches || !has_reason {
            let (code, reason) = (response.code, response.reason());
            self.found
                .push(format!("status: expected {text}, got {code} {reason}"));
        } else if response.code >= 400 && is_status {
            let said = (
                &response.json["apiVersion"],
                &response.json["status"],
                &response.json["code"],
            );
            if said != (&json!("v1"), &json!("Failure"), &json!(response.code)) {
                self.found
                    .push(format!("status: the body disagrees: {said:?}"));
            }
        }
        Ok(())
    }
}
