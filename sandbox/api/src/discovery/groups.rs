//! The order of groups in discovery.

use std::sync::Arc;

use kopf_sandbox_schema::kind::{Kinds, Origin};

/// Returns all groups but the core one: the built-in ones in the order of a real server, then those
/// of custom resources by name.
pub(super) fn named_groups(kinds: &Kinds) -> Vec<Arc<str>> {
    let is_builtin = |group: &str| kinds.of_group(group).any(|it| it.origin == Origin::BuiltIn);
    let named = kinds.groups().filter(|group| !group.is_empty()).cloned();
    let (mut ordered, mut custom): (Vec<_>, Vec<_>) = named.partition(|group| is_builtin(group));
    custom.sort();
    ordered.append(&mut custom);
    ordered
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_kinds::builtin::builtin;

    use super::*;
    use crate::discovery::legacy::tests::custom_kind;

    #[test]
    fn custom_groups_come_last_and_by_name() {
        let mut kinds = builtin();
        kinds.insert(custom_kind("z.example.com", &["v1"]));
        kinds.insert(custom_kind("a.example.com", &["v1"]));
        let groups = named_groups(&kinds);
        assert_eq!(&*groups[0], "apiregistration.k8s.io");
        let last: Vec<&str> = groups.iter().rev().take(2).map(|group| &**group).collect();
        assert_eq!(last, ["z.example.com", "a.example.com"]);
    }
}
