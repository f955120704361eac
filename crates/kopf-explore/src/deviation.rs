//! Deviations: single things that go wrong in a run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::point::Point;
use crate::scenario::Variation;

/// The families of deviations, as in `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Family {
    /// The process is killed when a write arrives.
    CrashBefore,
    /// The process is killed after a write is committed, before the response.
    CrashAfter,
    /// A write is committed, and the connection breaks.
    LostResponse,
    /// A request is rejected.
    Reject,
    /// Another client changes the object between the operator's read and write.
    Interfere,
    /// The operator restarts and reads from a server that lags behind.
    Stale,
    /// Intermediate states of objects are not observed.
    Gap,
    /// Events of one kind arrive after those of others.
    Reorder,
    /// Watches end, and old versions are gone.
    Expire,
    /// A second copy of the operator runs for a while.
    Overlap,
    /// The process is asked to exit.
    Term,
    /// Each request takes seconds.
    Slow,
    /// The specification varies and is reverted.
    Respec,
    /// The leader is frozen for longer than its lease.
    Freeze,
    /// The lease of the leader is deleted, or taken by another client.
    Lease,
}

impl Family {
    /// All families, those that find most first.
    pub const ALL: [Self; 15] = [
        Self::CrashAfter,
        Self::CrashBefore,
        Self::LostResponse,
        Self::Stale,
        Self::Gap,
        Self::Interfere,
        Self::Respec,
        Self::Reject,
        Self::Expire,
        Self::Reorder,
        Self::Term,
        Self::Overlap,
        Self::Slow,
        Self::Freeze,
        Self::Lease,
    ];

    /// Returns the name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::LostResponse => "lost-response",
            Self::Reject => "reject",
            Self::Interfere => "interfere",
            Self::Stale => "stale",
            Self::Gap => "gap",
            Self::Reorder => "reorder",
            Self::Expire => "expire",
            Self::Overlap => "overlap",
            Self::Term => "term",
            Self::Slow => "slow",
            Self::Respec => "respec",
            Self::Freeze => "freeze",
            Self::Lease => "lease",
        }
    }

    /// Returns `true` if the API itself fails: an operator may exit then, to be restarted.
    pub fn excuses_exits(self) -> bool {
        matches!(
            self,
            Self::Reject
                | Self::Slow
                | Self::LostResponse
                | Self::Term
                | Self::Freeze
                | Self::Lease
        )
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of a deviation is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown deviation {0:?}: must be one of crash (crash-before and crash-after), {list}", list = names())]
pub struct UnknownFamily(String);

fn names() -> String {
    Family::ALL.map(Family::name).join(", ")
}

/// A selection of families: one name, or `crash` for both kinds of crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected(pub Vec<Family>);

impl FromStr for Selected {
    type Err = UnknownFamily;

    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        if text == "crash" {
            return Ok(Self(vec![Family::CrashBefore, Family::CrashAfter]));
        }
        let found = Family::ALL.into_iter().find(|family| family.name() == text);
        let found = found.ok_or_else(|| UnknownFamily(text.to_owned()))?;
        Ok(Self(vec![found]))
    }
}

/// The change of another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Interference {
    /// A label is added to the object.
    Label,
    /// A field of the specification is changed, and changed back after a while.
    Spec,
    /// A field of the status is changed, and changed back after a while.
    Status,
    /// The object is deleted.
    Delete,
    /// The object is deleted and created again.
    Recreate,
    /// The next step of the scenario is done now.
    NextStep,
}

/// One thing that goes wrong.
///
/// ```
/// use kopf_explore::deviation::{Deviation, Family};
///
/// let overlap = Deviation::Overlap { step: 2 };
/// assert_eq!(overlap.family(), Family::Overlap);
/// assert_eq!(overlap.to_string(), "a second copy of the operator runs during step 2");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "deviation", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Deviation {
    /// The process is killed when the write arrives, and started again.
    CrashBefore {
        /// The write.
        point: Point,
    },
    /// The process is killed after the write is committed, and started again.
    CrashAfter {
        /// The write.
        point: Point,
    },
    /// The write is committed, and the connection breaks.
    LostResponse {
        /// The write.
        point: Point,
    },
    /// The request is rejected.
    Reject {
        /// The first rejected request.
        point: Point,
        /// The HTTP status.
        code: u16,
        /// The number of rejections.
        times: usize,
    },
    /// The request is not answered for a while, and then the connection breaks.
    Hang {
        /// The request.
        point: Point,
        /// The time without an answer in milliseconds.
        millis: u64,
    },
    /// Another client changes the object between the operator's read and write.
    Interfere {
        /// The write.
        point: Point,
        /// The change.
        change: Interference,
    },
    /// After the step, the operator restarts and reads from a server that shows an earlier state, until
    /// it has nothing more to do; then the server catches up.
    Stale {
        /// The step.
        step: usize,
        /// The first write that is not visible; without it, nothing of the step is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<Point>,
    },
    /// Events of a resource are withheld during the step and the next one; then the operator
    /// receives the last states.
    Gap {
        /// The first step.
        step: usize,
        /// The resource.
        resource: String,
        /// `true` if the object is deleted and created again in the step, which is the only one then.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recreate: bool,
    },
    /// Events of a resource are delivered after all others of the step.
    Reorder {
        /// The step.
        step: usize,
        /// The resource.
        resource: String,
    },
    /// All watches end before the step, and continue after it, when their versions are gone.
    Expire {
        /// The step.
        step: usize,
    },
    /// A second copy of the operator runs during the step.
    Overlap {
        /// The step.
        step: usize,
    },
    /// The process is asked to exit when the write arrives, and started again.
    Term {
        /// The write.
        point: Point,
    },
    /// Each request of the step is delayed.
    Slow {
        /// The step.
        step: usize,
        /// The delay of each request in milliseconds.
        millis: u64,
    },
    /// The specification varies and is reverted.
    Respec {
        /// The changed field.
        variation: Variation,
    },
    /// The leader is frozen during the step (SIGSTOP), until another process has taken its lease; then it
    /// continues.
    Freeze {
        /// The step.
        step: usize,
    },
    /// The leader loses its lease before the step.
    Lease {
        /// The step.
        step: usize,
        /// `true` if another client takes it; otherwise, it is deleted.
        is_taken: bool,
    },
}

impl Deviation {
    /// Returns the family.
    pub fn family(&self) -> Family {
        match self {
            Self::CrashBefore { .. } => Family::CrashBefore,
            Self::CrashAfter { .. } => Family::CrashAfter,
            Self::LostResponse { .. } => Family::LostResponse,
            Self::Reject { .. } | Self::Hang { .. } => Family::Reject,
            Self::Interfere { .. } => Family::Interfere,
            Self::Stale { .. } => Family::Stale,
            Self::Gap { .. } => Family::Gap,
            Self::Reorder { .. } => Family::Reorder,
            Self::Expire { .. } => Family::Expire,
            Self::Overlap { .. } => Family::Overlap,
            Self::Term { .. } => Family::Term,
            Self::Slow { .. } => Family::Slow,
            Self::Respec { .. } => Family::Respec,
            Self::Freeze { .. } => Family::Freeze,
            Self::Lease { .. } => Family::Lease,
        }
    }

    /// Returns the point, for deviations at one request.
    pub fn point(&self) -> Option<&Point> {
        match self {
            Self::CrashBefore { point }
            | Self::CrashAfter { point }
            | Self::LostResponse { point }
            | Self::Reject { point, .. }
            | Self::Hang { point, .. }
            | Self::Interfere { point, .. }
            | Self::Term { point } => Some(point),
            Self::Stale { point, .. } => point.as_ref(),
            Self::Gap { .. }
            | Self::Reorder { .. }
            | Self::Expire { .. }
            | Self::Overlap { .. }
            | Self::Slow { .. }
            | Self::Freeze { .. }
            | Self::Lease { .. }
            | Self::Respec { .. } => None,
        }
    }

    /// Returns the step in which the deviation happens; 0 before the first one.
    pub fn step(&self) -> usize {
        match self {
            Self::Gap { step, .. }
            | Self::Reorder { step, .. }
            | Self::Expire { step }
            | Self::Overlap { step }
            | Self::Freeze { step }
            | Self::Lease { step, .. }
            | Self::Stale { step, .. }
            | Self::Slow { step, .. } => *step,
            Self::Respec { .. } => 1,
            other => other.point().map_or(0, |point| point.step),
        }
    }

    /// Returns the same deviation in a scenario in which a step is dropped: `None` if it is the step of
    /// the deviation.
    #[must_use]
    pub fn without_step(&self, dropped: usize) -> Option<Self> {
        let mut moved = self.clone();
        let step = match &mut moved {
            Self::Gap { step, .. }
            | Self::Reorder { step, .. }
            | Self::Expire { step }
            | Self::Overlap { step }
            | Self::Freeze { step }
            | Self::Lease { step, .. }
            | Self::Slow { step, .. } => step,
            Self::CrashBefore { point }
            | Self::CrashAfter { point }
            | Self::LostResponse { point }
            | Self::Reject { point, .. }
            | Self::Hang { point, .. }
            | Self::Interfere { point, .. }
            | Self::Term { point } => &mut point.step,
            Self::Stale { step, point } => {
                if let Some(point) = point {
                    point.step = step.saturating_sub(usize::from(*step > dropped));
                }
                step
            }
            Self::Respec { .. } => return None,
        };
        if *step == dropped {
            return None;
        }
        if *step > dropped {
            *step -= 1;
        }
        Some(moved)
    }

    /// Returns `true` if objects of the user go through other states than in the reference, so that their
    /// status may tell of these.
    pub fn changes_history(&self) -> bool {
        match self {
            Self::Interfere { change, .. } => matches!(
                change,
                Interference::Spec | Interference::Status | Interference::Recreate
            ),
            Self::Gap { recreate, .. } => *recreate,
            _ => false,
        }
    }

    /// Returns the delay of each request.
    pub fn delay(&self) -> Duration {
        match self {
            Self::Slow { millis, .. } | Self::Hang { millis, .. } => Duration::from_millis(*millis),
            _ => Duration::ZERO,
        }
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBefore { point } => {
                write!(f, "the operator is killed before {point} is carried out")
            }
            Self::CrashAfter { point } => {
                write!(f, "the operator is killed after {point} is carried out")
            }
            Self::LostResponse { point } => {
                write!(f, "{point} is carried out, but its response is lost")
            }
            Self::Reject { point, code, times } => {
                write!(f, "{point} is rejected with {code}")?;
                match times {
                    1 => Ok(()),
                    times => write!(f, " {times} times"),
                }
            }
            Self::Interfere { point, change } => {
                let what = match change {
                    Interference::Label => "another client labels the object",
                    Interference::Spec => "another client changes the object for a while",
                    Interference::Status => "another client changes the status for a while",
                    Interference::Recreate => "another client deletes and recreates the object",
                    Interference::Delete => "another client deletes the object",
                    Interference::NextStep => "the user does the next step",
                };
                write!(f, "{what} just before {point}")
            }
            Self::Hang { point, millis } => {
                write!(
                    f,
                    "{point} is not answered for {millis} ms, and then the connection breaks"
                )
            }
            other => other.describe_step(f),
        }
    }
}

impl Deviation {
    /// Describes what happens during a step, and not at one request.
    fn describe_step(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { step, point } => {
                write!(
                    f,
                    "the operator restarts after step {step} on a server that lags: it shows the state before "
                )?;
                match point {
                    Some(point) => write!(f, "{point}"),
                    None => f.write_str("that step"),
                }
            }
            Self::Gap {
                step,
                resource,
                recreate: true,
            } => write!(
                f,
                "an object is deleted and created again in step {step}, events of {resource} are withheld, and only the \
                 last states are delivered"
            ),
            Self::Gap { step, resource, .. } => write!(
                f,
                "events of {resource} are withheld in steps {step} and {}, and only the last states are delivered",
                step + 1
            ),
            Self::Reorder { step, resource } => write!(
                f,
                "events of {resource} arrive after all other events of step {step}"
            ),
            Self::Expire { step } => write!(
                f,
                "the watches are interrupted during step {step}, and then their versions have expired (410)"
            ),
            Self::Overlap { step } => {
                write!(f, "a second copy of the operator runs during step {step}")
            }
            Self::Term { point } => write!(f, "the operator gets SIGTERM before {point}"),
            Self::Slow { step, millis } => {
                write!(f, "each request takes {millis} ms in step {step}")
            }
            Self::Respec { variation } => write!(f, "{variation}, and then reverted"),
            Self::Freeze { step } => write!(
                f,
                "the leader is frozen in step {step} until another process has its lease, and then continues"
            ),
            Self::Lease { step, is_taken } => {
                let how = if *is_taken {
                    "taken by another client"
                } else {
                    "deleted"
                };
                write!(f, "the lease of the leader is {how} before step {step}")
            }
            // Those at one request.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectKey;
    use crate::point::Site;

    #[test]
    fn names_select_families() {
        assert_eq!(
            "crash".parse::<Selected>().unwrap().0,
            [Family::CrashBefore, Family::CrashAfter]
        );
        for family in Family::ALL {
            assert_eq!(family.name().parse::<Selected>().unwrap().0, [family]);
        }
        assert!("crush".parse::<Selected>().is_err());
    }

    #[test]
    fn deviations_survive_serialisation() {
        let deviation = Deviation::Reject {
            point: Point {
                step: 2,
                site: Site {
                    verb: "create".to_owned(),
                    object: ObjectKey::new("", "pods", Some("default"), "a-*"),
                    subresource: None,
                },
                occurrence: 1,
            },
            code: 500,
            times: 3,
        };
        let text = serde_saphyr::to_string(&deviation).unwrap();
        let read: Deviation = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, deviation, "{text}");
        assert_eq!(deviation.without_step(1).unwrap().step(), 1);
        assert_eq!(deviation.without_step(2), None);
    }
}
