//! The variants of inputs, actions, effects and patches that occur in explored states.

use std::collections::BTreeSet;

use kopf_core::object::{Action, Effect, Input, PendingPatch, Response};

/// All variants. The functions below do not compile if one is missing there.
const ALL: [&str; 38] = [
    "Input::Event",
    "Input::Superseded",
    "Input::Newest",
    "Input::Vanished",
    "Input::Planned",
    "Input::HandlersFinished",
    "Input::Written",
    "Input::Conflicted",
    "Input::WriteFailed",
    "Input::WriteFailed, rejected",
    "Input::NotFound",
    "Input::NoVersion",
    "Input::Failed",
    "Input::RunnerExited",
    "Input::Deadline",
    "Input::Paused",
    "Action::Index",
    "Action::CallEventHandlers",
    "Action::Plan",
    "Action::Run",
    "Action::Reconcile",
    "Action::Write",
    "Action::Resend",
    "Action::Record",
    "Action::DropUnsent",
    "Action::AdoptResponse",
    "Action::Touch",
    "Action::Cover",
    "Action::Log",
    "Action::ReportFailure",
    "Action::Forget",
    "Effect::None",
    "Effect::Changed",
    "Effect::Settled",
    "PendingPatch::Empty",
    "PendingPatch::Some",
    "PendingPatch::First",
    "PendingPatch::Carried",
];

/// The variants that have occurred.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeSet<&'static str>);

impl Coverage {
    pub(crate) fn merge_from(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the variants that have not occurred.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let all = ALL.into_iter();
        all.filter(|variant| !self.0.contains(variant)).collect()
    }

    pub(crate) fn note_input(&mut self, input: &Input) {
        let variant = match input {
            Input::Event { .. } => "Input::Event",
            Input::Superseded { .. } => "Input::Superseded",
            Input::Newest { .. } => "Input::Newest",
            Input::Vanished => "Input::Vanished",
            Input::Planned(facts) => {
                self.note_patch(facts.patch);
                "Input::Planned"
            }
            Input::HandlersFinished(handled) => {
                self.note_patch(handled.patch);
                "Input::HandlersFinished"
            }
            Input::Written(response) => {
                self.note_effect(response);
                "Input::Written"
            }
            Input::Conflicted(_) => "Input::Conflicted",
            Input::WriteFailed { rejected: false } => "Input::WriteFailed",
            Input::WriteFailed { rejected: true } => "Input::WriteFailed, rejected",
            Input::NotFound => "Input::NotFound",
            Input::NoVersion => "Input::NoVersion",
            Input::Failed => "Input::Failed",
            Input::RunnerExited => "Input::RunnerExited",
            Input::Deadline => "Input::Deadline",
            Input::Paused(_) => "Input::Paused",
        };
        self.0.insert(variant);
    }

    pub(crate) fn note_action(&mut self, action: &Action) {
        self.0.insert(match action {
            Action::Index => "Action::Index",
            Action::CallEventHandlers => "Action::CallEventHandlers",
            Action::Plan => "Action::Plan",
            Action::Run(_) => "Action::Run",
            Action::Reconcile => "Action::Reconcile",
            Action::Write(_) => "Action::Write",
            Action::Resend => "Action::Resend",
            Action::Record => "Action::Record",
            Action::DropUnsent => "Action::DropUnsent",
            Action::AdoptResponse => "Action::AdoptResponse",
            Action::Touch => "Action::Touch",
            Action::Cover(_) => "Action::Cover",
            Action::Log(_) => "Action::Log",
            Action::ReportFailure(_) => "Action::ReportFailure",
            Action::Forget => "Action::Forget",
        });
    }

    fn note_effect(&mut self, response: &Response) {
        self.0.insert(match response.effect {
            Effect::None => "Effect::None",
            Effect::Changed => "Effect::Changed",
            Effect::Settled => "Effect::Settled",
        });
    }

    fn note_patch(&mut self, patch: PendingPatch) {
        self.0.insert(match patch {
            PendingPatch::Empty => "PendingPatch::Empty",
            PendingPatch::Some => "PendingPatch::Some",
            PendingPatch::First => "PendingPatch::First",
            PendingPatch::Carried => "PendingPatch::Carried",
        });
    }
}
