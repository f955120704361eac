//! Mutations by MutatingAdmissionPolicies.

use std::sync::Arc;

use kopf_sandbox_schema::cel::{CelValue, Variables, dynamic, to_json};
use kopf_sandbox_schema::patch::PatchError;
use serde_json::Value;

use super::invocation::Invocation;
use super::matching::Attributes;
use super::policies::{Facts, Mutation, Policies, Policy};
use crate::status::{ApiError, Result};

/// Merges a configuration into an object of the kind of the request.
pub(crate) type MergeInto<'a> =
    &'a (dyn Fn(&Value, &Value) -> std::result::Result<Value, String> + Send + Sync);

impl Policies {
    /// Applies the mutating policies to an object, in sequence.
    ///
    /// # Errors
    ///
    /// A policy with `failurePolicy: Fail` failed.
    pub(crate) fn mutate(
        &self,
        facts: &Facts<'_>,
        object: Value,
        merge: MergeInto<'_>,
    ) -> Result<Value> {
        let mut object = object;
        for policy in &self.mutating {
            object = mutated(policy, facts, object, merge)?;
        }
        Ok(object)
    }
}

fn mutated(
    policy: &Arc<Policy>,
    facts: &Facts<'_>,
    object: Value,
    merge: MergeInto<'_>,
) -> Result<Value> {
    let mut object = object;
    let invocations = policy.invocations(&with_object(facts, &object))?;
    for invocation in invocations {
        let mut failure = None;
        match invocation.inputs(&with_object(facts, &object)) {
            Ok(None) => continue,
            Ok(Some(mut inputs)) => {
                // Each mutation receives the object as changed by those before that did not fail.
                for mutation in &policy.mutations {
                    let variables = invocation.variables(&inputs);
                    match applied(mutation, &variables, &object, merge) {
                        Ok(changed) => {
                            inputs.add("object", dynamic(&changed));
                            object = changed;
                        }
                        Err(why) => failure = failure.or(Some(why)),
                    }
                }
            }
            Err(why) => failure = Some(why),
        }
        if let Some(why) = failure
            && let Some(rejection) = policy.failed(rejection(&invocation, facts.attributes, &why))
        {
            return Err(rejection);
        }
    }
    Ok(object)
}

fn with_object<'a>(facts: &Facts<'a>, object: &'a Value) -> Facts<'a> {
    Facts {
        object: Some(object),
        ..*facts
    }
}

fn rejection(invocation: &Invocation<'_>, attributes: &Attributes<'_>, why: &str) -> ApiError {
    let (policy, binding) = (&invocation.policy.name, invocation.binding);
    let message = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
    let denied = ApiError::denied_by_policy(attributes.kind, attributes.name, &message, "");
    denied.edited(|failure| {
        failure.code = 403;
        failure.message = message;
    })
}

/// Returns an object with one mutation applied.
fn applied(
    mutation: &Mutation,
    variables: &Variables,
    object: &Value,
    merge: MergeInto<'_>,
) -> std::result::Result<Value, String> {
    match mutation {
        Mutation::Apply(rule) => {
            let config = rule.evaluate(variables)?;
            if !matches!(config, CelValue::Map(_)) {
                return Err("applyConfiguration must evaluate to Object".to_owned());
            }
            merge(object, &to_json(&config)?).map_err(|why| {
                format!(
                    "error applying patch: failed to convert patch object to typed object: {why}"
                )
            })
        }
        Mutation::Patch(rule) => {
            let patch = to_json(&rule.evaluate(variables)?)?;
            match kopf_sandbox_schema::patch::json::apply(object, patch) {
                // A test that fails skips the patch.
                Err(PatchError::TestFailed(_)) => Ok(object.clone()),
                patched => patched.map_err(|error| error.to_string()),
            }
        }
    }
}
