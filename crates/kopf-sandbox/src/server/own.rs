//! The connection of a request, which its handler can reset after the response.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::connection::Control;

/// The time in which a response is sent before its connection is reset.
const GRACE: Duration = Duration::from_millis(250);

/// The connection of a request; an extension of the request.
#[derive(Debug, Clone)]
pub(crate) struct OwnConnection {
    control: Control,
    /// The owner of the tasks of the connection.
    tasks: TaskTracker,
}

impl OwnConnection {
    pub(super) fn new(control: Control, tasks: TaskTracker) -> Self {
        Self { control, tasks }
    }

    /// Excludes the connection from resets of all connections while `act` runs, and resets it
    /// after [`GRACE`] instead: the client would otherwise get no response.
    pub(crate) fn reset_last(&self, act: impl FnOnce()) {
        self.control.spare(true);
        act();
        self.control.spare(false);
        let control = self.control.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(GRACE).await;
            control.reset();
        });
    }
}
