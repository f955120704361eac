//! Mutations by MutatingAdmissionPolicies.

use std::sync::Arc;

use serde_json::Value;

use super::policies::{Facts, Mutation, Policies, Policy};
use crate::cel::{CelValue, Variables, to_json};
use crate::status::{ApiError, Result};

/// Merges a configuration into an object of the kind of the request.
pub(crate) type MergeInto<'a> = &'a (dyn Fn(&Value, &Value) -> Value + Send + Sync);

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
    let rounds = {
        let facts = Facts {
            object: Some(&object),
            ..*facts
        };
        policy.rounds(&facts)?
    };
    for round in rounds {
        let outcome = round
            .variables
            .and_then(|variables| applied(policy, &variables, &object, merge));
        match outcome {
            Ok(changed) => object = changed,
            Err(why) => {
                let message = format!(
                    "policy '{}' with binding '{}' denied request: {why}",
                    policy.name, round.binding
                );
                let attributes = facts.attributes;
                let rejection =
                    ApiError::denied_by_policy(attributes.kind, attributes.name, &message, "");
                if let Some(rejection) = policy.failed(rejection) {
                    return Err(rejection);
                }
            }
        }
    }
    Ok(object)
}

/// Applies all mutations of a policy. Each receives the object as it was before the policy.
fn applied(
    policy: &Policy,
    variables: &Variables,
    object: &Value,
    merge: MergeInto<'_>,
) -> std::result::Result<Value, String> {
    let mut object = object.clone();
    for mutation in &policy.mutations {
        object = match mutation {
            Mutation::Apply(rule) => {
                let config = rule.evaluate(variables)?;
                if !matches!(config, CelValue::Map(_)) {
                    return Err("applyConfiguration must evaluate to Object".to_owned());
                }
                merge(&object, &to_json(&config))
            }
            Mutation::Patch(rule) => {
                let patch = rule.evaluate(variables)?;
                let patch = to_json(&patch);
                crate::patch::json::apply(&object, patch).map_err(|error| error.to_string())?
            }
        };
    }
    Ok(object)
}
