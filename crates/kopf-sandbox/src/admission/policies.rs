//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::conditions::{Conditions, Match, variables};
use super::configuration::{Webhook, list, text};
use super::matching::{Attributes, matched};
use crate::cel::{self, CelValue, Expression, Variables, dynamic};
use crate::status::{ApiError, Result};

/// All policies with bindings, in the order of their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    pub(super) validating: Vec<Arc<Policy>>,
    pub(super) mutating: Vec<Arc<Policy>>,
}

/// A policy and its bindings.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    constraints: Constraints,
    conditions: Conditions,
    ignores_failures: bool,
    param_kind: Option<ParamKind>,
    variables: Vec<(String, Rule)>,
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

    fn value(&self, variables: &Variables) -> std::result::Result<CelValue, String> {
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
    expression: Rule,
    message: String,
    message_expression: Option<Rule>,
    reason: String,
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
pub(crate) struct ParamKind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// The parameter reference of a binding.
#[derive(Debug, Clone)]
pub(crate) struct ParamRef {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) selector: Option<Value>,
    denies_if_missing: bool,
}

/// The requests to which a policy or binding applies.
#[derive(Debug)]
struct Constraints {
    /// One matcher per rule, with the resource names it is restricted to.
    rules: Vec<(Webhook, Vec<String>)>,
    excluded: Vec<(Webhook, Vec<String>)>,
    /// There are no rules: only the selectors apply.
    any_resource: bool,
    selectors: Webhook,
}

impl Constraints {
    fn read(resources: &Value) -> Self {
        let with_rules = |rules: Value| {
            Webhook::read(&json!({
                "rules": rules,
                "namespaceSelector": resources.get("namespaceSelector"),
                "objectSelector": resources.get("objectSelector"),
                "matchPolicy": resources.get("matchPolicy"),
            }))
        };
        let read = |field: &str| -> Vec<(Webhook, Vec<String>)> {
            list(resources.get(field))
                .iter()
                .map(|rule| {
                    let names = list(rule.get("resourceNames"));
                    let names = names.iter().map(|name| text(Some(name))).collect();
                    (with_rules(json!([rule])), names)
                })
                .collect()
        };
        let everything = json!([{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
            "scope": "*",
        }]);
        Self {
            any_resource: list(resources.get("resourceRules")).is_empty(),
            rules: read("resourceRules"),
            excluded: read("excludeResourceRules"),
            selectors: with_rules(everything),
        }
    }

    fn concerns(&self, facts: &Facts<'_>) -> Result<bool> {
        let any = |rules: &[(Webhook, Vec<String>)]| -> Result<bool> {
            for (matcher, names) in rules {
                let named = names.is_empty() || names.iter().any(|it| it == facts.attributes.name);
                if named && facts.matches(matcher)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if any(&self.excluded)? {
            return Ok(false);
        }
        if self.any_resource {
            return facts.matches(&self.selectors);
        }
        any(&self.rules)
    }
}

/// Finds the parameters of a binding.
pub(crate) type FindParams<'a> =
    &'a (dyn Fn(&ParamKind, &ParamRef) -> std::result::Result<Vec<Value>, String> + Send + Sync);

/// A request, as passed to policies.
pub(crate) struct Facts<'a> {
    pub(crate) attributes: &'a Attributes<'a>,
    pub(crate) object: Option<&'a Value>,
    pub(crate) old: Option<&'a Value>,
    pub(crate) namespace: Option<&'a Value>,
    pub(crate) find_params: FindParams<'a>,
}

impl Facts<'_> {
    fn matches(&self, matcher: &Webhook) -> Result<bool> {
        Ok(matched(matcher, self.attributes, self.object, self.old)?.is_some())
    }

    /// Returns the variables of expressions, except those that the policy declares.
    fn variables(&self, params: Option<&Value>) -> Variables {
        let version = self.attributes.version;
        let mut all = variables(self.attributes, version, self.object, self.old);
        let value = |value: Option<&Value>| value.map_or(CelValue::Null, dynamic);
        all.add("params", value(params));
        all.add("namespaceObject", value(self.namespace));
        all
    }
}

/// A binding of a policy with one of its parameters.
pub(super) struct Invocation<'a> {
    pub(super) policy: &'a Policy,
    pub(super) binding: &'a str,
    actions: &'a [String],
    /// The error is the reason why the policy cannot be evaluated.
    params: std::result::Result<Option<Value>, String>,
}

impl Invocation<'_> {
    fn params(&self) -> std::result::Result<Option<&Value>, String> {
        let params = self.params.as_ref().map_err(Clone::clone)?;
        Ok(params.as_ref())
    }

    /// Returns `true` if the conditions of the policy match a request.
    ///
    /// # Errors
    ///
    /// The reason why the policy cannot be evaluated.
    pub(super) fn matches(&self, facts: &Facts<'_>) -> std::result::Result<bool, String> {
        let variables = facts.variables(self.params()?);
        match self.policy.conditions.evaluate(&variables) {
            Match::Yes => Ok(true),
            Match::No => Ok(false),
            Match::Failed(why) => Err(why),
        }
    }

    /// Returns the variables of the expressions of the policy.
    ///
    /// # Errors
    ///
    /// The reason why the policy cannot be evaluated.
    pub(super) fn variables(&self, facts: &Facts<'_>) -> std::result::Result<Variables, String> {
        let mut all = facts.variables(self.params()?);
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
        Ok(all)
    }
}

impl Policies {
    /// Reads all policies and bindings.
    pub(crate) fn read(
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

    pub(crate) fn is_empty(&self) -> bool {
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

impl Invocation<'_> {
    fn judge(&self, facts: &Facts<'_>, warnings: &mut Vec<String>) -> Result<()> {
        let matches = self.matches(facts);
        let variables = match matches.and_then(|yes| yes.then(|| self.variables(facts)).transpose())
        {
            Ok(Some(variables)) => variables,
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

impl Validation {
    fn message(&self, variables: &Variables) -> String {
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
