//! Types of calls, by the signatures of functions and operators.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::super::signatures::{Signature, signatures};
use super::super::tokens::Token;
use super::super::types::Type;
use super::super::{names, patterns, times};
use super::{Check, Checked};

impl<'a> Check<'a> {
    pub(super) fn call(&mut self, call: &'a CallExpr) -> Checked {
        let name = call.func_name.as_str();
        match (name, call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                self.boolean(left);
                let at = self.at(&Token::Mark(name.trim_matches('_').to_owned()));
                self.boolean(right);
                (Type::plain("bool"), at)
            }
            (operators::OPT_SELECT, [operand, field]) => {
                let (of, _) = self.part(operand);
                let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                    return (Type::Dyn, 0);
                };
                let at = self.at(&Token::Field(field.inner().to_owned()));
                match self.field(&of, field.inner(), at) {
                    optional @ (Type::Optional(_), _) => optional,
                    (of, at) => (Type::Optional(Box::new(of)), at),
                }
            }
            (operators::LOGICAL_NOT | operators::NEGATE, [operand]) => {
                let at = self.at(&Token::Mark(name.trim_end_matches('_').to_owned()));
                let (of, _) = self.part(operand);
                self.resolve(name, &[of], false, at)
            }
            (_, [first, rest @ ..]) if mark(name).is_some() && call.target.is_none() => {
                let mut types = vec![self.part(first).0];
                let at = self.at(&Token::Mark(mark(name).unwrap_or_default().to_owned()));
                for part in rest {
                    types.push(self.part(part).0);
                }
                self.resolve(name, &types, false, at)
            }
            _ => self.function(call),
        }
    }

    fn function(&mut self, call: &'a CallExpr) -> Checked {
        let mut name = call.func_name.clone();
        let mut types = Vec::new();
        let mut is_method = false;
        if let Some(target) = &call.target {
            let qualified = names::path(target).map(|path| format!("{}.{name}", path.join(".")));
            if let Some(qualified) = qualified.filter(|it| !signatures(it).is_empty()) {
                let root = qualified.split('.').next().unwrap_or_default();
                self.tokens.take(&Token::Name(root.to_owned()));
                name = qualified;
            } else {
                is_method = true;
                types.push(self.part(target).0);
            }
        }
        let at = self.at(&Token::Call(call.func_name.clone()));
        for part in &call.args {
            let before = self.mixed;
            self.mixed |= name == "format";
            let (of, start) = self.part(part);
            self.mixed = before;
            self.constant(&name, part, start);
            types.push(of);
        }
        if signatures(&name).is_empty() && !name.starts_with('@') {
            return self.undeclared(at, &name);
        }
        self.resolve(&name, &types, is_method, at)
    }

    /// Checks constant arguments.
    fn constant(&mut self, name: &str, part: &IdedExpr, at: usize) {
        let Expr::Literal(LiteralValue::String(text)) = &part.expr else {
            return;
        };
        let value = kube_cel::cel::Value::from(text.inner());
        let invalid = match name {
            "matches" => patterns::check(text.inner()).is_err(),
            "timestamp" => times::timestamp(&value).is_err(),
            "duration" => times::duration(&value).is_err(),
            _ => false,
        };
        if invalid {
            self.fail(at, format!("invalid {name} argument"));
        }
    }

    /// Returns the type of the result of a call.
    fn resolve(&mut self, name: &str, types: &[Type], is_method: bool, at: usize) -> Checked {
        let mut result: Option<Type> = None;
        for signature in signatures(name) {
            let Some(of) = self.applied(signature, types, is_method) else {
                continue;
            };
            result = Some(match result {
                Some(known) if known != of => Type::Dyn,
                _ => of,
            });
        }
        if let Some(of) = result {
            return (of, at);
        }
        let shown: Vec<String> = types
            .iter()
            .map(|of| self.bindings.resolved(of).to_string())
            .collect();
        let applied = match shown.split_first() {
            Some((target, args)) if is_method => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let problem = format!("found no matching overload for '{name}' applied to '{applied}'");
        self.fail(at, problem)
    }

    /// Returns the type of the result if a signature fits.
    fn applied(&mut self, of: &Signature, types: &[Type], is_method: bool) -> Option<Type> {
        if of.is_method != is_method || of.parameters.len() != types.len() {
            return None;
        }
        let mut bindings = self.bindings.clone();
        let first = bindings.fresh(2);
        for (parameter, of) in of.parameters.iter().zip(types) {
            if !bindings.unify(&parameter.shifted(first), of) {
                return None;
            }
        }
        self.bindings = bindings;
        Some(self.bindings.resolved(&of.result.shifted(first)))
    }
}

/// Returns the token of an operator.
fn mark(name: &str) -> Option<&str> {
    match name {
        operators::IN => Some("in"),
        operators::INDEX => Some("["),
        operators::OPT_INDEX => Some("[?"),
        operators::CONDITIONAL => Some("?"),
        _ => name.strip_prefix('_')?.strip_suffix('_'),
    }
}
