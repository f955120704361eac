//! Ownership of managed webhook configurations: which of several operators writes them, and when.
//!
//! Several operators can manage configurations of the same name: during a rolling update, or when a
//! developer starts a second copy. All of them watch the objects. The owner is stored in an annotation
//! together with its start time, so that every operator makes the same decision.
//!
//! The replicas of one operator are a group. An owner of a group that exits keeps its webhooks and
//! marks itself as leaving. Another replica takes them over in one write, so that they are complete
//! at every moment. If none does, the owner removes them.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::timestamp;

/// Annotation with the owner of a webhook configuration.
pub const OWNER_ANNOTATION: &str = "kopf.dev/admission-owner";

/// An operator that owns webhook configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    identity: String,
    /// `None` if the annotation has no start time; such an owner is older than all others.
    started: Option<Timestamp>,
    /// The group of replicas; `None` for a single operator.
    group: Option<String>,
    /// `true` if the owner exits and offers the object to its group.
    leaving: bool,
}

impl Owner {
    /// Creates the owner for an operator. The start time is cut to microseconds.
    ///
    /// ```
    /// use kopf_core::admission::Owner;
    /// use kopf_core::timestamp;
    ///
    /// let owner = Owner::new("me@here", timestamp::parse("2026-01-02T03:04:05Z")?);
    /// let annotation = r#"{"identity":"me@here","started":"2026-01-02T03:04:05.000000+00:00"}"#;
    /// assert_eq!(owner.annotation(), annotation);
    /// assert_eq!(Owner::parse(annotation), owner);
    /// # Ok::<_, timestamp::Error>(())
    /// ```
    pub fn new(identity: impl Into<String>, started: Timestamp) -> Self {
        Self {
            identity: identity.into(),
            started: timestamp::parse(&timestamp::format(started)).ok(),
            group: None,
            leaving: false,
        }
    }

    /// Makes the owner a replica of this group.
    ///
    /// ```
    /// use kopf_core::admission::Owner;
    /// use kopf_core::timestamp;
    ///
    /// let owner = Owner::new("me", timestamp::parse("2026-01-02T03:04:05Z")?).in_group("ns/op");
    /// assert_eq!(owner.group(), Some("ns/op"));
    /// assert_eq!(Owner::parse(&owner.annotation()), owner);
    /// # Ok::<_, timestamp::Error>(())
    /// ```
    #[must_use]
    pub fn in_group(self, group: impl Into<String>) -> Self {
        Self {
            group: Some(group.into()),
            ..self
        }
    }

    /// Returns this owner in its last state: it exits, and offers the object to its group.
    #[must_use]
    pub fn leaving(&self) -> Self {
        Self {
            leaving: true,
            ..self.clone()
        }
    }

    /// Parses the annotation. Anything but the expected JSON is an identity without a start time, as
    /// written by earlier versions.
    pub fn parse(annotation: &str) -> Self {
        let parsed: Value = serde_json::from_str(annotation).unwrap_or_default();
        let field = |key: &str| parsed.get(key).and_then(Value::as_str);
        Self {
            identity: field("identity").unwrap_or(annotation).to_owned(),
            started: field("started").and_then(|started| timestamp::parse(started).ok()),
            group: field("group").map(str::to_owned),
            leaving: parsed.get("leaving") == Some(&Value::Bool(true)),
        }
    }

    /// Returns the value of the annotation.
    pub fn annotation(&self) -> String {
        let started = self.started.map(timestamp::format);
        let mut annotation = json!({"identity": self.identity, "started": started});
        if let Some(group) = &self.group {
            annotation["group"] = json!(group);
        }
        if self.leaving {
            annotation["leaving"] = json!(true);
        }
        annotation.to_string()
    }

    /// Returns the identity, which is that of the operator among its peers.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the group of replicas; `None` for a single operator.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Returns `true` if both are the same operator process, leaving or not.
    fn is(&self, other: &Self) -> bool {
        self.started == other.started && self.identity == other.identity
    }

    /// Returns `true` if this owner exits and offers the object to the group of the other one.
    fn is_offering_to(&self, other: &Self) -> bool {
        self.leaving && self.group.is_some() && self.group == other.group
    }

    /// Returns `true` if this operator has started before the other one. Ties are broken by the
    /// identities, so that two operators never come to the same conclusion about each other.
    fn is_older_than(&self, other: &Self) -> bool {
        (self.started, &self.identity) < (other.started, &other.identity)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity)?;
        match self.started {
            Some(started) => write!(f, ", started at {}", timestamp::format(started)),
            None => Ok(()),
        }
    }
}

/// State of an operator in its peering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The operator handles objects.
    Working,
    /// The operator is paused in favour of a peer.
    Paused,
}

/// Relation of an operator to the owner in the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The owner is, or was, in the same peering. If this operator works, the owner is paused or dead.
    Peer,
    /// The owner is a replica of the same operator that has ended without a handover.
    Gone,
    /// Nothing is known about the owner.
    Stranger,
}

/// Content of a configuration object, compared with the last own write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The object does not exist.
    Absent,
    /// The object exists, and this operator has not written the current content yet.
    Outdated,
    /// The object has the content that this operator has written.
    Intact,
    /// The object has other content than this operator has written.
    Edited,
}

/// Observed state of a configuration object.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Content of the object.
    pub content: Content,
    /// Owner in the annotation, if there is one.
    pub owner: Option<&'a Owner>,
    /// Relation to that owner.
    pub relation: Relation,
    /// State of this operator.
    pub activity: Activity,
}

/// Decision about a configuration object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The object is as it should be.
    Keep,
    /// The object belongs to another operator, or this one is paused.
    Yield,
    /// The object is to be written.
    Write(Reason),
}

/// Reason to write a configuration object.
#[doc(hidden)] // For logs of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The operator has new content: it has started, or handlers' resources or the server's address
    /// have changed.
    Outdated,
    /// The object was removed.
    Removed,
    /// The webhooks were edited.
    Edited,
    /// The owner has exited and removed its annotation.
    Abandoned,
    /// The owner is a replica of the same operator, and exits.
    HandedOver,
    /// The owner is older than this operator, or is a peer that is paused or dead.
    Superseded,
}

impl Reason {
    /// Returns `true` if the write undoes a change by another client. Such writes are delayed by
    /// [`Restorations`](super::Restorations).
    pub fn is_restoration(self) -> bool {
        !matches!(self, Self::Outdated | Self::HandedOver)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outdated => "its content is outdated",
            Self::Removed => "it was removed",
            Self::Edited => "it was edited",
            Self::Abandoned => "its owner has exited",
            Self::HandedOver => "its owner exits",
            Self::Superseded => "its owner is older, paused or dead",
        })
    }
}

/// Decides what an operator does with a configuration object.
///
/// An operator owns the object if it works and the annotation is absent, names an older operator, or
/// names a peer or a dead replica of the same operator. The owner maintains its own content even while it is paused, since its server still
/// responds to reviews. For the same reason, replicas take over from a leaving or dead owner of their
/// group even while they are paused.
pub fn decide(me: &Owner, situation: Situation<'_>) -> Decision {
    let is_working = situation.activity == Activity::Working;
    if situation.content == Content::Absent {
        return if is_working {
            Decision::Write(Reason::Removed)
        } else {
            Decision::Yield
        };
    }
    let reason = match situation.owner {
        Some(owner) if owner.is(me) => Reason::Edited,
        Some(owner) if owner.is_offering_to(me) => Reason::HandedOver,
        // Its webhooks do not respond.
        Some(_) if situation.relation == Relation::Gone => Reason::Abandoned,
        _ if !is_working => return Decision::Yield,
        None => Reason::Abandoned,
        Some(owner) if situation.relation == Relation::Peer || owner.is_older_than(me) => {
            Reason::Superseded
        }
        Some(_) => return Decision::Yield,
    };
    match situation.content {
        Content::Intact if reason == Reason::Edited => Decision::Keep,
        Content::Outdated => Decision::Write(Reason::Outdated),
        _ => Decision::Write(reason),
    }
}

/// Returns `true` if an exiting operator removes its webhooks: unless another operator owns them.
pub fn releases(me: &Owner, owner: Option<&Owner>) -> bool {
    owner.is_none_or(|owner| owner.is(me))
}

/// Returns `true` if an exiting operator offers its webhooks to others before it removes them: if it
/// is a replica, and its exit would remove any.
pub fn hands_over(me: &Owner, removes_webhooks: bool) -> bool {
    me.group.is_some() && removes_webhooks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(identity: &str, second: u8) -> Owner {
        let started = format!("2026-01-02T03:04:{second:02}Z");
        Owner::new(identity, timestamp::parse(&started).unwrap())
    }

    fn situation(content: Content, owner: Option<&Owner>) -> Situation<'_> {
        Situation {
            content,
            owner,
            relation: Relation::Stranger,
            activity: Activity::Working,
        }
    }

    #[test]
    fn annotations_of_any_form_are_parsed() {
        let me = owner("me", 5);
        assert_eq!(Owner::parse(&me.annotation()), me);
        for text in ["", "user@host/2026/abc", "{}", "[1]", "{\"identity\": 5}"] {
            let parsed = Owner::parse(text);
            assert_eq!(parsed.identity(), text);
            assert!(parsed.is_older_than(&me), "{text:?}");
        }
        let precise = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
        let me = Owner::new("me", precise);
        assert_eq!(Owner::parse(&me.annotation()), me);
    }

    #[test]
    fn newest_start_owns() {
        let (old, new) = (owner("old", 1), owner("new", 2));
        for content in [Content::Intact, Content::Edited] {
            let taken = decide(&new, situation(content, Some(&old)));
            assert_eq!(taken, Decision::Write(Reason::Superseded));
            let left = decide(&old, situation(content, Some(&new)));
            assert_eq!(left, Decision::Yield);
        }
        assert_eq!(
            decide(&old, situation(Content::Outdated, Some(&new))),
            Decision::Yield
        );
        assert_eq!(
            decide(&new, situation(Content::Outdated, Some(&old))),
            Decision::Write(Reason::Outdated)
        );
    }

    #[test]
    fn simultaneous_starts_have_one_owner() {
        let (one, two) = (owner("one", 1), owner("two", 1));
        let decisions = [
            decide(&one, situation(Content::Edited, Some(&two))),
            decide(&two, situation(Content::Edited, Some(&one))),
        ];
        assert_eq!(
            decisions,
            [Decision::Yield, Decision::Write(Reason::Superseded)]
        );
    }

    #[test]
    fn own_content_is_restored() {
        let me = owner("me", 1);
        for (content, owner, expected) in [
            (Content::Intact, Some(&me), Decision::Keep),
            (Content::Edited, Some(&me), Decision::Write(Reason::Edited)),
            (
                Content::Outdated,
                Some(&me),
                Decision::Write(Reason::Outdated),
            ),
            (Content::Absent, None, Decision::Write(Reason::Removed)),
            (Content::Intact, None, Decision::Write(Reason::Abandoned)),
            (Content::Edited, None, Decision::Write(Reason::Abandoned)),
        ] {
            assert_eq!(decide(&me, situation(content, owner)), expected);
        }
    }

    #[test]
    fn working_operators_replace_their_peers() {
        let (old, new) = (owner("old", 1), owner("new", 2));
        let mut situation = situation(Content::Edited, Some(&new));
        situation.relation = Relation::Peer;
        assert_eq!(decide(&old, situation), Decision::Write(Reason::Superseded));
        situation.activity = Activity::Paused;
        assert_eq!(decide(&old, situation), Decision::Yield);
    }

    #[test]
    fn paused_operators_maintain_only_their_own_content() {
        let (old, me) = (owner("old", 1), owner("me", 2));
        for (content, owner, expected) in [
            (Content::Absent, None, Decision::Yield),
            (Content::Edited, None, Decision::Yield),
            (Content::Edited, Some(&old), Decision::Yield),
            (Content::Edited, Some(&me), Decision::Write(Reason::Edited)),
            (
                Content::Outdated,
                Some(&me),
                Decision::Write(Reason::Outdated),
            ),
        ] {
            let mut situation = situation(content, owner);
            situation.activity = Activity::Paused;
            assert_eq!(decide(&me, situation), expected, "{content:?} {owner:?}");
        }
    }

    #[test]
    fn webhooks_of_others_are_not_released() {
        let (me, other) = (owner("me", 1), owner("other", 2));
        assert!(releases(&me, None) && releases(&me, Some(&me)));
        assert!(!releases(&me, Some(&other)));
        // The same name after a restart is another operator.
        assert!(!releases(&me, Some(&owner("me", 2))));
    }

    #[test]
    fn killed_replicas_are_replaced_by_older_ones() {
        let (old, new) = (owner("old", 1).in_group("g"), owner("new", 2).in_group("g"));
        for activity in [Activity::Working, Activity::Paused] {
            let mut situation = situation(Content::Edited, Some(&new));
            situation.activity = activity;
            assert_eq!(decide(&old, situation), Decision::Yield);
            situation.relation = Relation::Gone;
            assert_eq!(decide(&old, situation), Decision::Write(Reason::Abandoned));
        }
    }

    #[test]
    fn leaving_replicas_are_followed_by_their_group_only() {
        let leaving = owner("new", 2).in_group("g").leaving();
        let follower = owner("old", 1).in_group("g");
        for activity in [Activity::Working, Activity::Paused] {
            let mut situation = situation(Content::Edited, Some(&leaving));
            situation.activity = activity;
            let decision = decide(&follower, situation);
            assert_eq!(decision, Decision::Write(Reason::HandedOver));
        }
        assert!(!Reason::HandedOver.is_restoration(), "it is not delayed");
        for other in [owner("old", 1), owner("old", 1).in_group("h")] {
            let decision = decide(&other, situation(Content::Edited, Some(&leaving)));
            assert_eq!(decision, Decision::Yield);
        }
        let single = owner("new", 2).leaving();
        let decision = decide(&owner("old", 1), situation(Content::Edited, Some(&single)));
        assert_eq!(decision, Decision::Yield, "it has no group");
    }

    #[test]
    fn leaving_owners_remove_their_webhooks_unless_others_have_taken_them() {
        let me = owner("me", 2).in_group("g");
        assert!(hands_over(&me, true));
        assert!(!hands_over(&me, false), "persistent webhooks stay anyway");
        assert!(!hands_over(&owner("me", 2), true), "it has no replicas");
        let annotated = Owner::parse(&me.leaving().annotation());
        assert_eq!(annotated, me.leaving());
        assert!(releases(&me, Some(&annotated)));
        assert!(!releases(&me, Some(&owner("other", 1).in_group("g"))));
    }

    /// Any number of strangers, in any order of events, end with the newest as the owner.
    #[test]
    fn operators_converge_without_a_fight() {
        let operators = [owner("a", 3), owner("b", 1), owner("c", 2)];
        for first in 0..operators.len() {
            let mut current: Option<&Owner> = None;
            let mut writes = 0;
            for turn in first..first + 9 {
                let me = &operators[turn % operators.len()];
                let content = match current {
                    Some(owner) if owner == me => Content::Intact,
                    _ => Content::Edited,
                };
                if let Decision::Write(_) = decide(me, situation(content, current)) {
                    current = Some(me);
                    writes += 1;
                }
            }
            assert_eq!(current, Some(&operators[0]));
            assert!(writes <= operators.len(), "{writes}");
        }
    }
}
