//! Tests of parsing and evaluation.

use serde_json::json;

use super::*;

fn outcome(expression: &Expression, variables: &Variables) -> Result<bool, String> {
    expression.boolean_within(variables, &mut Budget::of(u64::MAX))
}

fn evaluated(text: &str) -> Result<bool, String> {
    let object = json!({"x": [1], "name": "abc", "map": {"a": 1}, "empty": {}});
    let mut variables = Variables::default();
    variables.add("self", dynamic(&object));
    outcome(&Expression::parse(text)?, &variables)
}

#[test]
fn expressions_of_kubernetes_are_evaluated() {
    for text in [
        "self.x.all(i, i > 0) && self.name.matches('a.c')",
        "self.?y.orValue(3) == 3 && self.?name.orValue('') == 'abc'",
        "self.?map.?b.hasValue() == false",
        "self.map[?'a'].orValue(5) == 1",
        "type(self.x[0]) == int && type(self.name) == string",
        "dyn(self.x)[0] == 1",
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "ip('1.2.3.4').family() == 4",
        "duration('90s') < duration('2m')",
        "timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",
        "!has(self.z) || self.z.q == 1",
        "'%s-%d'.format(['a', 1]) == 'a-1'",
        "sets.contains([1, 2], self.x)",
        "has(self.map.a) && !has(self.map.b)",
    ] {
        assert_eq!(evaluated(text), Ok(true), "{text}");
    }
}

#[test]
fn evaluation_failures_are_errors() {
    for (text, part) in [
        ("1 +", "Syntax error"),
        ("self.y", "no such key: y"),
        ("1 / 0 == 1", "division by zero"),
        ("self.x", "must evaluate to bool"),
        ("'a' + 1 == 'b'", "no such overload"),
    ] {
        let error = evaluated(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn nested_loops_over_large_lists_are_rejected() {
    let list = json!((0..5_000).collect::<Vec<_>>());
    let mut variables = Variables::default();
    variables.add("self", dynamic(&list));
    let expression = Expression::parse("self.all(a, self.all(b, a != b || a == b))").unwrap();
    assert_eq!(
        outcome(&expression, &variables),
        Err(OUT_OF_BUDGET.to_owned())
    );
}

#[test]
fn results_are_bounded() {
    let text = json!("a".repeat(1_000));
    let mut variables = Variables::default();
    variables.add("self", dynamic(&text));
    let sum = format!("x{}", " + x".repeat(40));
    for text in [
        "self.replace('a', self).replace('a', self).size() > 0".to_owned(),
        "self.split('').join(self.replace('a', self.substring(980))) != ''".to_owned(),
        "lists.range(9223372036854775807).size() > 0".to_owned(),
        format!("[self]{} != []", format!(".map(x, {sum})").repeat(4)),
    ] {
        let expression = Expression::parse(&text).unwrap();
        let evaluated = outcome(&expression, &variables);
        assert_eq!(evaluated, Err(OUT_OF_BUDGET.to_owned()), "{text}");
    }
    for text in [
        "self.replace('a', 'bc', 1).startsWith('bca')",
        "'aa'.replace('a', 'b', -1) == 'bb' && 'aa'.replace('a', 'b', 0) == 'aa'",
        "['a', 'b'].join('-') == 'a-b' && ['a'].join() == 'a'",
        "lists.range(3) == [0, 1, 2]",
        "[self].map(x, x + x).map(x, x + x)[0].size() == 4000",
    ] {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(outcome(&expression, &variables), Ok(true), "{text}");
    }
}

#[test]
fn deepest_expressions_fit_on_a_stack() {
    for text in [
        format!("{}1{} != [1]", "[".repeat(240), "]".repeat(240)),
        format!("1{} > 0", "+1".repeat(280)),
        format!("!has(self.b) || self{} == 1", ".a".repeat(280)),
        format!("{}true{}", "!(".repeat(240), ")".repeat(240)),
        format!("{}true", "false ? true : ".repeat(90)),
        format!("{}[1]{} != []", "[1].map(x, ".repeat(15), ")".repeat(15)),
        format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(12)),
    ] {
        assert_eq!(evaluated(&text), Ok(true), "{text}");
    }
}

#[test]
fn expensive_expressions_are_rejected() {
    let list = json!((0..2_000).collect::<Vec<_>>());
    let mut variables = Variables::default();
    variables.add("self", dynamic(&list));
    for text in [
        "lists.range(1000000).size() == 1000000",
        "lists.range(1000).map(x, lists.range(1000)).size() > 0",
        "sets.contains(self, self)",
        "self.distinct().size() > 0",
    ] {
        let expression = Expression::parse(text).unwrap();
        let evaluated = outcome(&expression, &variables);
        assert_eq!(evaluated, Err(OUT_OF_BUDGET.to_owned()), "{text}");
    }
    let text = "self.transformMap(i, v, v).size() == 2000";
    assert_eq!(
        outcome(&Expression::parse(text).unwrap(), &variables),
        Ok(true)
    );
}

#[test]
fn expressions_share_a_budget() {
    let variables = Variables::default();
    let expression = Expression::parse("lists.range(1000).all(x, x >= 0)").unwrap();
    let mut budget = Budget::of(10_000);
    let outcomes: Vec<bool> = (0..20)
        .map(|_| expression.boolean_within(&variables, &mut budget).is_ok())
        .collect();
    assert!(outcomes[0] && !outcomes[19] && budget.is_exhausted());
}

#[test]
fn undeclared_names_are_reported() {
    let expression = Expression::parse("self.a.all(x, x > limit && x != int(1))").unwrap();
    assert!(expression.uses("self") && !expression.uses("x") && !expression.uses("a"));
    let known = [("self", Type::Dyn)];
    let error = expression.checked(&known).unwrap_err();
    assert!(error.contains("undeclared reference to 'limit'"), "{error}");
}

#[test]
fn optional_variables_have_a_value_or_none() {
    let expression = Expression::parse("old.hasValue() ? old.value() == 1 : false").unwrap();
    for (content, expected) in [(Some(Value::Int(1)), true), (None, false)] {
        let mut variables = Variables::default();
        variables.add("old", optional(content));
        assert_eq!(outcome(&expression, &variables), Ok(expected));
    }
}
