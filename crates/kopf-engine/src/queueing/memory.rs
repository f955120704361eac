//! What is remembered of an object between its events, in this process only.

use kopf_core::indexing::Attempts;
use kopf_core::patch::PatchFn;

use super::mailbox::Queued;
use super::own::Own;
use crate::daemons::ObjectDaemons;
use crate::memos::MemoCell;

/// The record of one object. Small: there is one for every object in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Whether the first event of the object came from a listing; never changed later.
    pub(crate) noticed_by_listing: bool,
    /// Whether its handling was finished once in this process.
    pub(crate) fully_handled_once: bool,
    /// Transformations which the server refused because the object had changed meanwhile.
    pub(crate) remaining: Vec<PatchFn>,
    /// The last own write, if nothing was left to do after it.
    pub(crate) own: Option<Own>,
    /// Attempts of index handlers that have failed or are to be tried again.
    pub(crate) indexing: Option<Box<Attempts>>,
    /// What handlers remember of the object, if they do.
    memo: Option<MemoCell>,
    /// Its daemons and timers, if it has them, or had them.
    pub(crate) background: Option<ObjectDaemons>,
}

impl Memory {
    pub(crate) fn new(noticed_by_listing: bool) -> Self {
        Self {
            noticed_by_listing,
            ..Self::default()
        }
    }

    /// Whether this tells nothing that is not known already.
    pub(crate) fn covers(&self, entry: &Queued) -> bool {
        self.own.as_ref().is_some_and(|own| own.covers(entry))
    }

    /// What handlers remember of the object.
    pub(crate) fn memo(&mut self, operator: &MemoCell) -> MemoCell {
        self.memo
            .get_or_insert_with(|| operator.of_object())
            .clone()
    }

    /// Takes over what is remembered elsewhere, if nothing is here.
    pub(crate) fn take_over(&mut self, remembered: impl FnOnce() -> MemoCell) {
        self.memo.get_or_insert_with(remembered);
    }

    /// Without what is not needed while nothing happens to the object.
    pub(crate) fn at_rest(mut self) -> Self {
        self.memo.take_if(|memo| memo.is_needless());
        self
    }

    /// Waits until a daemon or a timer ends that was told to, also if it has ended since the last
    /// time; forever if there are none. Cancel-safe.
    pub(crate) async fn exit(&self) {
        match &self.background {
            Some(background) => background.exit().await,
            None => std::future::pending().await,
        }
    }

    /// Whether handlers for resuming are still to be run.
    pub(crate) fn initial(&self) -> bool {
        self.noticed_by_listing && !self.fully_handled_once
    }
}
