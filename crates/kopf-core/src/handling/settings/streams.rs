//! Selectors of streams: objects that the server leaves out of listings and watches.

use crate::resource::Resource;
use crate::selector::Selector;

/// Restricts the objects of some resources on the side of the server.
///
/// Objects that are left out do not exist for the operator: they are neither indexed nor handled. Filters of
/// handlers never become such selectors by themselves.
///
/// ```
/// use kopf_core::selector::Selector;
/// use kopf_core::settings::{Settings, StreamSelector};
///
/// # fn main() -> Result<(), kopf_core::selector::Error> {
/// let mut settings = Settings::default();
/// let mut pods = StreamSelector::new(Selector::parse(&["pods"])?);
/// pods.labels = Some("app=web".to_owned());
/// settings.watching.selectors.push(pods);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamSelector {
    /// The resources.
    pub resources: Selector,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// A shard selector, for servers with `ShardedListAndWatch`; others ignore it.
    pub shard: Option<String>,
}

impl StreamSelector {
    /// Returns a selector that leaves nothing out.
    pub fn new(resources: Selector) -> Self {
        Self {
            resources,
            labels: None,
            fields: None,
            shard: None,
        }
    }
}

/// The selectors of one resource together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restriction {
    /// The label selectors, joined; empty if there are none.
    pub labels: String,
    /// The field selectors, joined; empty if there are none.
    pub fields: String,
    /// The first shard selector; empty if there is none.
    pub shard: String,
}

impl Restriction {
    /// Joins the selectors that apply to a resource: an object must match all of them.
    pub fn of(selectors: &[StreamSelector], resource: &Resource) -> Self {
        let mut joined = Self::default();
        let mut selectors = selectors.iter().filter(|one| one.resources.check(resource));
        for selector in &mut selectors {
            join(&mut joined.labels, selector.labels.as_deref());
            join(&mut joined.fields, selector.fields.as_deref());
            if joined.shard.is_empty() {
                joined.shard = selector.shard.clone().unwrap_or_default();
            }
        }
        joined
    }
}

fn join(all: &mut String, one: Option<&str>) {
    let Some(one) = one.filter(|one| !one.is_empty()) else {
        return;
    };
    if !all.is_empty() {
        all.push(',');
    }
    all.push_str(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(resource: &str) -> StreamSelector {
        StreamSelector::new(Selector::parse(&[resource]).unwrap())
    }

    #[test]
    fn selectors_of_one_resource_are_joined() {
        let pods = Resource {
            version: "v1".to_owned(),
            plural: "pods".to_owned(),
            preferred: true,
            ..Resource::default()
        };
        let mut one = selector("pods");
        one.labels = Some("a=b".to_owned());
        one.shard = Some("first".to_owned());
        let mut other = selector("pods");
        other.labels = Some("c".to_owned());
        other.fields = Some("status.phase!=Failed".to_owned());
        other.shard = Some("second".to_owned());
        let mut foreign = selector("jobs");
        foreign.labels = Some("never".to_owned());
        let joined = Restriction::of(&[one, foreign, other], &pods);
        assert_eq!(joined.labels, "a=b,c");
        assert_eq!(joined.fields, "status.phase!=Failed");
        assert_eq!(joined.shard, "first");
        assert_eq!(Restriction::of(&[], &pods), Restriction::default());
    }
}
