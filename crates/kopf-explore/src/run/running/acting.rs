//! The actions of the user and of another client in a run.

use kopf_sandbox::simulation::{Behaviour, Script};
use kopf_sandbox_schema::cel::Expression;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Flow, Goal, Running};
use crate::deviation::{Deviation, Interference};
use crate::object::INTERFERENCE_LABEL;
use crate::record::End;
use crate::run::Rejection;
use crate::run::disturbance::{Disturbance, recreate};
use crate::run::steering::Errand;
use crate::scenario::{Action, Target};

impl<'a> Running<'a> {
    /// Does what another client does at a point of the run.
    pub(super) async fn run_errand(&mut self, errand: Errand) -> Flow<()> {
        match errand {
            Errand::Interfere(Interference::Label, path) => {
                let patch = json!({"metadata": {"labels": {INTERFERENCE_LABEL: "true"}}});
                self.ignore(self.client.merge_at(&path, &patch).await);
            }
            Errand::Interfere(Interference::Delete, path) => {
                self.ignore(self.client.delete_at(&path).await);
            }
            Errand::Interfere(change @ (Interference::Spec | Interference::Status), path) => {
                let is_status = change == Interference::Status;
                self.disturbance = Disturbance::make(&self.client, &path, is_status).await;
                if self.disturbance.is_none() {
                    self.steering.miss("nothing can be changed at this point");
                }
            }
            Errand::Interfere(Interference::Recreate, path) => {
                let applied = self.applied(&path);
                let recreated = recreate(&self.client, &path, applied).await;
                if let Err(rejection) = recreated {
                    self.steering
                        .miss(&format!("the other client got {rejection}"));
                }
            }
            Errand::Interfere(Interference::NextStep, _) => {
                let next = self.recorder.current_step() + 1;
                let steps = &self.task.scenario.steps;
                if let Some(step) = steps.get(next - 1) {
                    if let Action::Patch { target, .. } | Action::Delete(target) = &step.action
                        && !self.client.exists(target).await
                    {
                        self.steering
                            .miss("the object of the next step does not exist yet");
                        return Ok(());
                    }
                    self.recorder.step(next, &step.to_string());
                    self.act(next).await?;
                    self.is_next_done = true;
                }
            }
        }
        Ok(())
    }

    /// Returns the manifest of this step, if it is of this object.
    fn applied(&self, path: &str) -> Option<&'a Value> {
        let step = self.task.scenario.steps.get(self.step.checked_sub(1)?)?;
        let Action::Apply(object) = &step.action else {
            return None;
        };
        let target = Target::of(object)?;
        let group = match target.api_version.split_once('/') {
            Some(_) => format!("/apis/{}/", target.api_version),
            None => format!("/api/{}/", target.api_version),
        };
        let is_same = path.starts_with(&group) && path.ends_with(&format!("/{}", target.name));
        is_same.then_some(object)
    }

    /// The object of an interference may be gone.
    pub(super) fn ignore(&self, result: Result<Value, Rejection>) {
        if let Err(rejection) = result {
            self.recorder
                .note(format!("the other client got {rejection}"));
        }
    }

    /// Does the action of a step.
    pub(super) async fn act(&mut self, number: usize) -> Flow<()> {
        let Some(step) = self.task.scenario.steps.get(number - 1) else {
            return Ok(());
        };
        let done = match &step.action {
            Action::Apply(object) => {
                if self.is_recreated(number)
                    && let Some(target) = Target::of(object)
                {
                    self.ignore(self.client.delete(&target).await);
                }
                self.client.apply(object, false).await.map(drop)
            }
            Action::Patch {
                target,
                merge,
                subresource,
            } => {
                let patched = self.client.merge(target, subresource.as_deref(), merge);
                patched.await.map(drop)
            }
            Action::Delete(target) => self.client.delete(target).await.map(drop),
            Action::Sleep(time) => {
                let until = Instant::now() + *time;
                while Instant::now() < until {
                    self.tick_once().await?;
                }
                Ok(())
            }
            Action::Wait { condition, target } => {
                let condition = Expression::parse(condition)
                    .map_err(|why| End::StepFailed { step: number, why })?;
                let goal = Goal::Condition(&condition, target.as_ref());
                Box::pin(self.wait(goal)).await?;
                Ok(())
            }
            Action::Restart => {
                for instance in self.crew.running() {
                    self.crew.terminate(instance);
                }
                Ok(())
            }
            Action::Simulate { .. } => {
                self.simulate(&step.action);
                Ok(())
            }
        };
        done.map_err(|rejection| End::StepFailed {
            step: number,
            why: rejection.to_string(),
        })
    }

    fn is_recreated(&self, number: usize) -> bool {
        matches!(
            &self.task.deviation,
            Some(Deviation::Gap { step, recreate: true, .. }) if *step == number
        )
    }

    async fn tick_once(&mut self) -> Flow<()> {
        Box::pin(self.tick()).await
    }

    fn simulate(&self, action: &Action) {
        let Action::Simulate {
            behaviour,
            name_prefix,
            namespace,
        } = action
        else {
            return;
        };
        let scripts = self.sandbox.scripts();
        // Names are checked when a scenario is parsed.
        match behaviour.as_deref().map(str::parse::<Behaviour>) {
            None => scripts.clear(),
            Some(Ok(behaviour)) => {
                let mut script = Script::new(behaviour).name_prefix(name_prefix);
                if let Some(namespace) = namespace {
                    script = script.namespace(namespace);
                }
                scripts.add(script);
            }
            Some(Err(_)) => {}
        }
    }
}
