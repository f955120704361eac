//! Static checks of expressions: names, fields and the types of arguments.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};

use super::names;
use super::opaque::TYPES;
use super::signatures::{Signature, signatures};
use super::tokens::{Token, Tokens, located};
use super::types::{Bindings, Type};

/// A check of one expression.
struct Check<'a> {
    tokens: Tokens,
    scope: Vec<(&'a str, Type)>,
    bindings: Bindings,
    /// Errors with their positions.
    errors: Vec<(usize, String)>,
    /// Types that can be constructed: `Object`, `JSONPatch`.
    constructs: bool,
    /// Literals of lists can have items of different types: the arguments of `format`.
    mixed: bool,
}

/// The type and the position of a part.
type Checked = (Type, usize);

/// Returns the type of an expression.
///
/// # Errors
///
/// All errors of the expression, with their positions.
pub(super) fn checked(
    text: &str,
    parsed: &IdedExpr,
    variables: &[(&str, Type)],
    constructs: bool,
) -> Result<Type, String> {
    let mut check = Check {
        tokens: Tokens::of(text),
        scope: variables.to_vec(),
        bindings: Bindings::default(),
        errors: Vec::new(),
        constructs,
        mixed: false,
    };
    let (of, _) = check.part(parsed);
    if check.errors.is_empty() {
        return Ok(check.bindings.resolved(&of));
    }
    check.errors.sort_by_key(|(at, _)| *at);
    let errors = check.errors.iter();
    let errors = errors.map(|(at, problem)| located(text, *at, problem));
    Err(errors.collect::<Vec<_>>().join("\n"))
}

impl<'a> Check<'a> {
    fn fail(&mut self, at: usize, problem: String) -> Checked {
        self.errors.push((at, problem));
        (Type::Dyn, at)
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Checked {
        self.fail(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn at(&mut self, token: &Token) -> usize {
        self.tokens.take(token).unwrap_or_default()
    }

    fn fresh(&mut self) -> Type {
        Type::Variable(self.bindings.fresh(1))
    }

    fn part(&mut self, whole: &'a IdedExpr) -> Checked {
        match &whole.expr {
            Expr::Literal(literal) => {
                let is_negative = match literal {
                    LiteralValue::Int(number) => *number.inner() < 0,
                    LiteralValue::Double(number) => *number.inner() < 0.0,
                    _ => false,
                };
                if is_negative {
                    self.tokens.take(&Token::Mark("-".to_owned()));
                }
                (literal_type(literal), self.at(&Token::Literal))
            }
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.select(select, whole),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::Call(call) => self.call(call),
            Expr::Struct(made) => {
                let root = made.type_name.split('.').next().unwrap_or_default();
                self.at(&Token::Name(root.to_owned()));
                let at = self.at(&Token::Mark("{".to_owned()));
                for entry in &made.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.part(&field.value);
                    }
                }
                match root {
                    "Object" | "JSONPatch" if self.constructs => (Type::plain(&made.type_name), at),
                    "google" => (Type::Dyn, at),
                    _ => self.undeclared(at, &made.type_name),
                }
            }
            Expr::Unspecified => (Type::Dyn, 0),
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let known = self.scope.iter().rev().find(|(known, _)| *known == name);
        known.map(|(_, of)| of.clone())
    }

    fn name(&mut self, name: &str) -> Checked {
        let at = self.at(&Token::Name(name.to_owned()));
        match self.variable(name) {
            Some(of) => (of, at),
            None if TYPES.contains(&name) => (Type::Meta(Box::new(Type::plain(name))), at),
            None => self.undeclared(at, name),
        }
    }

    fn select(&mut self, select: &'a SelectExpr, whole: &'a IdedExpr) -> Checked {
        let path = names::path(whole).map(|path| path.join("."));
        if let Some(path) = path.filter(|path| TYPES.contains(&path.as_str())) {
            let of = Type::Meta(Box::new(Type::plain(&path)));
            return (of, self.at(&Token::Field(select.field.clone())));
        }
        let called = select.test.then(|| self.at(&Token::Call("has".to_owned())));
        let (operand, _) = self.part(&select.operand);
        let field = self.at(&Token::Field(select.field.clone()));
        let (of, at) = self.field(&operand, &select.field, called.unwrap_or(field));
        if select.test {
            return (Type::plain("bool"), at);
        }
        (of, at)
    }

    fn field(&mut self, operand: &Type, name: &str, at: usize) -> Checked {
        match self.bindings.resolved(operand) {
            Type::Object(object) => match object.fields.get(name) {
                Some(of) => (of.clone(), at),
                None => self.fail(at, format!("undefined field '{name}'")),
            },
            Type::Map(_, value) => (*value, at),
            Type::Plain(of) if of.ends_with(".Authorizer") && name == "requestResource" => {
                (Type::plain("kubernetes.authorization.ResourceCheck"), at)
            }
            Type::Optional(content) => {
                let (of, at) = self.field(&content, name, at);
                (Type::Optional(Box::new(of)), at)
            }
            Type::Dyn | Type::Variable(_) => (Type::Dyn, at),
            other => self.fail(
                at,
                format!("type '{other}' does not support field selection"),
            ),
        }
    }

    /// Combines the types of items of a literal.
    fn joined(&mut self, known: Type, (of, at): Checked) -> Type {
        if self.bindings.unify(&known, &of) {
            return known;
        }
        if !self.mixed {
            let (known, of) = (self.bindings.resolved(&known), self.bindings.resolved(&of));
            self.fail(at, format!("expected type '{known}' but found '{of}'"));
        }
        Type::Dyn
    }

    fn list(&mut self, list: &'a ListExpr) -> Checked {
        let start = self.at(&Token::Mark("[".to_owned()));
        let mut item = self.fresh();
        for (index, element) in list.elements.iter().enumerate() {
            let mut of = self.part(element);
            if list.optional_indices.contains(&index)
                && let Type::Optional(content) = self.bindings.resolved(&of.0)
            {
                of.0 = *content;
            }
            item = self.joined(item, of);
        }
        (Type::list(item), start)
    }

    fn map(&mut self, map: &'a MapExpr) -> Checked {
        let start = self.at(&Token::Mark("{".to_owned()));
        let (mut key, mut value) = (self.fresh(), self.fresh());
        for entry in &map.entries {
            if let EntryExpr::MapEntry(entry) = &entry.expr {
                let of = self.part(&entry.key);
                key = self.joined(key, of);
                let mut of = self.part(&entry.value);
                if entry.optional
                    && let Type::Optional(content) = self.bindings.resolved(&of.0)
                {
                    of.0 = *content;
                }
                value = self.joined(value, of);
            }
        }
        (Type::Map(Box::new(key), Box::new(value)), start)
    }

    fn comprehension(&mut self, all: &'a ComprehensionExpr) -> Checked {
        let (range, at) = self.part(&all.iter_range);
        let int = || Type::plain("int");
        let (first, second) = match (self.bindings.resolved(&range), &all.iter_var2) {
            (Type::List(item), None) => (*item, Type::Dyn),
            (Type::List(item), Some(_)) => (int(), *item),
            (Type::Map(key, value), _) => (*key, *value),
            (Type::Dyn | Type::Variable(_), _) => (Type::Dyn, Type::Dyn),
            (other, _) => {
                let why = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.fail(at, format!("expression of type '{other}' {why}"));
                (Type::Dyn, Type::Dyn)
            }
        };
        self.tokens.take(&Token::Name(all.iter_var.clone()));
        let accumulated = match &all.accu_init.expr {
            Expr::List(list) if list.elements.is_empty() => Type::list(self.fresh()),
            Expr::Map(map) if map.entries.is_empty() => {
                Type::Map(Box::new(self.fresh()), Box::new(self.fresh()))
            }
            Expr::Literal(literal) => literal_type(literal),
            _ => self.part(&all.accu_init).0,
        };
        let depth = self.scope.len();
        self.scope.push((&all.accu_var, accumulated));
        self.scope.push((&all.iter_var, first));
        if let Some(name) = &all.iter_var2 {
            self.tokens.take(&Token::Name(name.clone()));
            self.scope.push((name, second));
        }
        if all.accu_var.starts_with('@') {
            self.step(&all.loop_step, &all.iter_var);
        }
        let result = match &all.result.expr {
            Expr::Call(_) if all.accu_var.starts_with('@') => Type::plain("bool"),
            Expr::Ident(name) if name.starts_with('@') => self.variable(name).unwrap_or(Type::Dyn),
            _ => self.part(&all.result).0,
        };
        self.scope.truncate(depth);
        (result, at)
    }

    /// Checks the step of a loop: the part that is not generated by the macro.
    fn step(&mut self, step: &'a IdedExpr, variable: &str) {
        let Expr::Call(call) = &step.expr else {
            self.part(step);
            return;
        };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, test]) => self.boolean(test),
            (operators::CONDITIONAL, [test, yes, _]) => {
                self.boolean(test);
                self.step(yes, variable);
            }
            (operators::ADD, [result, added]) => {
                if let Expr::List(list) = &added.expr
                    && let [item] = list.elements.as_slice()
                {
                    let of = self.generated(item, variable);
                    self.accumulate(result, &Type::list(of));
                }
            }
            ("@insert", [result, key, value]) => {
                let key = self.generated(key, variable);
                let (value, _) = self.part(value);
                self.accumulate(result, &Type::Map(Box::new(key), Box::new(value)));
            }
            ("@insert", [result, entry]) => {
                let (of, _) = self.part(entry);
                self.accumulate(result, &of);
            }
            _ => {}
        }
    }

    /// Returns the type of a part that can be a variable that a macro has inserted.
    fn generated(&mut self, part: &'a IdedExpr, variable: &str) -> Type {
        match &part.expr {
            Expr::Ident(name) if name == variable => self.variable(name).unwrap_or(Type::Dyn),
            _ => self.part(part).0,
        }
    }

    fn accumulate(&mut self, result: &IdedExpr, of: &Type) {
        if let Expr::Ident(name) = &result.expr
            && let Some(known) = self.variable(name)
        {
            self.bindings.unify(&known, of);
        }
    }

    fn boolean(&mut self, part: &'a IdedExpr) {
        let (of, at) = self.part(part);
        let of = self.bindings.resolved(&of);
        if !self.bindings.unify(&Type::plain("bool"), &of) {
            self.fail(at, format!("expected type 'bool' but found '{of}'"));
        }
    }

    fn call(&mut self, call: &'a CallExpr) -> Checked {
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
            "matches" => regex::Regex::new(text.inner()).is_err(),
            "timestamp" => super::times::timestamp(&value).is_err(),
            "duration" => super::times::duration(&value).is_err(),
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

fn literal_type(literal: &LiteralValue) -> Type {
    Type::plain(match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    })
}

#[cfg(test)]
mod tests {
    use super::super::parser;
    use super::*;

    fn outcome(text: &str) -> String {
        let fields = [
            ("i".to_owned(), Type::plain("int")),
            ("l".to_owned(), Type::list(Type::plain("int"))),
            ("m".to_owned(), Type::map(Type::plain("int"))),
            ("s".to_owned(), Type::plain("string")),
        ];
        let variables = [
            ("self", Type::object("selfType", fields)),
            ("any", Type::Dyn),
        ];
        match checked(text, &parser::parse(text).unwrap(), &variables, false) {
            Ok(of) => of.to_string(),
            Err(error) => error.lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn types_are_inferred() {
        for (text, expected) in [
            ("self.l.map(x, x + 1)", "list(int)"),
            ("self.l.filter(x, x > 1)[0]", "int"),
            ("self.m.all(k, v, k != '' && v > 0)", "bool"),
            (
                "self.m.transformMap(k, v, string(v))",
                "map(string, string)",
            ),
            ("self.?s.orValue('x')", "string"),
            ("self.?s.optMap(x, x.size())", "optional_type(int)"),
            ("any.x.y + 1", "int"),
            ("[]", "list(dyn)"),
            ("'%s %d'.format([self.s, 1])", "string"),
            ("sets.contains([1], self.l)", "bool"),
            ("cidr('10.0.0.0/8').ip()", "net.IP"),
        ] {
            assert_eq!(outcome(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_have_the_wording_of_a_real_server() {
        for (text, expected) in [
            (
                "self.i == 'x'",
                "1:8: found no matching overload for '_==_' applied to '(int, string)'",
            ),
            (
                "self.s.contains(1)",
                "1:16: found no matching overload for 'contains' applied to 'string.(int)'",
            ),
            (
                "self.l.all(x, x == 'a')",
                "1:17: found no matching overload for '_==_' applied to '(int, string)'",
            ),
            ("self.x == 1", "1:5: undefined field 'x'"),
            ("has(self.x)", "1:4: undefined field 'x'"),
            (
                "self.s.x == 1",
                "1:7: type 'string' does not support field selection",
            ),
            (
                "foo == 1",
                "1:1: undeclared reference to 'foo' (in container '')",
            ),
            (
                "self.s.foo()",
                "1:11: undeclared reference to 'foo' (in container '')",
            ),
            (
                "[1, 'a'] == [1]",
                "1:5: expected type 'int' but found 'string'",
            ),
            ("true && 1", "1:9: expected type 'bool' but found 'int'"),
            ("self.s.matches('(')", "1:16: invalid matches argument"),
        ] {
            assert_eq!(
                outcome(text),
                format!("ERROR: <input>:{expected}"),
                "{text}"
            );
        }
    }
}
