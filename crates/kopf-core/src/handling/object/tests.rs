//! Rules of the machine, one by one. All of them together are checked by `tests/model`.

use std::time::Duration;

use super::*;
use crate::cause::{EventType, Reason};

const FINGERPRINT: Fingerprint = Fingerprint {
    target: 7,
    progress: 7,
};

/// A machine with its clock.
struct Subject {
    machine: Machine,
    rules: StandardRules,
    now: Moment,
}

impl Subject {
    fn new() -> Self {
        Self {
            machine: Machine::default(),
            rules: StandardRules {
                echo_timeout: Duration::from_secs(5),
                error_delays: [1, 2, 4].map(Duration::from_secs).to_vec(),
                touching: false,
            },
            now: Moment::new(Duration::from_secs(1000)),
        }
    }

    /// Returns a machine whose patch could not be sent.
    fn with_unsent() -> Self {
        let mut subject = Self::new();
        subject.begin(EventType::Modified, "1");
        subject.plan(facts());
        let finished = subject.step(Input::HandlersFinished(handled()));
        assert_eq!(finished, [Action::Write(None)]);
        subject.step(Input::WriteFailed { rejected: false });
        assert!(subject.machine.has_unsent());
        subject
    }

    fn step(&mut self, input: Input) -> Actions {
        self.machine.step(input, &self.rules, self.now)
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
    }

    /// Passes the time until the deadline, and feeds it.
    fn reach_deadline(&mut self) -> Actions {
        self.now = self.machine.deadline().expect("a deadline");
        self.step(Input::Deadline)
    }

    /// Feeds a version and begins a cycle on it.
    fn begin(&mut self, event: EventType, version: &str) -> Actions {
        let mut actions = self.event(event, version);
        let snapshot = Snapshot::default();
        actions.extend(self.step(Input::Newest { event, snapshot }));
        actions
    }

    fn event(&mut self, event: EventType, version: &str) -> Actions {
        let version = Some(version.into());
        self.step(Input::Event { event, version })
    }

    fn plan(&mut self, facts: Facts) -> Actions {
        assert_eq!(*self.machine.state(), State::Planning);
        self.step(Input::Planned(facts))
    }

    /// Feeds the response to a write that has made this version.
    fn write(&mut self, version: &str) -> Actions {
        self.step(Input::Written(Response {
            awaited: Some(Awaited::Version(version.into())),
            effect: Effect::Changed,
            stamp: None,
        }))
    }
}

/// Returns the facts of an update.
fn facts() -> Facts {
    Facts {
        event: EventType::Modified,
        deleting: false,
        finalizer: Finalizer::Absent,
        reason: Some(Reason::Update),
        exiting: None,
        reconciling: None,
        outdated: false,
        patch: PendingPatch::Empty,
        fingerprint: FINGERPRINT,
        uncertain: false,
    }
}

/// Returns the result of handlers that were all called and have finished.
fn handled() -> Handled {
    Handled {
        due: None,
        attempted: true,
        patch: PendingPatch::Some,
        failed: false,
    }
}

#[test]
fn only_cycles_that_called_handlers_count_as_stalls() {
    for (attempted, is_stalled) in [(false, false), (true, true)] {
        let mut subject = Subject::new();
        subject.begin(EventType::Modified, "1");
        assert_eq!(subject.plan(facts()), [Action::Run(Reason::Update)]);
        let patch = PendingPatch::Empty;
        subject.step(Input::HandlersFinished(Handled {
            attempted,
            patch,
            ..handled()
        }));
        subject.begin(EventType::Modified, "2");
        let actions = subject.plan(facts());
        let is_run = actions == [Action::Run(Reason::Update)];
        assert_eq!(is_run, !is_stalled, "{actions:?}");
    }
}

#[test]
fn other_targets_in_between_are_no_stall() {
    let towards = |target, progress| Facts {
        fingerprint: Fingerprint { target, progress },
        ..facts()
    };
    // Another client changes the object back and forth while it is handled.
    let (there, back) = (towards(1, 1), towards(2, 2));
    for (between, is_stalled) in [(Some(back), false), (None, true)] {
        let mut subject = Subject::new();
        for (version, facts) in [Some(there), between].into_iter().flatten().enumerate() {
            subject.begin(EventType::Modified, &version.to_string());
            assert_eq!(subject.plan(facts), [Action::Run(Reason::Update)]);
            let patch = PendingPatch::Empty;
            subject.step(Input::HandlersFinished(Handled { patch, ..handled() }));
        }
        subject.begin(EventType::Modified, "9");
        let actions = subject.plan(there);
        let is_run = actions == [Action::Run(Reason::Update)];
        assert_eq!(is_run, !is_stalled, "{actions:?}");
    }
}

/// Returns the facts of a deletion.
fn deletion() -> Facts {
    Facts {
        deleting: true,
        finalizer: Finalizer::Kept,
        reason: Some(Reason::Delete),
        ..facts()
    }
}

/// Returns a machine that is removing the finalizer from an object whose deletion is handled.
fn releasing() -> (Subject, Facts) {
    let mut subject = Subject::new();
    subject.begin(EventType::Modified, "1");
    subject.plan(deletion());
    let actions = subject.step(Input::HandlersFinished(handled()));
    let release = Action::Write(Some(FinalizerChange::Release));
    assert_eq!(actions.last(), Some(&release));
    let released = Facts {
        finalizer: Finalizer::Released,
        reason: None,
        fingerprint: Fingerprint::default(),
        ..deletion()
    };
    (subject, released)
}

#[test]
fn conflicting_release_is_repeated_without_handlers() {
    let (mut subject, released) = releasing();
    assert_eq!(subject.step(Input::Conflicted(None)), []);
    subject.begin(EventType::Modified, "2");
    let release = [
        Action::Log(Message::RemovingFinalizer),
        Action::Write(Some(FinalizerChange::Release)),
    ];
    assert_eq!(subject.plan(released), release);
}

#[test]
fn refused_release_is_recorded() {
    let (mut subject, released) = releasing();
    let delay = Some(Duration::from_secs(1));
    let actions = subject.step(Input::WriteFailed { rejected: true });
    assert_eq!(actions, [Action::Record, Action::ReportFailure(delay)]);
    // The object changes, so that the rejected patch is decided on again.
    let changed = Snapshot {
        generation: Some(2),
        ..Snapshot::default()
    };
    let event = EventType::Modified;
    let snapshot = changed;
    let actions = subject.step(Input::Newest { event, snapshot });
    assert_eq!(actions[0], Action::DropUnsent);
    let actions = subject.plan(released);
    let release = Action::Write(Some(FinalizerChange::Release));
    assert_eq!(actions.last(), Some(&release), "it is not reverted");
}

#[test]
fn reverted_release_is_repeated_after_a_delay_without_handlers() {
    let (mut subject, released) = releasing();
    subject.write("2");
    subject.begin(EventType::Modified, "3");
    let delay = Duration::from_secs(1);
    let actions = subject.plan(released);
    let expected = [Message::FinalizerReverted(delay), Message::Sleeping(delay)];
    assert_eq!(actions, expected.map(Action::Log));
    subject.reach_deadline();
    let actions = subject.plan(released);
    let release = Action::Write(Some(FinalizerChange::Release));
    assert_eq!(actions.last(), Some(&release));
}

#[test]
fn deleted_objects_are_forgotten_if_their_filters_fail() {
    let forgotten = [Action::ReportFailure(None), Action::Forget];
    let mut subject = Subject::new();
    subject.begin(EventType::Deleted, "1");
    assert_eq!(subject.step(Input::Failed), forgotten);
    assert_eq!(*subject.machine.state(), State::Gone);

    let mut subject = Subject::new();
    subject.begin(EventType::Deleted, "1");
    let actions = subject.plan(Facts {
        event: EventType::Deleted,
        reason: None,
        uncertain: true,
        ..facts()
    });
    assert_eq!(actions, [Action::Forget]);
    assert_eq!(*subject.machine.state(), State::Gone);
}

#[test]
fn unreadable_events_keep_the_unsent_patch() {
    let mut subject = Subject::with_unsent();
    let actions = subject.step(Input::Failed);
    assert_eq!(actions, [Action::ReportFailure(None)]);
    assert!(subject.machine.has_unsent());
    assert_eq!(subject.reach_deadline(), [Action::Resend]);
}

#[test]
fn throttling_is_over_after_the_first_success() {
    let mut subject = Subject::with_unsent();
    for _ in 0..2 {
        assert_eq!(subject.reach_deadline(), [Action::Resend]);
        let actions = subject.step(Input::WriteFailed { rejected: false });
        assert!(
            matches!(actions[..], [Action::ReportFailure(Some(_))]),
            "{actions:?}"
        );
    }
    subject.reach_deadline();
    let over = Action::Log(Message::ThrottlingOver);
    let actions = subject.write("5");
    assert_eq!(
        actions.iter().filter(|action| **action == over).count(),
        1,
        "{actions:?}"
    );
}

#[test]
fn wake_up_outlives_the_wait_for_the_echo() {
    let mut subject = Subject::new();
    subject.begin(EventType::Modified, "1");
    let runners_only = Facts {
        reason: None,
        finalizer: Finalizer::Missing,
        ..facts()
    };
    subject.plan(runners_only);
    subject.write("5");
    // A daemon is being stopped, and is checked later than the wait ends.
    subject.begin(EventType::Modified, "2");
    subject.plan(Facts {
        finalizer: Finalizer::Kept,
        exiting: Some(Duration::from_secs(60)),
        ..runners_only
    });
    let wake = subject.now.after(Duration::from_secs(60));
    let waiting = State::AwaitingEcho { wake: Some(wake) };
    assert_eq!(*subject.machine.state(), waiting);
    assert_eq!(subject.reach_deadline(), [Action::AdoptResponse]);
    assert_eq!(*subject.machine.state(), State::Sleeping { until: wake });
    let actions = subject.reach_deadline();
    assert_eq!(actions, [Action::Plan]);
}

#[test]
fn recreated_objects_are_forgotten_before_they_are_indexed() {
    let mut subject = Subject::new();
    subject.event(EventType::Deleted, "1");
    let actions = subject.event(EventType::Added, "2");
    let expected = [Action::Forget, Action::Index, Action::CallEventHandlers];
    assert_eq!(actions, expected);
}

#[test]
fn failed_touches_are_repeated() {
    let mut subject = Subject::new();
    subject.rules.touching = true;
    subject.begin(EventType::Modified, "1");
    subject.plan(facts());
    let due = Some(Duration::from_secs(10));
    let patch = PendingPatch::Empty;
    subject.step(Input::HandlersFinished(Handled {
        due,
        patch,
        ..handled()
    }));
    assert_eq!(subject.reach_deadline(), [Action::Touch]);
    let delay = Some(Duration::from_secs(1));
    let actions = subject.step(Input::Failed);
    assert_eq!(actions, [Action::ReportFailure(delay)]);
    let actions = subject.reach_deadline();
    assert_eq!(actions, [Action::Plan]);
}

#[test]
fn sleep_is_skipped_only_if_a_request_was_sent() {
    let delay = Duration::from_secs(10);
    let version = Some(Awaited::Version("2".into()));
    for (awaited, effect, message) in [
        (version, Effect::Changed, Message::SleepingSkipped(delay)),
        (None, Effect::None, Message::Sleeping(delay)),
    ] {
        let mut subject = Subject::new();
        subject.begin(EventType::Modified, "1");
        subject.plan(facts());
        subject.step(Input::HandlersFinished(Handled {
            due: Some(delay),
            ..handled()
        }));
        let actions = subject.step(Input::Written(Response {
            awaited,
            effect,
            stamp: None,
        }));
        assert_eq!(actions, [Action::Log(message)]);
    }
}

#[test]
fn patches_are_written_while_the_release_is_suspended() {
    let (mut subject, _) = releasing();
    subject.write("2");
    // The finalizer has been put back.
    subject.begin(EventType::Modified, "3");
    subject.plan(Facts {
        fingerprint: Fingerprint {
            progress: 8,
            ..FINGERPRINT
        },
        ..deletion()
    });
    let actions = subject.step(Input::HandlersFinished(handled()));
    let warning = Message::FinalizerReverted(Duration::from_secs(1));
    assert_eq!(actions, [Action::Log(warning), Action::Write(None)]);
}

#[test]
fn versions_before_an_overdue_write_are_outdated_for_later_drivers() {
    let mut subject = Subject::new();
    subject.begin(EventType::Modified, "1");
    subject.plan(facts());
    subject.step(Input::HandlersFinished(handled()));
    subject.write("5");
    assert_eq!(subject.reach_deadline(), [Action::AdoptResponse]);
    assert_eq!(*subject.machine.state(), State::Idle);
    let overdue = subject.machine.take_overdue();

    let mut later = Machine::default();
    assert!(!later.is_outdated("3", subject.now));
    later.restore_overdue(overdue);
    assert!(later.is_outdated("3", subject.now));
    assert!(!later.is_outdated("5", subject.now));
    subject.pass(60);
    assert!(!later.is_outdated("3", subject.now), "for a minute only");
}

/// Handlers of a cause that wait for a retry give way to reconcile handlers, but not if each write is stamped.
#[test]
fn stamped_writes_delay_reconciliation_beside_waiting_handlers() {
    for (stamps, expected) in [(1, true), (2, false)] {
        let mut subject = Subject::new();
        for version in (1..=stamps).map(|version| version.to_string()) {
            subject.machine.stamps.note(Some(Stamp::of(&version)));
            subject.machine.stamps.see(&version, subject.now);
        }
        subject.begin(EventType::Modified, "3");
        subject.plan(Facts {
            reason: Some(Reason::Create),
            reconciling: Some(Duration::ZERO),
            ..facts()
        });
        let actions = subject.step(Input::HandlersFinished(Handled {
            due: Some(Duration::from_secs(100)),
            attempted: false,
            patch: PendingPatch::Empty,
            ..handled()
        }));
        assert_eq!(
            actions.contains(&Action::Reconcile),
            expected,
            "{actions:?}"
        );
        if !expected {
            let until = subject.machine.deadline().expect("a deadline");
            assert!(until < subject.now.after(Duration::from_secs(100)));
        }
    }
}
