//! Operations and options of admission handlers.

use std::fmt;
use std::str::FromStr;

/// The subresource that stands for the main resource and all its subresources.
const ANY_SUBRESOURCE: &str = "*";

/// Options of an admission handler: the requests it reviews and the properties of its webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhook {
    /// Operations to review, without duplicates. `None` for all operations.
    pub operations: Option<Vec<Operation>>,
    /// Subresource to review. `None` for the main resource only, `*` for the main resource and all
    /// its subresources.
    pub subresource: Option<String>,
    /// Keeps the webhook in the managed configuration after the operator has exited.
    pub persistent: bool,
    /// Declares that the handler changes something outside of the object, except in dry runs.
    pub side_effects: bool,
    /// Admits requests if the webhook cannot be called.
    pub ignore_failures: bool,
}

impl Webhook {
    /// Adds operations, keeping the order of their first appearance.
    pub fn add_operations(&mut self, operations: impl IntoIterator<Item = Operation>) {
        let known = self.operations.get_or_insert_default();
        for operation in operations {
            if !known.contains(&operation) {
                known.push(operation);
            }
        }
    }

    /// Returns `true` if the handler reviews this operation. An absent operation is reviewed by all
    /// handlers: skipping a validating handler would admit the request unchecked.
    pub fn covers_operation(&self, operation: Option<Operation>) -> bool {
        match (&self.operations, operation) {
            (Some(covered), Some(operation)) => covered.contains(&operation),
            (None, _) | (_, None) => true,
        }
    }

    /// Returns `true` if the handler reviews this subresource; `None` is the main resource.
    pub fn covers_subresource(&self, subresource: Option<&str>) -> bool {
        match self.subresource.as_deref() {
            Some(ANY_SUBRESOURCE) => true,
            own => own == subresource,
        }
    }

    /// Returns the `resources` of a webhook rule for a resource with this plural name.
    ///
    /// The API server reads `things/*` as the subresources only, so that `*` needs two entries.
    pub fn rule_resources(&self, plural: &str) -> Vec<String> {
        match self.subresource.as_deref() {
            None => vec![plural.to_owned()],
            Some(ANY_SUBRESOURCE) => vec![plural.to_owned(), format!("{plural}/*")],
            Some(subresource) => vec![format!("{plural}/{subresource}")],
        }
    }

    /// Returns `true` if `DELETE` is the only operation.
    pub fn is_for_deletions_only(&self) -> bool {
        self.operations.as_ref().is_some_and(|operations| {
            !operations.is_empty() && operations.iter().all(|one| *one == Operation::Delete)
        })
    }
}

/// An operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Creation.
    Create,
    /// Change of an object or its subresource.
    Update,
    /// Deletion.
    Delete,
    /// Connection, as by `kubectl exec`.
    Connect,
}

impl Operation {
    /// Returns the name in reviews and configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Error for an unknown operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation {0:?}: must be one of CREATE, UPDATE, DELETE, CONNECT")]
#[non_exhaustive]
pub struct UnknownOperation(pub String);

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, UnknownOperation> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.as_str() == name)
            .ok_or_else(|| UnknownOperation(name.to_owned()))
    }
}

/// Type of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WebhookType {
    /// Accepts or denies requests.
    Validating,
    /// Also changes objects.
    Mutating,
}

impl WebhookType {
    /// Returns the name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Mutating => "mutating",
        }
    }
}

impl fmt::Display for WebhookType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_subresource(subresource: Option<&str>) -> Webhook {
        Webhook {
            subresource: subresource.map(str::to_owned),
            ..Webhook::default()
        }
    }

    #[test]
    fn operations_are_added_once_in_order() {
        let mut webhook = Webhook::default();
        assert!(!webhook.is_for_deletions_only());
        webhook.add_operations([Operation::Delete, Operation::Delete]);
        assert!(webhook.is_for_deletions_only());
        webhook.add_operations([Operation::Create]);
        let both = [Operation::Delete, Operation::Create];
        assert_eq!(webhook.operations.as_deref(), Some(&both[..]));
        assert!(!webhook.is_for_deletions_only());
    }

    #[test]
    fn operations_restrict_reviews_unless_the_review_has_none() {
        let mut webhook = Webhook::default();
        assert!(webhook.covers_operation(Some(Operation::Connect)));
        assert!(webhook.covers_operation(None));
        webhook.add_operations([Operation::Create]);
        assert!(webhook.covers_operation(Some(Operation::Create)));
        assert!(!webhook.covers_operation(Some(Operation::Update)));
        assert!(webhook.covers_operation(None));
    }

    #[test]
    fn subresources_are_exact_or_any() {
        let cases = [
            (None, None, true),
            (None, Some("status"), false),
            (Some("status"), None, false),
            (Some("status"), Some("status"), true),
            (Some("status"), Some("scale"), false),
            (Some("*"), None, true),
            (Some("*"), Some("scale"), true),
        ];
        for (own, requested, expected) in cases {
            let webhook = of_subresource(own);
            assert_eq!(
                webhook.covers_subresource(requested),
                expected,
                "{own:?} {requested:?}"
            );
        }
    }

    #[test]
    fn rules_of_any_subresource_include_the_main_resource() {
        for (subresource, expected) in [
            (None, vec!["things"]),
            (Some("status"), vec!["things/status"]),
            (Some("*"), vec!["things", "things/*"]),
        ] {
            assert_eq!(
                of_subresource(subresource).rule_resources("things"),
                expected
            );
        }
    }
}
