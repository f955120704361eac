//! The objects that the handled object owns.

use std::ops::Deref;

use serde_json::Value;

use super::{Child, Context, Extract, Rejection};

/// The existing objects that the handled object owns, of the kinds that some handler of the operator
/// declares with `owns` or [`on::child`](crate::on::child()). It is a list of [`Child`].
///
/// They are read from the memory of the operator, which watches these kinds anyway: no request is
/// sent, and the list can be a moment behind the server. Children of other kinds are never in it.
///
/// ```
/// use kopf::Children;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples", owns = ["pods"])]
/// fn wait(children: Children) -> kopf::Result<()> {
///     let is_running = |pod: &&kopf::Child| pod.status()["phase"] == "Running";
///     if children.of("Pod").filter(is_running).count() < 3 {
///         return Err(kopf::temporary("not all pods are running").delay(600));
///     }
///     Ok(())
/// }
///
/// let children = Children::of_objects([json!({"kind": "Pod", "status": {"phase": "Running"}})]);
/// assert_eq!(children.of("Pod").count(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct Children(Vec<Child>);

impl Children {
    /// Returns children with these bodies, for unit tests of handlers.
    pub fn of_objects(objects: impl IntoIterator<Item = Value>) -> Self {
        Self(objects.into_iter().map(Child::of).collect())
    }

    /// Returns the children of one kind, such as `Pod`.
    pub fn of(&self, kind: &str) -> impl Iterator<Item = &Child> {
        let is_meant =
            move |child: &&Child| child.resource().kind == kind || child.get("kind") == kind;
        self.0.iter().filter(is_meant)
    }
}

impl Deref for Children {
    type Target = [Child];

    fn deref(&self) -> &[Child] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Children {
    type Item = &'a Child;
    type IntoIter = std::slice::Iter<'a, Child>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Extract for Children {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        let children = context.call("Children")?.children().into_iter();
        Ok(Self(children.map(Child::from_owned).collect()))
    }
}
