//! Mutations by MutatingAdmissionPolicies.

use std::sync::Arc;

use serde_json::Value;

use super::invocation::Invocation;
use super::policies::{Facts, Mutation, Policies, Policy};
use crate::cel::{CelValue, to_json};
use crate::patch::PatchError;
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
    let invocations = policy.invocations(&Facts {
        object: Some(&object),
        ..*facts
    })?;
    for invocation in invocations {
        match applied(&invocation, facts, &object, merge) {
            Ok(changed) => object = changed,
            Err(why) => {
                let message = format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.name, invocation.binding
                );
                let attributes = facts.attributes;
                let rejection = ApiError {
                    code: 403,
                    message: message.clone(),
                    ..ApiError::denied_by_policy(attributes.kind, attributes.name, &message, "")
                };
                if let Some(rejection) = policy.failed(rejection) {
                    return Err(rejection);
                }
            }
        }
    }
    Ok(object)
}

/// Applies all mutations of a policy. Each receives the object as changed by the one before.
fn applied(
    invocation: &Invocation<'_>,
    facts: &Facts<'_>,
    object: &Value,
    merge: MergeInto<'_>,
) -> std::result::Result<Value, String> {
    let mut object = object.clone();
    let is_matched = invocation.matches(&Facts {
        object: Some(&object),
        ..*facts
    })?;
    if !is_matched {
        return Ok(object);
    }
    for mutation in &invocation.policy.mutations {
        let variables = invocation.variables(&Facts {
            object: Some(&object),
            ..*facts
        })?;
        object = match mutation {
            Mutation::Apply(rule) => {
                let config = rule.evaluate(&variables)?;
                if !matches!(config, CelValue::Map(_)) {
                    return Err("applyConfiguration must evaluate to Object".to_owned());
                }
                merge(&object, &to_json(&config)?).map_err(|why| {
                    format!("error applying patch: failed to convert patch object to typed object: {why}")
                })?
            }
            Mutation::Patch(rule) => {
                let patch = to_json(&rule.evaluate(&variables)?)?;
                match crate::patch::json::apply(&object, patch) {
                    Ok(patched) => patched,
                    // A test that fails skips the patch.
                    Err(PatchError::TestFailed(_)) => object,
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
    }
    Ok(object)
}
