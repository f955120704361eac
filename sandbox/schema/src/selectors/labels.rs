//! Label selectors: of the `labelSelector` parameter and of objects (`matchLabels`, …).

use std::fmt;

use serde_json::{Map, Value, json};

use super::label_parser;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::object::label_rules::{label_key_errors, label_value_errors};

/// A conjunction of requirements. Without requirements, it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) operator: Operator,
    /// Sorted and unique.
    pub(super) values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Greater,
    Less,
}

impl LabelSelector {
    /// Parses the `labelSelector` parameter. The error is the message of the 400 response.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = label_parser::parse(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Parses the `LabelSelector` of an object, e.g. of a webhook; `null` matches everything.
    /// `path` is its path in the object, for errors.
    pub fn from_object(selector: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut requirements = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            let field = format!("{path}.matchLabels");
            let text = value.as_str().unwrap_or_default();
            errors.extend(invalid(&field, key, label_key_errors(key)));
            errors.extend(invalid(&field, text, label_value_errors(text)));
            requirements.push(Requirement {
                key: key.clone(),
                operator: Operator::Equals,
                values: vec![text.to_owned()],
            });
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for (index, expression) in expressions.into_iter().flatten().enumerate() {
            let field = format!("{path}.matchExpressions[{index}]");
            match expression_requirement(expression, &field) {
                Ok(requirement) => requirements.push(requirement),
                Err(found) => errors.extend(found),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Returns `true` if labels match. `labels` is `metadata.labels` of an object, if it has any.
    pub fn matches(&self, labels: Option<&Value>) -> bool {
        let labels = labels.and_then(Value::as_object);
        self.requirements
            .iter()
            .all(|requirement| requirement.matches(labels))
    }

    /// Returns `true` if it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = labels
            .and_then(|labels| labels.get(&self.key))
            .and_then(Value::as_str);
        let listed = |value: &str| self.values.iter().any(|known| known == value);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Greater => self.compare(value) == Some(std::cmp::Ordering::Greater),
            Operator::Less => self.compare(value) == Some(std::cmp::Ordering::Less),
        }
    }

    /// Compares the label with the limit, if both are integers.
    fn compare(&self, value: Option<&str>) -> Option<std::cmp::Ordering> {
        let limit: i64 = self.values.first()?.parse().ok()?;
        Some(value?.parse::<i64>().ok()?.cmp(&limit))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            operator,
            values,
        } = self;
        let values = values.join(",");
        match operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Greater => write!(f, "{key}>{values}"),
            Operator::Less => write!(f, "{key}<{values}"),
        }
    }
}

fn expression_requirement(expression: &Value, path: &str) -> Result<Requirement, Vec<FieldError>> {
    let text_of = |name: &str| {
        expression
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let key = text_of("key");
    let name = text_of("operator");
    let mut values: Vec<String> = expression
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|value| value.as_str().unwrap_or_default().to_owned())
        .collect();
    let values_path = format!("{path}.values");
    let mut errors = Vec::new();
    let operator = match name {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        _ => None,
    };
    match operator {
        Some(Operator::In | Operator::NotIn) if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_path, detail));
        }
        Some(Operator::Exists | Operator::DoesNotExist) if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_path, detail));
        }
        Some(_) => {}
        None => errors.push(FieldError::invalid(
            format!("{path}.operator"),
            &json!(name),
            "not a valid selector operator",
        )),
    }
    errors.extend(invalid(&format!("{path}.key"), key, label_key_errors(key)));
    for (index, value) in values.iter().enumerate() {
        let field = format!("{values_path}[{index}]");
        errors.extend(invalid(&field, value, label_value_errors(value)));
    }
    match operator {
        Some(operator) if errors.is_empty() => {
            values.sort();
            values.dedup();
            Ok(Requirement {
                key: key.to_owned(),
                operator,
                values,
            })
        }
        _ => Err(errors),
    }
}

fn invalid(field: &str, value: &str, details: Vec<String>) -> Vec<FieldError> {
    let error = |detail: String| {
        FieldError::new(
            FieldErrorKind::Invalid,
            field,
            format!("Invalid value: {value:?}: {detail}"),
        )
    };
    details.into_iter().map(error).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selects(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(Some(labels))
    }

    #[test]
    fn every_operator_is_supported() {
        let labels = json!({ "a": "b", "n": "7", "empty": "" });
        for good in [
            "",
            "a=b",
            "a==b",
            "a = b , n",
            "a!=c",
            "x!=c",
            "a in (b,c)",
            "a notin (c)",
            "x notin (c)",
            "a",
            "!x",
            "n>5",
            "n<9",
            "empty=",
            "empty in ()",
            "a in (,b)",
        ] {
            assert!(selects(good, &labels), "{good}");
        }
        for bad in [
            "a=c",
            "a!=b",
            "a in (c,d)",
            "a notin (b,c)",
            "x",
            "!a",
            "n>7",
            "n<7",
            "a>5",
            "x<5",
            "a=",
            "a=b,x",
            "x in (b)",
        ] {
            assert!(!selects(bad, &labels), "{bad}");
        }
        assert!(LabelSelector::parse("!a").unwrap().matches(None));
        assert!(LabelSelector::parse(" ").unwrap().is_empty());
    }

    #[test]
    fn selectors_of_objects_combine_labels_and_expressions() {
        let selector = LabelSelector::from_object(
            &json!({
                "matchLabels": { "a": "b" },
                "matchExpressions": [
                    { "key": "c", "operator": "In", "values": ["y", "x"] },
                    { "key": "d", "operator": "DoesNotExist" },
                    { "key": "e", "operator": "Exists" },
                    { "key": "f", "operator": "NotIn", "values": ["z"] },
                ],
            }),
            "spec.selector",
        )
        .unwrap();
        assert_eq!(selector.to_string(), "a=b,c in (x,y),!d,e,f notin (z)");
        assert!(selector.matches(Some(&json!({ "a": "b", "c": "x", "e": "" }))));
        assert!(!selector.matches(Some(&json!({ "a": "b", "c": "x", "e": "", "d": "" }))));
        assert!(
            LabelSelector::from_object(&json!({}), "x")
                .unwrap()
                .is_empty()
        );
        assert!(
            LabelSelector::from_object(&Value::Null, "x")
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn errors_of_object_selectors_name_the_field() {
        let errors = LabelSelector::from_object(
            &json!({
                "matchLabels": { "a": "b c" },
                "matchExpressions": [
                    { "key": "", "operator": "In" },
                    { "key": "k", "operator": "Exists", "values": ["x"] },
                    { "key": "k", "operator": "Like" },
                ],
            }),
            "s",
        )
        .unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "s.matchLabels",
                "s.matchExpressions[0].values",
                "s.matchExpressions[0].key",
                "s.matchExpressions[0].key",
                "s.matchExpressions[1].values",
                "s.matchExpressions[2].operator",
            ]
        );
        assert_eq!(
            errors[5].text(),
            r#"s.matchExpressions[2].operator: Invalid value: "Like": not a valid selector operator"#
        );
    }

    proptest! {
        #[test]
        fn parsing_random_strings_never_panics(text in "[ab5 ,=!()<>\\PC]{0,24}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                let again = LabelSelector::parse(&selector.to_string());
                prop_assert_eq!(again, Ok(selector));
            }
        }

        #[test]
        fn printed_selectors_survive_a_round_trip(
            text in "(!?(a|in|x/y)|(a|notin)(=|==|!=| in | notin )\\(?[a-c,]{0,4}\\)?|z[<>][0-9]{1,3})(,b)?"
        ) {
            if let Ok(selector) = LabelSelector::parse(&text) {
                let again = LabelSelector::parse(&selector.to_string());
                prop_assert_eq!(again, Ok(selector));
            }
        }
    }
}
