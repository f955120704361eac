//! The evaluation of one binding of a policy.

use std::collections::BTreeMap;

use kopf_sandbox_schema::cel::{self, CelValue, Variables};
use serde_json::Value;

use super::conditions::Match;
use super::policies::{Facts, Policy};
use crate::status::{ApiError, Result};

/// A binding of a policy with one of its parameters.
pub(super) struct Invocation<'a> {
    pub(super) policy: &'a Policy,
    pub(super) binding: &'a str,
    pub(super) actions: &'a [String],
    /// The error is the reason why the policy cannot be evaluated.
    pub(super) params: std::result::Result<Option<Value>, String>,
}

impl Invocation<'_> {
    /// Returns the variables of a request, except those that the policy declares. `None` if the
    /// conditions of the policy do not match.
    ///
    /// # Errors
    ///
    /// The reason why the policy cannot be evaluated.
    pub(super) fn inputs(
        &self,
        facts: &Facts<'_>,
    ) -> std::result::Result<Option<Variables>, String> {
        let params = self.params.as_ref().map_err(Clone::clone)?;
        let inputs = facts.variables(params.as_ref());
        match self.policy.conditions.evaluate(&inputs) {
            Match::Yes => Ok(Some(inputs)),
            Match::No => Ok(None),
            Match::Failed(why) => Err(why),
        }
    }

    /// Adds the variables that the policy declares.
    pub(super) fn variables(&self, inputs: &Variables) -> Variables {
        let mut all = inputs.clone();
        let mut computed: BTreeMap<String, CelValue> = BTreeMap::new();
        for (name, rule) in &self.policy.variables {
            let known = computed.clone().into_iter();
            all.add("variables", cel::map(known));
            // A variable that fails does not fail policies that do not use it.
            let value = rule.value(&all).unwrap_or_else(|error| {
                cel::failed(format!(
                    "composited variable {name:?} fails to evaluate: {error}"
                ))
            });
            computed.insert(name.clone(), value);
        }
        all.add("variables", cel::map(computed));
        all
    }
}

impl Invocation<'_> {
    pub(super) fn judge(&self, facts: &Facts<'_>, warnings: &mut Vec<String>) -> Result<()> {
        let variables = match self.inputs(facts) {
            Ok(Some(inputs)) => self.variables(&inputs),
            Ok(None) => return Ok(()),
            Err(why) => return self.act(facts, &why, "", warnings, true),
        };
        for validation in &self.policy.validations {
            match validation.expression.evaluate(&variables) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => {
                    let message = validation.message(&variables);
                    self.act(facts, &message, &validation.reason, warnings, false)?;
                }
                Ok(_) => {
                    let why = "validation expression must return bool type";
                    self.act(facts, why, "", warnings, true)?;
                }
                Err(why) => self.act(facts, &why, "", warnings, true)?,
            }
        }
        Ok(())
    }

    /// Denies the request or adds a warning, by the actions of the binding.
    fn act(
        &self,
        facts: &Facts<'_>,
        message: &str,
        reason: &str,
        warnings: &mut Vec<String>,
        failure: bool,
    ) -> Result<()> {
        if failure && self.policy.failed(()).is_none() {
            return Ok(());
        }
        let (policy, binding) = (&self.policy.name, self.binding);
        for action in self.actions {
            match action.as_str() {
                "Deny" => {
                    let message = format!(
                        "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
                    );
                    let attributes = facts.attributes;
                    return Err(ApiError::denied_by_policy(
                        attributes.kind,
                        attributes.name,
                        &message,
                        reason,
                    ));
                }
                "Warn" => warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {message}"
                )),
                // There is no audit log.
                _ => {}
            }
        }
        Ok(())
    }
}
