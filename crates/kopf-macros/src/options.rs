//! The options of the macros.

use std::fmt;

/// The attribute macros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Macro {
    Create,
    Update,
    Delete,
    Resume,
    Field,
    Reconcile,
    Event,
    Child,
    Validate,
    Mutate,
    Convert,
    Daemon,
    Timer,
    Index,
    Startup,
    Cleanup,
    Login,
    Probe,
}

impl Macro {
    /// The macros for objects.
    const ALL: [Self; 14] = [
        Self::Create,
        Self::Update,
        Self::Delete,
        Self::Resume,
        Self::Field,
        Self::Reconcile,
        Self::Event,
        Self::Child,
        Self::Validate,
        Self::Mutate,
        Self::Convert,
        Self::Daemon,
        Self::Timer,
        Self::Index,
    ];

    /// Returns `true` if the macro and its function are in `kopf::on`.
    pub(crate) fn is_in_on(self) -> bool {
        !matches!(self, Self::Daemon | Self::Timer | Self::Index)
    }

    /// Returns its name, which is also the name of its function.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Resume => "resume",
            Self::Field => "field",
            Self::Reconcile => "reconcile",
            Self::Event => "event",
            Self::Child => "child",
            Self::Validate => "validate",
            Self::Mutate => "mutate",
            Self::Convert => "convert",
            Self::Daemon => "daemon",
            Self::Timer => "timer",
            Self::Index => "index",
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
            Self::Login => "login",
            Self::Probe => "probe",
        }
    }

    /// Returns `true` for macros of activities, which have no object.
    pub(crate) fn is_activity(self) -> bool {
        matches!(
            self,
            Self::Startup | Self::Cleanup | Self::Login | Self::Probe
        )
    }

    /// Returns `true` for macros of admission handlers.
    fn is_admission(self) -> bool {
        matches!(self, Self::Validate | Self::Mutate)
    }

    /// Returns `true` for handlers without retries.
    fn is_called_once(self) -> bool {
        matches!(self, Self::Event | Self::Child) || self.is_admission()
    }

    /// Returns `true` for handlers of changes.
    fn is_change(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Update
                | Self::Delete
                | Self::Resume
                | Self::Field
                | Self::Reconcile
        )
    }

    /// Returns the function that converts the results.
    pub(crate) fn convert(self) -> &'static str {
        match self {
            Self::Login => "credentials",
            Self::Index => "entries",
            Self::Reconcile => "requeue",
            _ => "outcome",
        }
    }

    fn accepts(self, option: &str) -> bool {
        if self.is_activity() {
            return ACTIVITIES.contains(&option) || RETRYING.contains(&option);
        }
        if self == Self::Convert {
            return SELECTING.contains(&option)
                || ACTIVITIES.contains(&option)
                || CONVERTING.contains(&option)
                || option == "persistent";
        }
        if self == Self::Reconcile && FIELDS.contains(&option) {
            return false;
        }
        SELECTING.contains(&option)
            || COMMON.contains(&option)
            || (RECONCILING.contains(&option) && self == Self::Reconcile)
            || (RETRYING.contains(&option) && !self.is_called_once())
            || (ADMITTING.contains(&option) && self.is_admission())
            || (CHANGING.contains(&option) && matches!(self, Self::Update | Self::Field))
            || (option == "initial_delay" && matches!(self, Self::Daemon | Self::Timer))
            || (STOPPING.contains(&option) && self == Self::Daemon)
            || (TIMING.contains(&option) && self == Self::Timer)
            || (option == "optional" && self == Self::Delete)
            || (option == "deleted" && self == Self::Resume)
            || (option == "parent" && self == Self::Child)
            || (option == "owns" && self.is_change())
    }

    /// Returns all options of this macro, in the order of messages.
    fn accepted(self) -> impl Iterator<Item = &'static str> {
        all().filter(move |option| self.accepts(option))
    }

    /// Returns the error if this option is not accepted.
    pub(crate) fn rejection(self, option: &str) -> Option<String> {
        if self.accepts(option) {
            return None;
        }
        let owners: Vec<String> = Self::ALL
            .iter()
            .filter(|other| other.accepts(option))
            .map(|other| format!("`{other}`"))
            .collect();
        let why = if owners.is_empty() {
            let hint = self
                .accepted()
                .filter(|known| distance(option, known) <= 2)
                .min_by_key(|known| distance(option, known))
                .map(|known| format!(", did you mean `{known}`?"))
                .unwrap_or_default();
            format!("there is no option `{option}`{hint}")
        } else {
            format!(
                "`{option}` is an option of {}, not of `{self}`",
                owners.join(", ")
            )
        };
        let accepted: Vec<&str> = self.accepted().collect();
        Some(format!("{why}\n`{self}` accepts: {}", accepted.join(", ")))
    }
}

impl fmt::Display for Macro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_in_on() {
            f.write_str("on::")?;
        }
        f.write_str(self.name())
    }
}

/// Options that select resources, in addition to the positional arguments.
pub(crate) const SELECTING: &[&str] = &[
    "group", "version", "kind", "plural", "singular", "shortcut", "category",
];

const COMMON: &[&str] = &[
    "id",
    "param",
    "labels",
    "annotations",
    "when",
    "field",
    "value",
    "registry",
];

/// Options of activities, in addition to those of retries.
const ACTIVITIES: &[&str] = &["id", "param", "registry"];

const RETRYING: &[&str] = &["errors", "timeout", "retries", "backoff"];

/// Options by a field, which reconcile handlers do not have: they are for whole objects.
const FIELDS: &[&str] = &["field", "value"];

/// Options of reconcile handlers.
const RECONCILING: &[&str] = &["every", "finalizer"];

const CHANGING: &[&str] = &["old", "new"];

const SPECIAL: &[&str] = &["optional", "deleted", "initial_delay", "owns", "parent"];

/// Options of daemons for their cancellation.
const STOPPING: &[&str] = &[
    "cancellation_backoff",
    "cancellation_timeout",
    "cancellation_polling",
];

/// Options of timers for their schedule.
const TIMING: &[&str] = &["interval", "sharp", "idle"];

/// Options of admission handlers.
const ADMITTING: &[&str] = &[
    "operations",
    "operation",
    "subresource",
    "persistent",
    "side_effects",
    "ignore_failures",
];

/// Options of conversion handlers.
const CONVERTING: &[&str] = &["source", "target"];

/// Returns `true` if any macro has an option of this name.
pub(crate) fn is_option(name: &str) -> bool {
    all().any(|option| option == name)
}

fn all() -> impl Iterator<Item = &'static str> {
    [
        SELECTING,
        COMMON,
        RETRYING,
        CHANGING,
        SPECIAL,
        RECONCILING,
        STOPPING,
        TIMING,
        ADMITTING,
        CONVERTING,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Returns the edit distance of two words.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut next = vec![i + 1];
        for ((j, candidate), pair) in other.iter().enumerate().zip(row.windows(2)) {
            if let (&[diagonal, above], Some(&left)) = (pair, next.get(j)) {
                let replaced = diagonal + usize::from(letter != *candidate);
                next.push(replaced.min(above + 1).min(left + 1));
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_accepted_by_their_macros() {
        assert!(Macro::Create.accepts("labels"));
        assert!(Macro::Event.accepts("when"));
        assert!(!Macro::Event.accepts("retries"));
        assert!(!Macro::Create.accepts("old"));
        assert!(Macro::Update.accepts("old") && Macro::Field.accepts("new"));
        assert!(Macro::Delete.accepts("optional") && !Macro::Resume.accepts("optional"));
        assert!(Macro::Daemon.accepts("initial_delay") && Macro::Timer.accepts("retries"));
        assert!(Macro::Daemon.accepts("cancellation_timeout") && !Macro::Daemon.accepts("idle"));
        assert!(Macro::Timer.accepts("sharp") && !Macro::Timer.accepts("cancellation_backoff"));
        assert!(!Macro::Create.accepts("initial_delay") && !Macro::Timer.accepts("old"));
        assert!(Macro::Resume.accepts("deleted") && !Macro::Delete.accepts("deleted"));
        assert!(Macro::Validate.accepts("operations") && Macro::Mutate.accepts("subresource"));
        assert!(!Macro::Validate.accepts("retries") && !Macro::Create.accepts("persistent"));
        assert!(Macro::Create.accepts("owns") && !Macro::Event.accepts("owns"));
        assert!(Macro::Child.accepts("parent") && !Macro::Child.accepts("retries"));
        assert!(!Macro::Create.accepts("parent"));
        assert!(Macro::Reconcile.accepts("every") && Macro::Reconcile.accepts("owns"));
        assert!(!Macro::Reconcile.accepts("field") && !Macro::Reconcile.accepts("old"));
        assert!(Macro::Reconcile.accepts("when") && !Macro::Create.accepts("every"));
        assert!(Macro::Convert.accepts("source") && Macro::Convert.accepts("persistent"));
        assert!(!Macro::Convert.accepts("labels") && !Macro::Create.accepts("target"));
        assert!(Macro::Startup.accepts("id") && Macro::Probe.accepts("retries"));
        assert!(!Macro::Startup.accepts("labels") && !Macro::Login.accepts("group"));
    }

    #[test]
    fn errors_name_the_accepted_options() {
        assert_eq!(Macro::Create.rejection("labels"), None);
        let typo = Macro::Create.rejection("label").unwrap();
        assert!(typo.starts_with("there is no option `label`, did you mean `labels`?"));
        assert!(typo.contains("`on::create` accepts: group, version"));
        let misplaced = Macro::Create.rejection("old").unwrap();
        assert!(misplaced.starts_with("`old` is an option of `on::update`, `on::field`, not of"));
        let unknown = Macro::Create.rejection("something").unwrap();
        assert!(unknown.starts_with("there is no option `something`\n"));
    }

    #[test]
    fn distances_count_edited_letters() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("retrys", "retries"), 2);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
