//! The processes of the operator in one run: the current one, and those that end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::recorder::Recorder;
use super::{Connection, Subject};
use crate::journal::ProcessChange;

/// Maximum number of processes of one run. A run with more of them ends.
pub(crate) const MOST_INSTANCES: usize = 40;

/// The place of the token in the template of a kubeconfig.
pub(crate) const TOKEN: &str = "token-of-the-instance";

/// Returns the bearer token of a process.
pub(crate) fn token(instance: usize) -> String {
    format!("explore-{instance}")
}

/// Returns the user name of a process.
pub(crate) fn user(instance: usize) -> String {
    format!("kopf-explore:operator-{instance}")
}

/// Returns the number of the process of a user.
pub(crate) fn instance(user: &str) -> Option<usize> {
    user.strip_prefix("kopf-explore:operator-")?.parse().ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// Its exit is expected until the deadline.
    Terminating(Instant),
    Killed,
}

#[derive(Debug, Default)]
struct State {
    last: usize,
    phases: BTreeMap<usize, Phase>,
    failure: Option<String>,
}

/// The exit of a process by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) instance: usize,
    pub(crate) status: String,
}

/// All processes of one run.
pub(crate) struct Crew {
    subject: Box<dyn Subject>,
    recorder: Arc<Recorder>,
    /// The connection, with [`TOKEN`] in place of the token.
    template: OnceLock<Connection>,
    grace: Duration,
    /// The number of processes, unless a deviation has more.
    wanted: usize,
    state: Mutex<State>,
}

impl Crew {
    pub(crate) fn new(
        subject: Box<dyn Subject>,
        recorder: Arc<Recorder>,
        grace: Duration,
        wanted: usize,
    ) -> Self {
        Self {
            subject,
            recorder,
            template: OnceLock::new(),
            grace,
            wanted: wanted.max(1),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connect(&self, template: Connection) {
        let _ = self.template.set(template);
    }

    /// Starts a process. Returns its number.
    pub(crate) fn start(&self) -> usize {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        if number > MOST_INSTANCES {
            state.failure = Some(format!("it was started more than {MOST_INSTANCES} times"));
            return number;
        }
        let Some(template) = self.template.get() else {
            state.failure = Some("there is no API server".to_owned());
            return number;
        };
        let token = token(number);
        let connection = Connection {
            kubeconfig: template.kubeconfig.replace(TOKEN, &token),
            service: template.service.clone(),
            token,
        };
        match self.subject.start(number, &connection) {
            Ok(()) => {
                state.phases.insert(number, Phase::Running);
                drop(state);
                self.recorder.process(number, ProcessChange::Started);
            }
            Err(error) => state.failure = Some(error.to_string()),
        }
        number
    }

    /// Returns for how long the processes have waited for a processor.
    pub(crate) fn waited(&self) -> Duration {
        self.subject.waited()
    }

    /// Returns the number of the process that will be started next.
    pub(crate) fn next_instance(&self) -> usize {
        self.state().last + 1
    }

    /// Kills a process.
    pub(crate) fn kill(&self, number: usize) {
        let mut state = self.state();
        if let Some(phase) = state.phases.get_mut(&number) {
            *phase = Phase::Killed;
            drop(state);
            self.subject.kill(number);
            self.recorder.process(number, ProcessChange::Killed);
        }
    }

    /// Asks a process to exit.
    pub(crate) fn terminate(&self, number: usize) {
        let mut state = self.state();
        if let Some(phase) = state
            .phases
            .get_mut(&number)
            .filter(|phase| **phase == Phase::Running)
        {
            *phase = Phase::Terminating(Instant::now() + self.grace);
            drop(state);
            self.subject.terminate(number);
            self.recorder.process(number, ProcessChange::Terminated);
        }
    }

    /// Stops a process from doing anything.
    pub(crate) fn freeze(&self, number: usize) {
        self.subject.freeze(number);
        self.recorder.process(number, ProcessChange::Frozen);
    }

    /// Lets a frozen process continue.
    pub(crate) fn thaw(&self, number: usize) {
        self.subject.thaw(number);
        self.recorder.process(number, ProcessChange::Thawed);
    }

    /// Returns `true` until a process is gone.
    pub(crate) fn exists(&self, number: usize) -> bool {
        self.state().phases.contains_key(&number)
    }

    /// Returns the processes that were not killed or asked to exit.
    pub(crate) fn running(&self) -> Vec<usize> {
        let state = self.state();
        let running = state.phases.iter();
        let running = running.filter(|(_, phase)| **phase == Phase::Running);
        running.map(|(number, _)| *number).collect()
    }

    /// Starts processes until there are as many as wanted. Those that were killed or have to exit
    /// count until they are gone: two of them may want the same port.
    pub(crate) fn refill(&self) {
        while self.state().phases.len() < self.wanted && self.failure().is_none() {
            self.start();
        }
    }

    /// Returns why a process could not be started.
    pub(crate) fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Notices exits and exceeded grace periods. Returns the exits that were not asked for.
    pub(crate) fn tend(&self) -> Vec<Exit> {
        let mut unexpected = Vec::new();
        for (instance, status) in self.subject.exits() {
            let phase = self.state().phases.remove(&instance);
            let change = match phase {
                Some(Phase::Running) => {
                    unexpected.push(Exit {
                        instance,
                        status: status.clone(),
                    });
                    ProcessChange::Exited(status)
                }
                Some(Phase::Terminating(_) | Phase::Killed) | None => ProcessChange::Ended,
            };
            self.recorder.process(instance, change);
        }
        let now = Instant::now();
        let state = self.state();
        let late: Vec<usize> = state
            .phases
            .iter()
            .filter(|(_, phase)| matches!(phase, Phase::Terminating(until) if *until <= now))
            .map(|(number, _)| *number)
            .collect();
        drop(state);
        for number in late {
            self.recorder.process(number, ProcessChange::Stuck);
            self.kill(number);
        }
        unexpected
    }

    /// Kills all processes.
    pub(crate) fn end(&self) {
        let all: Vec<usize> = self.state().phases.keys().copied().collect();
        for number in all {
            self.kill(number);
        }
    }

    pub(crate) fn output(&self) -> String {
        self.subject.output()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::mask::Mask;

    /// Processes that are gone when the test says so.
    #[derive(Default)]
    struct Slow {
        gone: Arc<Mutex<Vec<usize>>>,
    }

    impl Subject for Slow {
        fn start(&self, _: usize, _: &Connection) -> io::Result<()> {
            Ok(())
        }

        fn kill(&self, _: usize) {}

        fn terminate(&self, _: usize) {}

        fn exits(&self) -> Vec<(usize, String)> {
            let gone = std::mem::take(&mut *self.gone.lock().unwrap());
            gone.into_iter()
                .map(|one| (one, "killed".to_owned()))
                .collect()
        }

        fn output(&self) -> String {
            String::new()
        }
    }

    #[tokio::test]
    async fn next_process_starts_when_the_killed_one_is_gone() {
        let subject = Slow::default();
        let gone = Arc::clone(&subject.gone);
        let recorder = Arc::new(Recorder::new(Mask::default()));
        let crew = Crew::new(Box::new(subject), recorder, Duration::ZERO, 1);
        let sandbox = kopf_sandbox::Sandbox::builder().build().unwrap();
        crew.connect(Connection {
            kubeconfig: String::new(),
            service: sandbox.service(),
            token: String::new(),
        });
        crew.refill();
        assert_eq!(crew.running(), [1]);
        crew.kill(1);
        crew.tend();
        crew.refill();
        assert!(
            crew.running().is_empty(),
            "the first one may still hold its port"
        );
        gone.lock().unwrap().push(1);
        assert_eq!(crew.tend(), [], "the exit of a killed process is expected");
        crew.refill();
        assert_eq!(crew.running(), [2]);
    }
}
