//! Fault rules as documents, for files and the control endpoint.
//!
//! ```yaml
//! - {fault: error, code: 409, verbs: [patch], kind: configmaps, probability: 0.3}
//! - {fault: error, code: 429, retryAfter: 1, times: 5}
//! - {fault: latency, delay: 100ms, upTo: 2s, verbs: [list]}
//! - {fault: dropEvents, kind: pods, lasting: 30s}
//! - {fault: lag, delay: 30s, user: operator}
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rule::{Effect, Fault, Verb};

/// The error of an invalid document of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

/// The name of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Name {
    Error,
    Latency,
    Reset,
    HalfOpen,
    Compact,
    DropEvents,
    DelayEvents,
    CutWatch,
    FreezeWatch,
    Lag,
}

/// The name of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VerbName {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl From<VerbName> for Verb {
    fn from(name: VerbName) -> Self {
        match name {
            VerbName::Get => Self::Get,
            VerbName::List => Self::List,
            VerbName::Watch => Self::Watch,
            VerbName::Create => Self::Create,
            VerbName::Update => Self::Update,
            VerbName::Patch => Self::Patch,
            VerbName::Delete => Self::Delete,
            VerbName::DeleteCollection => Self::DeleteCollection,
        }
    }
}

impl From<Verb> for VerbName {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Get => Self::Get,
            Verb::List => Self::List,
            Verb::Watch => Self::Watch,
            Verb::Create => Self::Create,
            Verb::Update => Self::Update,
            Verb::Patch => Self::Patch,
            Verb::Delete => Self::Delete,
            Verb::DeleteCollection => Self::DeleteCollection,
        }
    }
}

/// A rule as a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    fault: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up_to: Option<Span>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<VerbName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starting_after: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lasting: Option<Span>,
}

/// A duration such as `200ms`, `1.5s`, `2m` or `1h`; a plain number is in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
struct Span(Duration);

impl TryFrom<Value> for Span {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let wrong = || format!("invalid duration {value}: expected one such as 200ms, 1.5s or 2m");
        let seconds = match &value {
            Value::Number(number) => number.as_f64().ok_or_else(wrong)?,
            Value::String(text) => {
                let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
                let unit = match text.get(digits.len()..) {
                    Some("ms") => 0.001,
                    Some("s") => 1.0,
                    Some("m") => 60.0,
                    Some("h") => 3600.0,
                    _ => return Err(wrong()),
                };
                digits.parse::<f64>().map_err(|_| wrong())? * unit
            }
            _ => return Err(wrong()),
        };
        Duration::try_from_secs_f64(seconds)
            .map(Self)
            .map_err(|_| wrong())
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}ms", self.0.as_millis()))
    }
}

/// Reads a rule, a list of rules, or `{rules: [...]}`.
pub fn read(document: &Value) -> Result<Vec<Fault>, RuleError> {
    let rules: Vec<&Value> = match document {
        Value::Array(rules) => rules.iter().collect(),
        Value::Object(map) => match map.get("rules") {
            Some(Value::Array(rules)) if map.len() == 1 => rules.iter().collect(),
            Some(_) => {
                return Err(RuleError(
                    "rules: expected a list, and no other fields".into(),
                ));
            }
            None => vec![document],
        },
        _ => return Err(RuleError("expected a list of rules".to_owned())),
    };
    let read = rules.into_iter().enumerate().map(|(index, rule)| {
        let number = index + 1;
        let spec: Spec = serde_json::from_value(rule.clone())
            .map_err(|error| RuleError(format!("rule {number}: {error}")))?;
        spec.fault()
            .map_err(|why| RuleError(format!("rule {number}: {why}")))
    });
    read.collect()
}

/// Parses a document in YAML or JSON and reads its rules. Duplicate keys and further documents are
/// errors: rules would be lost silently.
pub(super) fn parse(text: &str) -> Result<Vec<Fault>, RuleError> {
    let text = text.strip_prefix("---\n").unwrap_or(text);
    if text
        .split("\n---")
        .skip(1)
        .any(|rest| !rest.trim().is_empty())
    {
        return Err(RuleError("expected one document, found several".to_owned()));
    }
    let document = crate::request::decode::yaml(text.as_bytes()).map_err(RuleError)?;
    match document.complaints.into_iter().next() {
        Some(duplicate) => Err(RuleError(duplicate)),
        None => read(&document.value),
    }
}

/// Returns a rule as a document.
pub(super) fn write(fault: &Fault) -> Value {
    serde_json::to_value(Spec::of(fault)).unwrap_or_default()
}

impl Spec {
    fn fault(self) -> Result<Fault, String> {
        self.check()?;
        let delay = self.delay.map(|span| span.0).unwrap_or_default();
        let mut fault = match self.fault {
            Name::Error => Fault::error(self.code.unwrap_or(500)),
            Name::Latency => Fault::latency_between(delay, self.up_to.map_or(delay, |span| span.0)),
            Name::Reset => Fault::reset(),
            Name::HalfOpen => Fault::half_open(),
            Name::Compact => Fault::compact(),
            Name::DropEvents => Fault::drop_events(),
            Name::DelayEvents => Fault::delay_events(delay),
            Name::CutWatch => Fault::cut_watch(),
            Name::FreezeWatch => Fault::freeze_watch(),
            Name::Lag => Fault::lag(delay),
        };
        if let Some(seconds) = self.retry_after {
            fault = fault.retry_after(seconds);
        }
        fault.verbs = self.verbs.into_iter().map(Verb::from).collect();
        fault.kind = self.kind;
        fault.subresource = self.subresource;
        fault.namespace = self.namespace;
        fault.name = self.name;
        fault.user = self.user;
        if let Some(probability) = self.probability {
            fault = fault.probability(probability);
        }
        fault.times = self.times;
        fault.after = self.starting_after.map(|span| span.0).unwrap_or_default();
        fault.lasting = self.lasting.map(|span| span.0);
        Ok(fault)
    }

    /// Rejects fields without effect, and values out of range.
    fn check(&self) -> Result<(), String> {
        let is_error = self.fault == Name::Error;
        let delays = matches!(self.fault, Name::Latency | Name::DelayEvents | Name::Lag);
        if is_error && !self.code.is_none_or(|code| (400..600).contains(&code)) {
            return Err("invalid code: must be from 400 to 599".to_owned());
        }
        if !is_error && (self.code.is_some() || self.retry_after.is_some()) {
            return Err("code and retryAfter are for the fault error only".to_owned());
        }
        if delays != self.delay.is_some() {
            return Err(
                "delay is required for latency, delayEvents and lag, and for those only".into(),
            );
        }
        if self.up_to.is_some() && self.fault != Name::Latency {
            return Err("upTo is for the fault latency only".to_owned());
        }
        if let (Some(Span(least)), Some(Span(most))) = (self.delay, self.up_to)
            && most < least
        {
            return Err("invalid upTo: must not be less than delay".to_owned());
        }
        if let Some(probability) = self.probability
            && !(0.0..=1.0).contains(&probability)
        {
            return Err(format!(
                "invalid probability {probability}: must be from 0 to 1"
            ));
        }
        Ok(())
    }

    fn of(fault: &Fault) -> Self {
        let (mut code, mut retry, mut delay, mut up_to) = (None, None, None, None);
        let name = match &fault.effect {
            Effect::Error {
                code: status,
                retry_after,
            } => {
                code = Some(*status);
                retry = *retry_after;
                Name::Error
            }
            Effect::Latency { least, most } => {
                delay = Some(Span(*least));
                up_to = (most != least).then_some(Span(*most));
                Name::Latency
            }
            Effect::DelayEvents(by) => {
                delay = Some(Span(*by));
                Name::DelayEvents
            }
            Effect::Lag(by) => {
                delay = Some(Span(*by));
                Name::Lag
            }
            Effect::Reset => Name::Reset,
            Effect::HalfOpen => Name::HalfOpen,
            Effect::Compact => Name::Compact,
            Effect::DropEvents => Name::DropEvents,
            Effect::CutWatch => Name::CutWatch,
            Effect::FreezeWatch => Name::FreezeWatch,
        };
        Self {
            fault: name,
            code,
            retry_after: retry,
            delay,
            up_to,
            verbs: fault.verbs.iter().copied().map(VerbName::from).collect(),
            kind: fault.kind.clone(),
            subresource: fault.subresource.clone(),
            namespace: fault.namespace.clone(),
            name: fault.name.clone(),
            user: fault.user.clone(),
            probability: Some(fault.probability).filter(|probability| *probability < 1.0),
            times: fault.times,
            starting_after: (!fault.after.is_zero()).then_some(Span(fault.after)),
            lasting: fault.lasting.map(Span),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_survive_a_round_trip() {
        let rules = [
            Fault::error(409)
                .verb(Verb::Patch)
                .kind("configmaps")
                .probability(0.25),
            Fault::error(429).retry_after(1).times(5).user("ann"),
            Fault::latency_between(Duration::from_millis(100), Duration::from_secs(2)),
            Fault::reset()
                .namespace("a")
                .name("b")
                .subresource("status"),
            Fault::half_open().lasting(Duration::from_secs(60)),
            Fault::compact().starting_after(Duration::from_millis(1500)),
            Fault::drop_events(),
            Fault::delay_events(Duration::from_secs(5)),
            Fault::cut_watch(),
            Fault::freeze_watch().verb(Verb::DeleteCollection),
            Fault::lag(Duration::from_secs(30)).user("operator"),
        ];
        let documents: Vec<Value> = rules.iter().map(write).collect();
        assert_eq!(read(&json!(documents)).unwrap(), rules);
        assert_eq!(read(&json!({ "rules": documents })).unwrap(), rules);
        assert_eq!(read(&documents[0]).unwrap(), rules[..1]);
        let short = json!({"fault": "latency", "delay": "1.5s", "lasting": 2});
        let fault = Fault::latency(Duration::from_millis(1500)).lasting(Duration::from_secs(2));
        assert_eq!(read(&short).unwrap(), [fault]);
    }

    #[test]
    fn ambiguous_files_are_rejected() {
        assert_eq!(parse("---\n- fault: reset\n---\n").unwrap().len(), 1);
        for (file, expected) in [
            (
                "- fault: reset\n---\n- fault: compact\n",
                "expected one document, found several",
            ),
            (
                "fault: reset\nverbs: [get]\nverbs: [list]\n",
                "line 3: key \"verbs\" already set in map",
            ),
            ("", "rule 1: missing field `fault`"),
        ] {
            assert_eq!(parse(file).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn invalid_rules_are_rejected_by_name() {
        for (rule, expected) in [
            (json!("x"), "expected a list of rules"),
            (json!([{}]), "rule 1: missing field `fault`"),
            (
                json!([{"fault": "reset"}, {"fault": "rest"}]),
                "rule 2: unknown variant `rest`",
            ),
            (
                json!({"fault": "reset", "verb": "get"}),
                "unknown field `verb`",
            ),
            (
                json!({"fault": "reset", "verbs": ["read"]}),
                "unknown variant `read`",
            ),
            (json!({"fault": "error", "code": 200}), "invalid code"),
            (
                json!({"fault": "reset", "code": 500}),
                "for the fault error only",
            ),
            (json!({"fault": "latency"}), "delay is required"),
            (json!({"fault": "lag"}), "delay is required"),
            (
                json!({"fault": "reset", "delay": "1s"}),
                "delay is required",
            ),
            (
                json!({"fault": "latency", "delay": "1 day"}),
                "invalid duration",
            ),
            (json!({"fault": "latency", "delay": -1}), "invalid duration"),
            (
                json!({"fault": "latency", "delay": "2s", "upTo": "1s"}),
                "invalid upTo",
            ),
            (
                json!({"fault": "reset", "probability": 1.5}),
                "invalid probability",
            ),
        ] {
            let error = read(&rule).unwrap_err().to_string();
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }
}
