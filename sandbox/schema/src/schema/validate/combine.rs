//! `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! Errors of unchanged values are not tolerated here: the server compares with old values in
//! structural positions only.

use serde_json::Value;

use super::super::node::Node;
use super::super::path::Path;
use super::Walk;
use super::outcome::Outcome;

impl Walk<'_> {
    pub(super) fn combinations(&self, node: &Node, value: &Value, path: &Path<'_>) -> Outcome {
        let rules = &node.rules;
        let mut outcome = Outcome::default();
        outcome.count(1);
        if !rules.any_of.is_empty() {
            self.any_of(&rules.any_of, value, path, &mut outcome);
        }
        if !rules.one_of.is_empty() {
            self.one_of(&rules.one_of, value, path, &mut outcome);
        }
        if !rules.all_of.is_empty() {
            self.all_of(&rules.all_of, value, path, &mut outcome);
        }
        if let Some(not) = rules.not.as_deref()
            && self.value(not, value, None, path).is_valid()
        {
            let at = path.dotted();
            outcome.add(self.general(&format!("{at:?} must not validate the schema (not)")));
        }
        outcome
    }

    fn any_of(&self, nodes: &[Node], value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        for node in nodes {
            let found = self.value(node, value, None, path);
            if found.is_valid() {
                outcome.merge(found);
                return;
            }
            best = Some(closer(best, found));
        }
        let at = path.dotted();
        outcome.add(self.general(&format!("{at:?} must validate at least one schema (anyOf)")));
        if let Some(best) = best {
            outcome.merge(best);
        }
    }

    fn one_of(&self, nodes: &[Node], value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid: usize = 0;
        for node in nodes {
            let found = self.value(node, value, None, path);
            if found.is_valid() {
                valid = valid.saturating_add(1);
                best = None;
                first.get_or_insert(found);
            } else if valid == 0 {
                best = Some(closer(best, found));
            }
        }
        if valid == 1 {
            if let Some(first) = first {
                outcome.merge(first);
            }
            return;
        }
        let found = match valid {
            0 => "Found none valid".to_owned(),
            more => format!("Found {more} valid alternatives"),
        };
        let at = path.dotted();
        let detail = format!("{at:?} must validate one and only one schema (oneOf). {found}");
        outcome.add(self.general(&detail));
        if let Some(best) = best {
            outcome.merge(best);
        }
    }

    fn all_of(&self, nodes: &[Node], value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let mut valid: usize = 0;
        for node in nodes {
            let found = self.value(node, value, None, path);
            if found.is_valid() {
                valid = valid.saturating_add(1);
            }
            outcome.merge(found);
        }
        if valid != nodes.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let at = path.dotted();
            let detail = format!("{at:?} must validate all the schemas (allOf){none}");
            outcome.add(self.general(&detail));
        }
    }
}

/// Returns the failure with more passed checks; of two equals the earlier one.
fn closer(best: Option<Outcome>, found: Outcome) -> Outcome {
    match best {
        Some(best) if best.matches >= found.matches => best,
        _ => found,
    }
}
