//! Tests of types and of errors.

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
