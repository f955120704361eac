//! The steps of a run.

mod acting;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use kopf_sandbox::Sandbox;
use kopf_sandbox::manifests::segment;
use kopf_sandbox::tap::OnRelease;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::waiting::{Goal, Waited};
use super::client::Client;
use super::crew::{self, Crew};
use super::disturbance::Disturbance;
use super::processor::Silence;
use super::recorder::Recorder;
use super::steering::{Order, Steering};
use super::{Expectation, Task};
use crate::deviation::{Deviation, Family};
use crate::journal::Snapshot;
use crate::mask::View;
use crate::object::ObjectKey;
use crate::record::End;

/// The interval of checks.
const POLL: Duration = Duration::from_millis(15);
/// The same for operators in this process. In virtual time, it costs nothing but the checks.
const POLL_IN_PROCESS: Duration = Duration::from_millis(100);
/// The shortest pause after which the state is compared with the reference.
const SHORTEST_PAUSE: Duration = Duration::from_millis(400);
/// Restarts of an operator that exits while the API fails.
const MOST_EXITS: usize = 5;

type Flow<T> = Result<T, End>;

/// Returns the path of a lease.
fn lease_path(lease: &ObjectKey) -> String {
    let namespace = lease.namespace.as_deref().unwrap_or("default");
    format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}",
        segment(namespace),
        segment(&lease.name)
    )
}

pub(super) struct Running<'a> {
    task: &'a Task<'a>,
    recorder: &'a Recorder,
    crew: &'a Crew,
    steering: &'a Steering,
    inbox: mpsc::Receiver<Order>,
    client: Client,
    sandbox: &'a Sandbox,
    states: Vec<Option<Snapshot>>,
    step: usize,
    is_next_done: bool,
    exits: usize,
    /// A change of another client that has to be undone.
    disturbance: Option<Disturbance>,
    /// A process that does nothing.
    frozen: Option<usize>,
    silence: Silence,
    /// The last look at the silence.
    looked: Instant,
    /// The time that does not count, since the beginning of the run.
    lost: Duration,
}

impl<'a> Running<'a> {
    pub(super) fn new(
        task: &'a Task<'a>,
        recorder: &'a Arc<Recorder>,
        crew: &'a Arc<Crew>,
        steering: &'a Arc<Steering>,
        inbox: mpsc::Receiver<Order>,
        client: Client,
        sandbox: &'a Sandbox,
    ) -> Self {
        Self {
            task,
            recorder,
            crew,
            steering,
            inbox,
            client,
            sandbox,
            states: Vec::new(),
            step: 0,
            is_next_done: false,
            exits: 0,
            disturbance: None,
            frozen: None,
            silence: Silence::default(),
            looked: Instant::now(),
            lost: Duration::ZERO,
        }
    }

    pub(super) fn into_states(self) -> Vec<Option<Snapshot>> {
        self.states
    }

    /// Does all steps.
    pub(super) async fn steps(&mut self) -> End {
        if let Err(end) = self.ready().await {
            return end;
        }
        for number in 1..=self.task.scenario.steps.len() {
            if let Err(end) = self.one(number).await {
                return end;
            }
        }
        End::Complete
    }

    async fn one(&mut self, number: usize) -> Flow<()> {
        let Some(step) = self.task.scenario.steps.get(number - 1) else {
            return Ok(());
        };
        let is_done = std::mem::take(&mut self.is_next_done);
        self.step = number;
        if !is_done {
            self.recorder.step(number, &step.to_string());
            self.before(number).await?;
            self.act(number).await?;
            if matches!(&self.task.deviation, Some(Deviation::Expire { step }) if *step == number) {
                self.expire().await;
            }
        }
        let state = if step.settle {
            self.settle(number).await?
        } else {
            None
        };
        self.states.push(state);
        Ok(())
    }

    /// Waits until the started operator watches its resources.
    async fn ready(&mut self) -> Flow<()> {
        let deadline = self.deadline();
        let settle = self.task.timing.settle;
        loop {
            self.tick().await?;
            let activity = self.activity();
            let is_ready = if self.task.expectation.reference().is_some() {
                self.is_ready() && activity.quiet_for >= self.pause(0)
            } else {
                let since =
                    |moment: Option<Duration>, least| moment.is_some_and(|time| time >= least);
                let watches = since(activity.since_watch, settle);
                let polls = since(activity.since_request, settle * 2);
                activity.quiet_for >= settle && (watches || polls)
            };
            if is_ready && !activity.is_requesting {
                return Ok(());
            }
            if self.is_over(deadline) {
                return Err(match activity.since_request {
                    None => End::NoRequests,
                    Some(_) if activity.quiet_for < settle => End::NotQuiet { step: 0 },
                    Some(_) => End::NotReady { step: 0 },
                });
            }
        }
    }

    /// Prepares the deviation of a step.
    async fn before(&mut self, number: usize) -> Flow<()> {
        match &self.task.deviation {
            Some(Deviation::Gap { step, resource, .. }) if *step == number => {
                self.steering.hold(resource, OnRelease::Latest);
            }
            Some(Deviation::Reorder { step, resource })
                if self.task.scenario.first_of_group(*step) == number =>
            {
                self.steering.hold(resource, OnRelease::All);
            }
            Some(Deviation::Stale { step, point: None }) if *step == number => {
                self.steering.note_revision();
            }
            Some(deviation @ Deviation::Expire { step }) if *step == number => {
                self.steering.reach(&deviation.to_string());
                self.steering.block();
                self.sandbox.faults().kill_watches();
            }
            Some(deviation @ Deviation::Overlap { step }) if *step == number => {
                self.steering.reach(&deviation.to_string());
                let second = self.crew.start();
                let until = Instant::now() + self.task.timing.settle * 3;
                while !self.is_watching(second) && Instant::now() < until {
                    self.tick().await?;
                }
            }
            Some(deviation @ Deviation::Freeze { step }) if *step == number => {
                self.steering.reach(&deviation.to_string());
                let leader = self.recorder.leases().into_values().next();
                self.frozen = leader.or_else(|| self.crew.running().first().copied());
                if let Some(leader) = self.frozen {
                    self.crew.freeze(leader);
                }
            }
            Some(deviation @ Deviation::Lease { step, is_taken }) if *step == number => {
                self.steering.reach(&deviation.to_string());
                self.take_leases(*is_taken).await;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the leases of the operator, or deletes them.
    async fn take_leases(&self, is_taken: bool) {
        for lease in self.recorder.leases().into_keys() {
            let path = lease_path(&lease);
            self.ignore(if is_taken {
                let patch = json!({"spec": {"holderIdentity": "kopf-explore"}});
                self.client.merge_at(&path, &patch).await
            } else {
                self.client.delete_at(&path).await
            });
        }
    }

    /// Releases the leases of processes that are gone, as if their time were over. Otherwise, each crash
    /// would take as long as a lease.
    async fn release_leases(&self) {
        for (lease, instance) in self.recorder.leases() {
            if !self.crew.exists(instance) {
                let patch = json!({"spec": {"holderIdentity": null, "leaseDurationSeconds": 1}});
                self.ignore(self.client.merge_at(&lease_path(&lease), &patch).await);
            }
        }
    }

    /// Waits until another process has the lease of the frozen one, which continues then.
    async fn thaw(&mut self) -> Flow<()> {
        let Some(frozen) = self.frozen.take() else {
            return Ok(());
        };
        let deadline = Instant::now() + self.task.timing.limit / 2;
        while self
            .recorder
            .leases()
            .into_values()
            .any(|one| one == frozen)
            && Instant::now() < deadline
        {
            self.tick().await?;
        }
        let waited = self.wait(Goal::Quiet(self.pause(self.step))).await;
        self.crew.thaw(frozen);
        waited.map(drop)
    }

    /// Drops old versions, after one more commit: the version of a watch may be the last one.
    async fn expire(&self) {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kopf-explore", "namespace": "kube-system"},
        });
        self.ignore(self.client.apply(&lease, false).await);
        self.sandbox.compact();
        self.steering.unblock();
    }

    /// Waits after a step, as the deviation needs it.
    async fn settle(&mut self, number: usize) -> Flow<Option<Snapshot>> {
        match &self.task.deviation {
            Some(Deviation::Gap {
                step,
                recreate: true,
                ..
            }) if *step == number => {
                self.wait(Goal::Quiet(self.pause(number))).await?;
                self.steering.release();
            }
            Some(Deviation::Gap {
                step,
                recreate: true,
                ..
            }) if *step + 1 == number => {}
            Some(Deviation::Gap { step, .. }) if *step == number => {
                self.wait(Goal::Quiet(self.pause(number))).await?;
                return Ok(None);
            }
            Some(Deviation::Gap { step, .. }) if *step + 1 == number => {
                self.wait(Goal::Quiet(self.pause(number))).await?;
                self.steering.release();
            }
            Some(Deviation::Reorder { step, .. }) if *step == number => {
                self.wait(Goal::Quiet(self.pause(number))).await?;
                self.steering.release();
            }
            _ => {}
        }
        self.thaw().await?;
        self.calm_down(number).await?;
        let state = self.converge(number).await?;
        match &self.task.deviation {
            Some(Deviation::Stale { step, .. }) if *step == number => {
                if let Some(revision) = self.steering.stale_revision() {
                    self.restart_on_lagging_server(revision, number).await?;
                    return self.converge(number).await;
                }
            }
            Some(Deviation::Overlap { step }) if *step == number => {
                if let [first, _, ..] = self.crew.running().as_slice() {
                    self.crew.terminate(*first);
                    return self.converge(number).await;
                }
            }
            _ => {}
        }
        Ok(state)
    }

    /// Ends the change of another client after a while.
    async fn calm_down(&mut self, number: usize) -> Flow<()> {
        let deviation = self.task.deviation.as_ref();
        let is_disturbed = deviation
            .is_some_and(|deviation| deviation.changes_history() && deviation.step() == number);
        if !is_disturbed {
            return Ok(());
        }
        self.wait(Goal::Quiet(self.pause(number))).await?;
        if let Some(disturbance) = self.disturbance.take() {
            let ended = disturbance.end(&self.client).await;
            self.ignore(ended.map(|()| Value::Null));
            self.recorder.note("the other client changes it back");
        }
        Ok(())
    }

    /// Waits for the state of the reference, or for quiet if there is none.
    async fn converge(&mut self, number: usize) -> Flow<Option<Snapshot>> {
        let pause = self.pause(number);
        let waited = match self.expected(number) {
            Some(view) => self.wait(Goal::State(&view, pause)).await?,
            None => self.wait(Goal::Quiet(pause)).await?,
        };
        Ok(match waited {
            Waited::Done => Some(self.recorder.snapshot()),
            Waited::Early => None,
        })
    }

    async fn restart_on_lagging_server(&mut self, revision: u64, number: usize) -> Flow<()> {
        for instance in self.crew.running() {
            self.crew.kill(instance);
        }
        let next = self.crew.next_instance();
        let view = self.sandbox.views().of_user(crew::user(next));
        if let Err(error) = view.freeze_at(revision) {
            self.recorder
                .note(format!("the server cannot lag: {error}"));
        }
        self.recorder.note(format!(
            "the operator restarts on a server at revision {revision}"
        ));
        // It starts when the killed ones are gone.
        let waited = self.wait(Goal::Quiet(self.pause(number))).await;
        view.catch_up();
        self.recorder.note("the server catches up");
        waited.map(drop)
    }

    /// Returns the pause after which a state is compared: longer than the longest pause of the
    /// undisturbed operator in this step.
    fn pause(&self, step: usize) -> Duration {
        let settle = self.task.timing.settle;
        let Some(reference) = self.task.expectation.reference() else {
            return settle;
        };
        if matches!(self.task.expectation, Expectation::Reverted(..)) {
            return settle;
        }
        let usual = reference.pause(step) * 3 + Duration::from_millis(300);
        let is_last = step == self.task.scenario.steps.len();
        let least = if is_last {
            SHORTEST_PAUSE.max(settle / 2)
        } else {
            SHORTEST_PAUSE
        };
        usual.max(least).min(settle.max(SHORTEST_PAUSE))
    }

    fn expected(&self, step: usize) -> Option<View> {
        match &self.task.expectation {
            Expectation::Nothing => None,
            Expectation::Reference(reference) => {
                let view = reference.view(step).cloned()?;
                Some(if self.has_other_history() {
                    reference.without_history(view)
                } else {
                    view
                })
            }
            Expectation::Reverted(_, changed) => match step {
                2 => Some(changed.clone()),
                3 => {
                    let first = self.states.first()?.as_ref()?;
                    Some(self.view(first))
                }
                _ => None,
            },
        }
    }

    fn view(&self, state: &Snapshot) -> View {
        let view = self.recorder.mask().view(state);
        match &self.task.expectation {
            Expectation::Reverted(reference, _) => reference.without_history(view),
            Expectation::Reference(reference) if self.has_other_history() => {
                reference.without_history(view)
            }
            _ => view,
        }
    }

    fn has_other_history(&self) -> bool {
        let deviation = self.task.deviation.as_ref();
        deviation.is_some_and(Deviation::changes_history)
    }

    fn is_watching(&self, instance: usize) -> bool {
        let Some(reference) = self.task.expectation.reference() else {
            return true;
        };
        self.recorder.is_watching(instance, &reference.watched)
    }

    /// Returns `true` if a process of the operator is at work.
    fn is_ready(&self) -> bool {
        let running = self.crew.running();
        running
            .into_iter()
            .any(|instance| self.is_watching(instance))
    }

    /// Lets a moment pass: does errands of the tap and tends the processes.
    async fn tick(&mut self) -> Flow<()> {
        let poll = if self.task.world.launcher.is_in_process() {
            POLL_IN_PROCESS
        } else {
            POLL
        };
        tokio::select! {
            biased;
            order = self.inbox.recv() => {
                if let Some((errand, done)) = order {
                    self.run_errand(errand).await?;
                    // The request may have been given up.
                    let _ = done.send(());
                }
            }
            () = tokio::time::sleep(poll) => {}
        }
        for exit in self.crew.tend() {
            self.exits += 1;
            let is_second =
                exit.instance > 1 && matches!(self.task.deviation, Some(Deviation::Overlap { .. }));
            let is_excused = self.exits <= MOST_EXITS
                && (is_second
                    || self
                        .task
                        .deviation
                        .as_ref()
                        .map(Deviation::family)
                        .is_some_and(Family::excuses_exits));
            if !is_excused {
                return Err(End::Exited {
                    step: self.step,
                    status: exit.status,
                });
            }
        }
        if let Some(why) = self.crew.failure() {
            return Err(End::NotStarted { why });
        }
        self.crew.refill();
        self.release_leases().await;
        Ok(())
    }
}
