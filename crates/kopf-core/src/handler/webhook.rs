//! What is declared about handlers for admission.

use crate::admission::Operation;

/// What the API server asks a handler about, and what it may assume of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhook {
    /// The operations, each once; none is all of them.
    pub operations: Option<Vec<Operation>>,
    /// The subresource, `*` for any. None is the object itself.
    pub subresource: Option<String>,
    /// Whether the server goes on asking when the operator has ended.
    pub persistent: bool,
    /// Whether the handler changes anything outside of the object.
    pub side_effects: bool,
    /// Whether the server goes on without an answer if it gets none.
    pub ignore_failures: bool,
}

impl Webhook {
    /// Adds operations to those that are there.
    pub fn add_operations(&mut self, operations: impl IntoIterator<Item = Operation>) {
        let known = self.operations.get_or_insert_default();
        for operation in operations {
            if !known.contains(&operation) {
                known.push(operation);
            }
        }
    }

    /// Whether it is for this subresource, or for the object itself.
    pub fn is_for(&self, subresource: Option<&str>) -> bool {
        match self.subresource.as_deref() {
            Some("*") => true,
            own => own == subresource,
        }
    }

    /// Whether deletions are all that it is for.
    pub fn is_for_deletions_only(&self) -> bool {
        self.operations.as_ref().is_some_and(|operations| {
            !operations.is_empty() && operations.iter().all(|one| *one == Operation::Delete)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn subresources_are_exact_or_any() {
        let of = |own: Option<&str>| Webhook {
            subresource: own.map(str::to_owned),
            ..Webhook::default()
        };
        let cases = [
            (None, None, true),
            (None, Some("status"), false),
            (Some("status"), None, false),
            (Some("status"), Some("status"), true),
            (Some("status"), Some("scale"), false),
            (Some("*"), None, true),
            (Some("*"), Some("scale"), true),
        ];
        for (own, asked, expected) in cases {
            assert_eq!(of(own).is_for(asked), expected, "{own:?} {asked:?}");
        }
    }
}
