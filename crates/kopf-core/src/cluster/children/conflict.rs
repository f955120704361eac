//! Conflicts between field managers.

use std::fmt;

use serde_json::Value;

/// The fields of a child that belong to other managers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The child, as in `Deployment/web in the namespace 'default'`.
    pub child: String,
    /// The fields; never empty.
    pub fields: Vec<ConflictingField>,
}

/// One field of a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictingField {
    /// The path, as in `.spec.replicas`.
    pub field: String,
    /// The manager that owns the field, as the server names it.
    pub manager: String,
}

impl Conflict {
    /// Reads the details of a 409 response; `None` if it is not about managers.
    pub fn from_details(child: String, details: Option<&Value>) -> Option<Self> {
        let causes = details?.get("causes")?.as_array()?;
        let fields: Vec<_> = causes.iter().filter_map(ConflictingField::read).collect();
        (!fields.is_empty()).then_some(Self { child, fields })
    }
}

impl ConflictingField {
    fn read(cause: &Value) -> Option<Self> {
        let text = |key: &str| cause.get(key).and_then(Value::as_str);
        if text("reason")? != "FieldManagerConflict" {
            return None;
        }
        let message = text("message")?;
        let manager = message.strip_prefix("conflict with ").unwrap_or(message);
        Some(Self {
            field: text("field").unwrap_or(".").to_owned(),
            manager: manager.to_owned(),
        })
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "child {} is not applied: ", self.child)?;
        for (position, ConflictingField { field, manager }) in self.fields.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{field} is managed by {manager}")?;
        }
        f.write_str("; leave these fields out, or apply with force to take them over")
    }
}

impl std::error::Error for Conflict {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_name_managers_and_fields() {
        let details = json!({"causes": [
            {"reason": "FieldManagerConflict", "field": ".spec.replicas",
             "message": "conflict with \"kubectl\" using apps/v1"},
            {"reason": "Other", "field": ".x", "message": "m"},
        ]});
        let conflict = Conflict::from_details("Deployment/web".to_owned(), Some(&details)).unwrap();
        assert_eq!(
            conflict.to_string(),
            "child Deployment/web is not applied: .spec.replicas is managed by \"kubectl\" using \
             apps/v1; leave these fields out, or apply with force to take them over"
        );
    }

    #[test]
    fn other_responses_are_not_conflicts_of_managers() {
        for details in [None, Some(json!({})), Some(json!({"causes": []}))] {
            assert_eq!(
                Conflict::from_details(String::new(), details.as_ref()),
                None
            );
        }
    }
}
