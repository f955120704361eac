//! The operator of a lab: start, stop, kill.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kopf::Operator;
use kopf_client::Client;
use kopf_engine::clock::Clock;
use kopf_engine::inspect::Inspect;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::access::Access;
use crate::recording::{Line, Recorder};

/// Runs one operator at a time, repeatedly.
pub(super) struct Runner {
    operator: Operator,
    /// One clock for all runs, so that time continues across restarts.
    clock: Clock,
    running: Mutex<Option<Running>>,
}

struct Running {
    inspect: Inspect,
    stop: CancellationToken,
    line: Line,
    task: JoinSet<Result<(), String>>,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            Some(running) => running.inspect.snapshot().fmt(f),
            None => f.write_str("not running"),
        }
    }
}

impl Runner {
    pub(super) fn new(operator: Operator) -> Self {
        Self {
            operator,
            clock: Clock::system(),
            running: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn start(&self, access: &Access, recorder: &Recorder) {
        assert!(self.lock().is_none(), "the operator is running already");
        let (service, line) = recorder.record(access.client());
        let client = Client::from_service(service, "default");
        let (ready, is_ready) = oneshot::channel();
        let operator = self.operator.to_engine().clock(self.clock).on_ready(ready);
        let inspect = operator.inspect();
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        let stopped = stop.clone();
        task.spawn(async move {
            operator
                .run(client, stopped)
                .await
                .map_err(|error| format!("{error:?}"))
        });
        tokio::select! {
            Ok(()) = is_ready => {}
            ended = task.join_next() => panic!("the operator did not start: {ended:?}"),
        }
        *self.lock() = Some(Running {
            inspect,
            stop,
            line,
            task,
        });
    }

    pub(super) async fn stop(&self) {
        let running = self.lock().take();
        if let Some(mut running) = running {
            running.stop.cancel();
            if let Some(ended) = running.task.join_next().await {
                assert_success(ended);
            }
        }
    }

    pub(super) async fn kill(&self) {
        let running = self.lock().take();
        if let Some(mut running) = running {
            running.line.cut();
            running.task.shutdown().await;
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        let running = self.lock();
        running.as_ref().is_none_or(|it| it.inspect.is_settled())
    }

    /// Panics if the operator exited without being stopped.
    pub(super) fn check(&self) {
        let ended = self.lock().as_mut().and_then(|it| it.task.try_join_next());
        if let Some(ended) = ended {
            assert_success(ended);
            panic!("the operator exited without being stopped");
        }
    }
}

fn assert_success(ended: Result<Result<(), String>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => panic!("the operator failed: {error}"),
        Err(error) => panic!("the operator panicked: {error}"),
    }
}
