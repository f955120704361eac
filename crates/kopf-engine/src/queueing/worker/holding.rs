//! The turn of one object, given away while its handlers run.

use super::super::mailbox::Mailbox;
use super::super::turns::{Lane, Turn, Turns};

/// Held while something is decided or written.
#[derive(Debug)]
pub(crate) struct Holding {
    turns: Turns,
    turn: Option<Turn>,
}

impl Holding {
    /// Waits for the turn of an object that has events. Should it change while waiting, it goes
    /// ahead of those that have not.
    ///
    /// `listed`: whether it has something listed from before.
    pub(super) async fn of_events(turns: &Turns, mailbox: &Mailbox, listed: bool) -> Self {
        loop {
            let lane = mailbox.lane(listed);
            tokio::select! {
                biased;
                turn = turns.take(lane) => {
                    let (turns, turn) = (turns.clone(), Some(turn));
                    return Self { turns, turn };
                }
                () = mailbox.arrival(), if lane == Lane::Listing => {}
            }
        }
    }

    /// Gives the turn away.
    pub(crate) fn give_away(&mut self) {
        self.turn = None;
    }

    /// Waits for the next turn. Work that has begun goes first: what has come out of handlers is
    /// safe only when it is written.
    pub(crate) async fn take_again(&mut self) {
        if self.turn.is_none() {
            self.turn = Some(self.turns.take(Lane::Begun).await);
        }
    }
}
