//! Static checks of expressions: names, fields and the types of arguments.

mod calls;
mod loops;
#[cfg(test)]
mod tests;

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr};

use super::names;
use super::opaque::TYPES;
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
                        let of = self.part(&field.value);
                        if made.type_name == "JSONPatch" {
                            self.patch_field(&field.field, of);
                        }
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

    /// Checks a field of `JSONPatch{…}`.
    fn patch_field(&mut self, name: &str, (of, at): Checked) {
        let string = Type::plain("string");
        match name {
            "value" => {}
            "op" | "path" | "from" if self.bindings.unify(&string, &of) => {}
            "op" | "path" | "from" => {
                let of = self.bindings.resolved(&of);
                let problem = format!(
                    "expected type of field '{name}' is 'string' but provided type is '{of}'"
                );
                self.fail(at, problem);
            }
            _ => {
                self.fail(at, format!("undefined field '{name}'"));
            }
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
            Type::Object(object) => match object.field(name) {
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
        let (before, added) = (self.bindings.resolved(&known), self.bindings.resolved(&of));
        if is_homogeneous(&before, &added) && self.bindings.unify(&known, &of) {
            return known;
        }
        if !self.mixed {
            self.mismatch(at, &before, &added);
        }
        Type::Dyn
    }

    fn mismatch(&mut self, at: usize, wanted: &Type, found: &Type) {
        self.fail(at, format!("expected type '{wanted}' but found '{found}'"));
    }

    /// Returns the type of the content of an optional item of a literal.
    fn content(&mut self, (of, at): Checked) -> Checked {
        match self.bindings.resolved(&of) {
            Type::Optional(content) => (*content, at),
            Type::Dyn | Type::Variable(_) => (Type::Dyn, at),
            other => {
                self.mismatch(at, &Type::Optional(Box::new(other.clone())), &other);
                (other, at)
            }
        }
    }

    fn list(&mut self, list: &'a ListExpr) -> Checked {
        let start = self.at(&Token::Mark("[".to_owned()));
        let mut item = self.fresh();
        for (index, element) in list.elements.iter().enumerate() {
            let mut of = self.part(element);
            if list.optional_indices.contains(&index) {
                of = self.content(of);
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
                if entry.optional {
                    of = self.content(of);
                }
                value = self.joined(value, of);
            }
        }
        (Type::Map(Box::new(key), Box::new(value)), start)
    }

    fn boolean(&mut self, part: &'a IdedExpr) {
        let (of, at) = self.part(part);
        let of = self.bindings.resolved(&of);
        let bool = Type::plain("bool");
        if !self.bindings.unify(&bool, &of) {
            self.mismatch(at, &bool, &of);
        }
    }
}

/// Returns `true` if two types can be items of one literal: values of any type, null and types are
/// only among their equals.
fn is_homogeneous(left: &Type, right: &Type) -> bool {
    let null = Type::plain("null");
    match (left, right) {
        (Type::Variable(_), _) | (_, Type::Variable(_)) => true,
        (Type::Meta(left), Type::Meta(right)) => left == right,
        _ => [&Type::Dyn, &null]
            .into_iter()
            .all(|special| (left == special) == (right == special)),
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
