//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.

use std::collections::BTreeMap;
use std::sync::Arc;

use kopf_sandbox_schema::cel::{CelValue, Expression, Variables, dynamic};
use serde_json::Value;

use super::conditions::{Conditions, variables};
use super::configuration::{Webhook, list, text};
use super::constraints::Constraints;
use super::invocation::Invocation;
use super::matching::{Attributes, matched};
use crate::status::Result;

/// All policies with bindings, in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    pub(super) validating: Vec<Arc<Policy>>,
    pub(super) mutating: Vec<Arc<Policy>>,
}

/// A policy and its bindings.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    constraints: Constraints,
    pub(super) conditions: Conditions,
    ignores_failures: bool,
    param_kind: Option<ParamKind>,
    pub(super) variables: Vec<(String, Rule)>,
    pub(super) validations: Vec<Validation>,
    pub(super) mutations: Vec<Mutation>,
    bindings: Vec<Binding>,
}

/// An expression and its source. The error is that of the parser.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    text: String,
    parsed: std::result::Result<Expression, String>,
}

impl Rule {
    fn read(text: &str) -> Self {
        Self {
            text: text.trim().to_owned(),
            parsed: Expression::parse_with_objects(text),
        }
    }

    pub(super) fn value(&self, variables: &Variables) -> std::result::Result<CelValue, String> {
        match &self.parsed {
            Ok(expression) => expression.evaluate(variables),
            Err(error) => Err(error.clone()),
        }
    }

    pub(super) fn evaluate(&self, variables: &Variables) -> std::result::Result<CelValue, String> {
        let value = self.value(variables);
        value.map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Rule,
    message: String,
    message_expression: Option<Rule>,
    pub(super) reason: String,
}

/// One change of a MutatingAdmissionPolicy.
#[derive(Debug)]
pub(super) enum Mutation {
    Apply(Rule),
    Patch(Rule),
}

#[derive(Debug)]
struct Binding {
    name: String,
    resources: Option<Constraints>,
    params: Option<ParamRef>,
    actions: Vec<String>,
}

/// The parameter kind of a policy.
#[derive(Debug, Clone)]
pub struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

/// The parameter reference of a binding.
#[derive(Debug, Clone)]
pub struct ParamRef {
    pub name: String,
    pub namespace: String,
    pub selector: Option<Value>,
    denies_if_missing: bool,
}

/// Finds the parameters of a binding.
pub(crate) type FindParams<'a> =
    &'a (dyn Fn(&ParamKind, &ParamRef) -> std::result::Result<Vec<Value>, String> + Send + Sync);

/// A request, as passed to policies.
#[expect(missing_debug_implementations, reason = "it borrows a function")]
pub struct Facts<'a> {
    pub(crate) attributes: &'a Attributes<'a>,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    pub namespace: Option<&'a Value>,
    pub(crate) find_params: FindParams<'a>,
}

impl Facts<'_> {
    pub(super) fn matches(&self, matcher: &Webhook) -> Result<bool> {
        Ok(matched(matcher, self.attributes, self.object, self.old)?.is_some())
    }

    /// Returns the variables of expressions, except those that the policy declares.
    pub(super) fn variables(&self, params: Option<&Value>) -> Variables {
        let version = self.attributes.version;
        let mut all = variables(self.attributes, version, self.object, self.old);
        let value = |value: Option<&Value>| value.map_or(CelValue::Null, dynamic);
        all.add("params", value(params));
        all.add("namespaceObject", value(self.namespace));
        all
    }
}

impl Policies {
    /// Reads all policies and bindings.
    pub fn read(
        validating: &[Value],
        validating_bindings: &[Value],
        mutating: &[Value],
        mutating_bindings: &[Value],
    ) -> Self {
        Self {
            validating: policies(validating, validating_bindings),
            mutating: policies(mutating, mutating_bindings),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.validating.is_empty() && self.mutating.is_empty()
    }
}

fn policies(policies: &[Value], bindings: &[Value]) -> Vec<Arc<Policy>> {
    let mut found: BTreeMap<String, Arc<Policy>> = BTreeMap::new();
    for policy in policies {
        let policy = Policy::read(policy, bindings);
        if !policy.bindings.is_empty() {
            found.insert(policy.name.clone(), Arc::new(policy));
        }
    }
    found.into_values().collect()
}

impl Policy {
    fn read(policy: &Value, bindings: &[Value]) -> Self {
        let name = text(policy.pointer("/metadata/name"));
        let null = Value::Null;
        let spec = policy.get("spec").unwrap_or(&null);
        let mut own: Vec<Binding> = bindings
            .iter()
            .filter(|binding| text(binding.pointer("/spec/policyName")) == name)
            .map(Binding::read)
            .collect();
        own.sort_by(|a, b| a.name.cmp(&b.name));
        let rule = |value: Option<&Value>| Rule::read(&text(value));
        Self {
            constraints: Constraints::read(spec.get("matchConstraints").unwrap_or(&null)),
            conditions: Conditions::read(spec.get("matchConditions")),
            ignores_failures: text(spec.get("failurePolicy")) == "Ignore",
            param_kind: spec
                .get("paramKind")
                .filter(|kind| kind.is_object())
                .map(|kind| ParamKind {
                    api_version: text(kind.get("apiVersion")),
                    kind: text(kind.get("kind")),
                }),
            variables: list(spec.get("variables"))
                .iter()
                .map(|variable| {
                    let name = text(variable.get("name"));
                    (name, rule(variable.get("expression")))
                })
                .collect(),
            validations: list(spec.get("validations"))
                .iter()
                .map(|validation| Validation {
                    expression: rule(validation.get("expression")),
                    message: text(validation.get("message")).trim().to_owned(),
                    message_expression: validation
                        .get("messageExpression")
                        .filter(|text| !text.is_null())
                        .map(|text| rule(Some(text))),
                    reason: text(validation.get("reason")),
                })
                .collect(),
            mutations: list(spec.get("mutations"))
                .iter()
                .map(|mutation| match text(mutation.get("patchType")).as_str() {
                    "JSONPatch" => Mutation::Patch(rule(mutation.pointer("/jsonPatch/expression"))),
                    _ => Mutation::Apply(rule(mutation.pointer("/applyConfiguration/expression"))),
                })
                .collect(),
            bindings: own,
            name,
        }
    }

    /// Returns the bindings that apply to a request, with their parameters.
    pub(super) fn invocations<'a>(&'a self, facts: &Facts<'_>) -> Result<Vec<Invocation<'a>>> {
        let mut invocations = Vec::new();
        if !self.constraints.concerns(facts)? {
            return Ok(invocations);
        }
        for binding in &self.bindings {
            if let Some(resources) = &binding.resources
                && !resources.concerns(facts)?
            {
                continue;
            }
            let params = match self.params(binding, facts) {
                Ok(params) => params.into_iter().map(Ok).collect(),
                Err(why) => vec![Err(why)],
            };
            invocations.extend(params.into_iter().map(|params| Invocation {
                policy: self,
                binding: &binding.name,
                actions: &binding.actions,
                params,
            }));
        }
        Ok(invocations)
    }

    /// Returns the parameters of a binding; one absent parameter if the policy has no `paramKind`.
    fn params(
        &self,
        binding: &Binding,
        facts: &Facts<'_>,
    ) -> std::result::Result<Vec<Option<Value>>, String> {
        let (Some(kind), Some(reference)) = (&self.param_kind, &binding.params) else {
            return Ok(vec![None]);
        };
        let found = (facts.find_params)(kind, reference)?;
        if found.is_empty() && reference.denies_if_missing {
            return Err(
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction".to_owned(),
            );
        }
        Ok(found.into_iter().map(Some).collect())
    }

    /// Returns the rejection, or `None` if the policy ignores failures.
    pub(super) fn failed<T>(&self, rejection: T) -> Option<T> {
        (!self.ignores_failures).then_some(rejection)
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let null = Value::Null;
        let spec = binding.get("spec").unwrap_or(&null);
        let present = |field: &str| spec.get(field).filter(|value| value.is_object());
        Self {
            name: text(binding.pointer("/metadata/name")),
            resources: present("matchResources").map(Constraints::read),
            params: present("paramRef").map(|reference| ParamRef {
                name: text(reference.get("name")),
                namespace: text(reference.get("namespace")),
                selector: reference
                    .get("selector")
                    .filter(|selector| selector.is_object())
                    .cloned(),
                denies_if_missing: text(reference.get("parameterNotFoundAction")) == "Deny",
            }),
            actions: list(spec.get("validationActions"))
                .iter()
                .map(|action| text(Some(action)))
                .collect(),
        }
    }
}

impl Policies {
    /// Evaluates the validating policies.
    ///
    /// # Errors
    ///
    /// The first denial.
    pub(crate) fn validate(&self, facts: &Facts<'_>, warnings: &mut Vec<String>) -> Result<()> {
        for policy in &self.validating {
            for invocation in policy.invocations(facts)? {
                invocation.judge(facts, warnings)?;
            }
        }
        Ok(())
    }
}

impl Validation {
    pub(super) fn message(&self, variables: &Variables) -> String {
        let computed = self.message_expression.as_ref().and_then(|expression| {
            match expression.evaluate(variables) {
                Ok(CelValue::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            }
        });
        computed
            .filter(|text| !text.is_empty() && !text.contains(['\n', '\r']))
            .or_else(|| Some(self.message.clone()).filter(|message| !message.is_empty()))
            .unwrap_or_else(|| format!("failed expression: {}", self.expression.text))
    }
}
