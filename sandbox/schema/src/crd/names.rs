//! The syntax of names in CRDs.

use serde_json::Value;

use crate::field_error::FieldError;
use crate::object::names::{kind_name_problem, label_problem};

/// Validates the syntax of `spec.names` or `status.acceptedNames`. Absent names are valid.
pub(super) fn validate(names: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |key: &str| {
        names
            .get(key)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    for key in ["plural", "singular", "kind", "listKind"] {
        let Some(name) = text(key) else { continue };
        let problem = match key {
            "plural" | "singular" => label_problem(name),
            _ => kind_name_problem(name),
        };
        if let Some(problem) = problem {
            errors.push(FieldError::invalid(
                format!("{path}.{key}"),
                &name.into(),
                &problem,
            ));
        }
    }
    let list = |key: &str, errors: &mut Vec<FieldError>| {
        let names = names
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for (index, name) in names.enumerate() {
            let Some(problem) = name.as_str().and_then(label_problem) else {
                continue;
            };
            errors.push(FieldError::invalid(
                format!("{path}.{key}[{index}]"),
                name,
                &problem,
            ));
        }
    };
    list("shortNames", &mut errors);
    if let Some(kind) = text("kind")
        && text("listKind") == Some(kind)
    {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            format!("{path}.listKind"),
            &kind.into(),
            detail,
        ));
    }
    list("categories", &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::names::{LABEL_1035_RULE, SUBDOMAIN_RULE, subdomain_problem};

    #[test]
    fn labels_must_start_with_a_letter() {
        for good in ["a", "a-b", "a1"] {
            assert_eq!(label_problem(good), None);
        }
        for bad in ["", "1a", "-a", "a-", "A", "a.b"] {
            assert_eq!(
                label_problem(bad).as_deref(),
                Some(LABEL_1035_RULE),
                "{bad}"
            );
        }
        assert_eq!(
            label_problem(&"a".repeat(64)).unwrap(),
            "must be no more than 63 characters"
        );
    }

    #[test]
    fn subdomains_are_validated_by_label() {
        assert_eq!(subdomain_problem("a.b-c.1"), None);
        for bad in ["", "a..b", ".a", "A.b", "a_b.c"] {
            assert_eq!(
                subdomain_problem(bad).as_deref(),
                Some(SUBDOMAIN_RULE),
                "{bad}"
            );
        }
    }

    #[test]
    fn kinds_can_be_in_mixed_case() {
        assert_eq!(kind_name_problem("KopfExample"), None);
        assert!(kind_name_problem("Kopf Example").is_some());
    }
}
