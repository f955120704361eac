//! The connection of a request, which its handler can reset after the response.

use std::time::Duration;

use kopf_sandbox_api::control::OwnConnection;
use tokio_util::task::TaskTracker;

use super::connection::Control;

/// The time in which a response is sent before its connection is reset.
const GRACE: Duration = Duration::from_millis(250);

/// Returns the connection for its requests. While an action on all connections runs, it is excluded
/// from resets, and it is reset after [`GRACE`] instead. `tasks` owns the tasks of the connection.
pub(super) fn own_connection(control: Control, tasks: TaskTracker) -> OwnConnection {
    OwnConnection::new(move |act| {
        control.spare(true);
        act();
        control.spare(false);
        let control = control.clone();
        tasks.spawn(async move {
            tokio::time::sleep(GRACE).await;
            control.reset();
        });
    })
}
