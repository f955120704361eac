//! Expressions in CEL: results, errors and static types.

use kopf_tests::Api;
use serde_json::{Value, json};

/// Number of rules of one CRD. The estimated cost of all rules of a CRD is limited.
const BATCH: usize = 25;

/// Returns a schema with fields of all types.
fn spec(rules: &[Value]) -> Value {
    let text = json!({"type": "string", "maxLength": 50});
    let number = json!({"type": "integer"});
    let list = |items: &Value| json!({"type": "array", "maxItems": 6, "items": items});
    let set = || {
        let mut set = list(&text);
        set["x-kubernetes-list-type"] = json!("set");
        set
    };
    let keyed = || {
        let item = json!({
            "type": "object", "required": ["name"], "properties": {"name": text, "v": number},
        });
        let mut keyed = list(&item);
        keyed["x-kubernetes-list-type"] = json!("map");
        keyed["x-kubernetes-list-map-keys"] = json!(["name"]);
        keyed
    };
    let map = |values: &Value| json!({"type": "object", "maxProperties": 6, "additionalProperties": values});
    let object = json!({"type": "object", "properties": {"a": number, "b": number}});
    json!({
        "type": "object", "x-kubernetes-validations": rules,
        "properties": {
            "i": number, "n": {"type": "number"}, "s": text, "missing": text, "type": text,
            "li": list(&number), "ls": list(&text), "empty": list(&number),
            "set": set(), "set2": set(), "ml": keyed(), "ml2": keyed(),
            "m": map(&number), "mm": map(&text), "o": object, "o2": object,
            "pu": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "dt": {"type": "string", "format": "date-time"},
            "d": {"type": "string", "format": "date"},
            "du": {"type": "string", "format": "duration"},
            "by": {"type": "string", "format": "byte", "maxLength": 50},
            "ios": {"x-kubernetes-int-or-string": true, "maxLength": 20},
            "ios2": {"x-kubernetes-int-or-string": true, "maxLength": 20},
            "nul": {"type": "string", "nullable": true, "maxLength": 5},
            "dash-name": number, "in": number, "a__b": number, "a.b": number, "a/b": number,
            "namespace": number, "if": number, "name": text, "q": text,
        },
    })
}

fn values() -> Value {
    json!({
        "i": 5, "n": 1.5, "s": "héllo", "type": "t", "name": "nm", "q": "1Gi",
        "li": [1, 2, 3], "ls": ["a", "b"], "empty": [], "set": ["a", "b"], "set2": ["b", "a"],
        "ml": [{"name": "a", "v": 1}, {"name": "b", "v": 2}],
        "ml2": [{"name": "b", "v": 2}, {"name": "a", "v": 1}],
        "m": {"a": 1, "b": 2}, "mm": {"a": "x"}, "o": {"a": 1}, "o2": {"a": 1, "b": 2},
        "pu": {"anything": 1}, "dt": "2020-02-03T04:05:06.789Z", "d": "2020-02-03", "du": "1h30m",
        "by": "aGVsbG8=", "ios": "50%", "ios2": 5, "nul": null, "dash-name": 2, "in": 1, "a__b": 3,
        "a.b": 4, "a/b": 5, "namespace": 6, "if": 8,
    })
}

/// Creates an object of a CRD with these rules, and returns the messages of all errors.
async fn errors(expressions: &[&str]) -> Vec<String> {
    let api = Api::start().await;
    let rules = expressions.iter().enumerate();
    let rules: Vec<Value> = rules
        .map(|(index, rule)| json!({"rule": rule, "message": format!("<{index}>")}))
        .collect();
    let crd = api.crd().spec_schema(spec(&rules)).create().await;
    let created = api.create(&crd.path(), &crd.object("one", values())).await;
    let causes = created.json["details"]["causes"].as_array();
    let messages = causes
        .into_iter()
        .flatten()
        .map(|cause| cause["message"].as_str());
    messages
        .map(|message| message.unwrap_or_default().to_owned())
        .collect()
}

#[rustfmt::skip]
const TRUE: &[&str] = &[
    "-7 % 3 == -1 && 7 % -3 == 1 && -7 / 3 == -2",
    "self.namespace == 6 && has(self.namespace) && self.?namespace.orValue(0) == 6",
    "self.if == 8 && self.__if__ == 8",
    "--self.i == 5 && - -5 == 5 && ! !true && 3 - -2 == 5 && !(! ! !true)",
    r"!'é'.matches('^\\w$') && !'٣'.matches('^\\d$') && '٣'.matches('^\\D$')",
    r"'é'.matches('^\\p{L}$') && 'é-'.matches('^[\\p{L}-]+$') && 'A'.matches('^\\x{41}$')",
    r"'a-b.c'.matches('^[\\w-.]+$') && !'!'.matches('^[\\s-.]$') && 'a-b@c.org'.matches('^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$')",
    "'[x]'.matches('^[[]x[]]$') && '{'.matches('^{$') && 'a{,2}'.matches('^a{,2}$')",
    r"'a.b'.matches('^\\Qa.b\\E$') && !'axb'.matches('^\\Qa.b\\E$') && '<'.matches('\\<')",
    "'a&&b'.matches('^[a&&b]+$') && 'a-b'.matches('^[a-]b|[a-c-]+$') && 'x1'.find('[[:digit:]]') == '1'",
    "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']",
    "url('https://e.com:80/p?a=b#f').getQuery() == {'a': ['b']}",
    "url('https://a.b/c#f').getEscapedPath() == '/c'",
    "!isURL('http://[::1') && !isURL('http://ho^st/') && !isURL('http://a%zz/') && !isURL('https://a.b#f')",
    "isURL('*') && url('http://a/?x=1;y=2&z=%zz&k=v').getQuery() == {'k': ['v']}",
    "duration('1µs') == duration('1us') && duration('1h1m') == duration('61m')",
    "semver('1.2.3+b') == semver('1.2.3') && semver('1.2.3+b').compareTo(semver('1.2.3')) == 0",
    "!isQuantity('1 ') && !isQuantity(' 1') && !isCIDR('10.0.0.0/08')",
    "'abc'.lastIndexOf('c', 5) == -1",
    "lists.range(-1) == []",
    "optional.of(1).optMap(x, x + 1).optMap(x, x * 2).optMap(x, x + x).value() == 8",
    "self.ml.sortBy(x, -x.v).map(x, x.name) == ['b', 'a']",
    "self.li.transformMap(i, v, v > 1, {'v': v})[1].v == 2",
    "[0, 1].exists(x, 1 / x == 1)",
    "self.li.all(i, v, v == i + 1)",
    "self.li.exists(i, v, i == 1 && v == 2)",
    "self.li.existsOne(i, v, i == 1)",
    "self.m.all(k, v, k != '' && v > 0)",
    "self.m.exists(k, v, k == 'b' && v == 2)",
    "self.m.existsOne(k, v, v == 2)",
    "self.li.transformList(i, v, i * v) == [0, 2, 6]",
    "self.li.transformList(i, v, i > 0, i * v) == [2, 6]",
    "self.m.transformList(k, v, v).sum() == 3",
    "self.m.transformMap(k, v, v + 1) == {'a': 2, 'b': 3}",
    "self.m.transformMap(k, v, v > 1, v + 1) == {'b': 3}",
    "self.li.transformMap(i, v, v) == {0: 1, 1: 2, 2: 3}",
    "self.m.transformMapEntry(k, v, {string(v): k}) == {'1': 'a', '2': 'b'}",
    "self.li.transformMapEntry(i, v, {v: i})[3] == 2",
    "self.li.exists_one(i, v, i == 1)",
    "dyn(1) == dyn(1.0)",
    "dyn(1) == dyn(1u)",
    "0x1F == 31 && -0x10 == -16",
    "!true == false && !!true",
    "self.s.size() == 5",
    "size(self.s) == 5",
    "'日本語'.size() == 3",
    "'abc'.split('') == ['a', 'b', 'c']",
    "'%s'.format([timestamp('2020-01-01T00:00:00Z')]) == '2020-01-01T00:00:00Z'",
    "'%s'.format([duration('90s')]) == '90s'",
    "'%s'.format([b'abc']) == 'abc'",
    "'%s'.format([1.0]) == '1'",
    r#"'''a"b'c''' == "a\"b'c""#,
    r#"'\a\b\f\n\r\t\v\\\?\"\'\`'.size() == 12"#,
    r"br'\n'.size() == 2",
    "[duration('1s'), duration('2s')].sum() == duration('3s')",
    "self.set == self.set2",
    "self.set == ['b', 'a']",
    "self.set + ['a', 'c'] == ['a', 'b', 'c']",
    "self.set + ['c'] == ['c', 'b', 'a']",
    "(self.set + self.set2).size() == 2",
    "self.set + ['a'] == self.set",
    "self.set in [['b', 'a']]",
    "[self.set] == [['b', 'a']]",
    "{'x': self.set} == {'x': self.set2}",
    "dyn(2.0) in self.li",
    "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]",
    "self.ml2.sortBy(e, e.name).map(e, e.v) == [1, 2]",
    "dyn({1: 'a'})[1.0] == 'a'",
    "has(self.pu)",
    "self.?o.b.orValue(7) == 7",
    "self.?o.a.orValue(7) == 1",
    "optional.of(1).optMap(x, x + 1).value() == 2",
    "optional.none().optMap(x, x + 1).hasValue() == false",
    "self.?s.optMap(x, x.size()).orValue(0) == 5",
    "self.?o.optFlatMap(x, x.?b).hasValue() == false",
    "self.?o.optFlatMap(x, x.?a).orValue(0) == 1",
    "optional.of(1) == optional.of(1)",
    "optional.unwrap([optional.of(1), optional.none()]) == [1]",
    "[optional.of(1), optional.none()].unwrapOpt() == [1]",
    "has(self.?o.a)",
    "optional.of({'a': 1}).a.value() == 1",
    "type(optional.none()) == optional_type",
    "[1, 2].map(x, optional.of(x)).map(o, o.value()) == [1, 2]",
    "isURL('https://a.b/c') && !isURL('x y')",
    "url('https://user@a.b:80/c%20d?x=1&x=2#f').getHost() == 'a.b:80'",
    "url('https://a.b:80/c').getHostname() == 'a.b'",
    "url('https://a.b:80/c').getPort() == '80'",
    "url('https://a.b/c').getPort() == ''",
    "url('https://a.b/c d').getEscapedPath() == '/c%20d'",
    "url('https://a.b').getEscapedPath() == ''",
    "url('https://a.b/?x=1&x=2&y=').getQuery() == {'x': ['1', '2'], 'y': ['']}",
    "url('https://a.b').getScheme() == 'https'",
    "url('/path').getScheme() == ''",
    "url('https://[::1]:80/').getHostname() == '::1'",
    "url('https://[::1]:80/').getHost() == '[::1]:80'",
    "url('HTTPS://A.b/').getScheme() == 'https'",
    "isURL('mailto:x')",
    "url('https://a.b') == url('https://a.b')",
    "type(ip('::1')) == net.IP",
    "format.named('uuid').value().validate('x').hasValue()",
    "self.dt.getHours('+02:00') == 6",
    "self.dt.getHours('Europe/Berlin') == 5",
    "duration('1h') + self.dt > self.dt",
    "timestamp(0) == timestamp('1970-01-01T00:00:00Z')",
    "int(timestamp('1970-01-01T00:00:10Z')) == 10",
    "string(timestamp('2020-01-01T00:00:00Z')) == '2020-01-01T00:00:00Z'",
    "string(timestamp('2020-01-01T00:00:00.5Z')) == '2020-01-01T00:00:00.5Z'",
    "string(duration('1h30m')) == '5400s'",
    "type(self.dt) == google.protobuf.Timestamp",
    "type(self.du) == google.protobuf.Duration",
    "type(int) == type",
    "type(type(1)) == type",
    "string(1) == '1' && string(1.5) == '1.5' && string(true) == 'true' && string(1u) == '1'",
    "string(1e21) == '1e+21'",
    "string(100000000.0) == '1e+08'",
    "bool('true') && !bool('false')",
    "bool('t') && bool('True') && bool('1')",
    "dyn(self.s).size() == 5",
    "has(self.s) && !has(self.missing)",
    "has(self.o.a) && !has(self.o.b)",
    "self.m.all(k, k in ['a', 'b'])",
    "self.m.exists(k, self.m[k] == 2)",
    "self.m.map(k, k).size() == 2",
    "self.m.filter(k, k == 'a') == ['a']",
    "self.ml.exists(x, x.name == 'a' && x.v == 1)",
    "self.ml.map(x, x.name) == ['a', 'b']",
    "self.m['a'] == 1",
    "self.m.a == 1",
    "self.m == {'b': 2, 'a': 1}",
    "has({'a': 1}.a) && !has({'a': 1}.b)",
    "self.m.?zz.orValue(5) == 5",
    "self.__in__ == 1",
    "self.a__underscores__b == 3",
    "self.a__dot__b == 4",
    "self.a__slash__b == 5",
    "self.__namespace__ == 6",
    "self.__if__ == 8",
    "self.ios == '50%'",
    "self.ios2 == 5",
    "self.ios2 > 4 && self.ios2 < 6",
    "self.m[?'zz'].orValue(3) == 3",
    "self.m[?'a'].value() == 1",
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
];

#[rustfmt::skip]
const FALSE: &[&str] = &[
    "[0, 1].all(x, 1 / x == 2)",
    "'%.2f %e'.format([1.234, 1234.5]) == '1.23 1.234500e+03'",
    "self.set != self.set2",
    "has(self.nul)",
    "isURL('../x')",
    "isURL('https://a.b:port/')",
    "dyn(type(1)) == 'int'",
];

#[rustfmt::skip]
const FAILING: &[(&str, &str)] = &[
    ("1 / 0 == 1 || 2 % 0 == 1", "division by zero evaluating rule: "),
    ("self.li.transformMapEntry(i, v, {1: i}).size() == 1", "insert failed: key 1 already exists evaluating rule: "),
    ("3u - 5u == 0u", "unsigned integer overflow evaluating rule: "),
    ("9223372036854775807 + 1 > 0", "integer overflow evaluating rule: "),
    ("-9223372036854775807 - 2 < 0", "integer overflow evaluating rule: "),
    ("9223372036854775807 * 2 > 0", "integer overflow evaluating rule: "),
    ("1 % 0 == 0", "modulus by zero evaluating rule: "),
    ("double('NaN') < 1.0", "NaN values cannot be ordered evaluating rule: "),
    ("timestamp('0001-01-01T00:00:00Z') - duration('1s') < timestamp(0)", "timestamp overflow evaluating rule: "),
    ("timestamp('9999-12-31T00:00:00Z') - timestamp('0001-01-01T00:00:00Z') > duration('1s')", "integer overflow evaluating rule: "),
    ("duration('2562047h') + duration('2562047h') > duration('1s')", "integer overflow evaluating rule: "),
    ("self.i % 0 == 0", "modulus by zero evaluating rule: "),
    ("-(-9223372036854775807 - 1) > 0", "integer overflow evaluating rule: "),
    ("(-9223372036854775807 - 1) / -1 > 0", "integer overflow evaluating rule: "),
    ("18446744073709551615u + 1u > 0u", "unsigned integer overflow evaluating rule: "),
    ("dyn(1) + dyn('1') == 2", "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: "),
    ("dyn('a') > dyn(1)", "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: "),
    ("self.s.matches(self.s + '(')", "error parsing regexp: missing closing ): `héllo(` evaluating rule: "),
    ("'abc'.substring(4) == ''", "index out of range: 4 evaluating rule: "),
    ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1 evaluating rule: "),
    ("'abc'.substring(-1) == ''", "index out of range: -1 evaluating rule: "),
    ("'hello'.indexOf('l', -1) == -1", "index out of range: -1 evaluating rule: "),
    ("'abc'.charAt(4) == ''", "index out of range: 4 evaluating rule: "),
    ("'abc'.charAt(-1) == ''", "index out of range: -1 evaluating rule: "),
    ("[].min() == 0", "min called on empty list evaluating rule: "),
    ("self.empty.max() == 0", "max called on empty list evaluating rule: "),
    ("self.li[5] == 1", "index out of bounds: 5 evaluating rule: "),
    ("self.li[-1] == 1", "index out of bounds: -1 evaluating rule: "),
    ("dyn(self.li)['a'] == 1", "unsupported index type 'string' in list evaluating rule: "),
    ("dyn(self.li)[1.5] == 1", "unsupported index value 1.5 in list evaluating rule: "),
    ("[1, 2, 3].slice(0, 9) == []", "cannot slice(0, 9), list is length 3 evaluating rule: "),
    ("self.ios > 5", "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: "),
    ("self.m[?'zz'].value() == 1", "optional.none() dereference evaluating rule: "),
    ("url('x').getScheme() == ''", r#"URL parse error during conversion from string: parse "x": invalid URI for request evaluating rule: "#),
    ("self.dt.getHours('X/Y') == 5", "unknown time zone X/Y evaluating rule: "),
    ("timestamp('9999-12-31T23:59:59Z') + duration('1h') > timestamp(0)", "timestamp overflow evaluating rule: "),
    ("lists.range(1000000).size() == 1000000", "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: "),
];

/// Expressions that are rejected, with the position and the error.
#[rustfmt::skip]
const ILL_TYPED: &[(&str, &str)] = &[
    ("1 + 1u == 2", "1:3: found no matching overload for '_+_' applied to '(int, uint)'"),
    ("1 + 1.0 == 2.0", "1:3: found no matching overload for '_+_' applied to '(int, double)'"),
    ("1 == 1.0", "1:3: found no matching overload for '_==_' applied to '(int, double)'"),
    ("1u == 1", "1:4: found no matching overload for '_==_' applied to '(uint, int)'"),
    ("self.i * 1.5 > 1.0", "1:8: found no matching overload for '_*_' applied to '(int, double)'"),
    ("[1, 2] == [1.0, 2.0]", "1:8: found no matching overload for '_==_' applied to '(list(int), list(double))'"),
    ("[1, 2] == [1u, 2u]", "1:8: found no matching overload for '_==_' applied to '(list(int), list(uint))'"),
    ("self.i == null", "1:8: found no matching overload for '_==_' applied to '(int, null)'"),
    ("'abc'.matches('(')", "1:15: invalid matches argument"),
    ("'abc'.matches('a**')", "1:15: invalid matches argument"),
    ("'abc'.matches('a{1001}')", "1:15: invalid matches argument"),
    ("'abc'.matches('(?x)a')", "1:15: invalid matches argument"),
    ("[self.dt, null].size() == 2", "1:11: expected type 'timestamp' but found 'null'"),
    ("type(1) in [int, string]", "1:18: expected type 'type(int)' but found 'type(string)'"),
    ("[?1] == [1]", "1:3: expected type 'optional_type(int)' but found 'int'"),
    ("{?'a': 1} == {'a': 1}", "1:8: expected type 'optional_type(int)' but found 'int'"),
    ("timestamp('2020-01-01 00:00:00Z') == self.dt", "1:11: invalid timestamp argument"),
    ("timestamp('0000-01-01T00:00:00Z') == self.dt", "1:11: invalid timestamp argument"),
    ("duration('1h 1m') == self.du", "1:10: invalid duration argument"),
    ("duration('2562048h') == self.du", "1:10: invalid duration argument"),
    ("'x'.matches('(?=x)')", "1:13: invalid matches argument"),
    ("'abc'.reverse() == 'cba'", "1:14: found no matching overload for 'reverse' applied to 'string.()'"),
    ("'a' + 1 == 'a1'", "1:5: found no matching overload for '_+_' applied to '(string, int)'"),
    ("'a' in 'abc'", "1:5: found no matching overload for '@in' applied to '(string, string)'"),
    ("self.li[0u] == 1", "1:8: found no matching overload for '_[_]' applied to '(list(int), uint)'"),
    ("2.0 in self.li", "1:5: found no matching overload for '@in' applied to '(double, list(int))'"),
    ("2u in [1, 2]", "1:4: found no matching overload for '@in' applied to '(uint, list(int))'"),
    ("sets.contains([1], [1.0])", "1:14: found no matching overload for 'sets.contains' applied to '(list(int), list(double))'"),
    ("[1, 2].first() == 1", "1:16: found no matching overload for '_==_' applied to '(optional_type(int), int)'"),
    ("[1, 'a', true].size() == 3", "1:5: expected type 'int' but found 'string'"),
    ("self.mm.zz == 1", "1:12: found no matching overload for '_==_' applied to '(string, int)'"),
    ("{1: 'a'}[1u] == 'a'", "1:9: found no matching overload for '_[_]' applied to '(map(int, string), uint)'"),
    ("{1: 'a'}[1.0] == 'a'", "1:9: found no matching overload for '_[_]' applied to '(map(int, string), double)'"),
    ("{'a': 1} == {'a': 1.0}", "1:10: found no matching overload for '_==_' applied to '(map(string, int), map(string, double))'"),
    ("{'a': 1} + {'b': 2} == {}", "1:10: found no matching overload for '_+_' applied to '(map(string, int), map(string, int))'"),
    ("self.name.foo == 1", "1:10: type 'string' does not support field selection"),
    ("self.s.foo == 'x'", "1:7: type 'string' does not support field selection"),
    ("self.nul == null", "1:10: found no matching overload for '_==_' applied to '(string, null)'"),
    ("!has(self.nul) || self.nul == null", "1:28: found no matching overload for '_==_' applied to '(string, null)'"),
    ("has(self.?o.zz)", "1:4: undefined field 'zz'"),
    ("string(quantity('1Gi')) == '1Gi'", "1:7: found no matching overload for 'string' applied to '(kubernetes.Quantity)'"),
    ("timestamp('x') == timestamp(0)", "1:11: invalid timestamp argument"),
    ("duration('x') == duration('1s')", "1:10: invalid duration argument"),
    ("duration('1d') == duration('24h')", "1:10: invalid duration argument"),
    ("self.dt == '2020-02-03T04:05:06.789Z'", "1:9: found no matching overload for '_==_' applied to '(timestamp, string)'"),
    ("duration('1h').getHours('UTC') == 1", "1:24: found no matching overload for 'getHours' applied to 'duration.(string)'"),
    ("type(1) == 'int'", "1:9: found no matching overload for '_==_' applied to '(type(int), string)'"),
    ("int(true) == 1", "1:4: found no matching overload for 'int' applied to '(bool)'"),
    ("string([1]) == ''", "1:7: found no matching overload for 'string' applied to '(list(int))'"),
    ("self.i == 'x'", "1:8: found no matching overload for '_==_' applied to '(int, string)'"),
    ("self.s + 1 == ''", "1:8: found no matching overload for '_+_' applied to '(string, int)'"),
    ("self.s.size", "1:7: type 'string' does not support field selection"),
    ("self.s.contains(1)", "1:16: found no matching overload for 'contains' applied to 'string.(int)'"),
    ("self.s.contains()", "1:16: found no matching overload for 'contains' applied to 'string.()'"),
    ("size(1) == 1", "1:5: found no matching overload for 'size' applied to '(int)'"),
    ("self.i in self.m", "1:8: found no matching overload for '@in' applied to '(int, map(string, int))'"),
    ("'x' in self.li", "1:5: found no matching overload for '@in' applied to '(string, list(int))'"),
    ("self.li.all(x, x == 'a')", "1:18: found no matching overload for '_==_' applied to '(int, string)'"),
    ("self.m[1] == 1", "1:7: found no matching overload for '_[_]' applied to '(map(string, int), int)'"),
    ("true && 1", "1:9: expected type 'bool' but found 'int'"),
    ("!1", "1:1: found no matching overload for '!_' applied to '(int)'"),
    ("-'a' == 'a'", "1:1: found no matching overload for '-_' applied to '(string)'"),
    ("true ? 1 : 'a'", "1:6: found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
    ("[1, 'a'] == [1]", "1:5: expected type 'int' but found 'string'"),
    ("self.li == self.ls", "1:9: found no matching overload for '_==_' applied to '(list(int), list(string))'"),
    ("self.i > self.s", "1:8: found no matching overload for '_>_' applied to '(int, string)'"),
    ("self.i.size() == 1", "1:12: found no matching overload for 'size' applied to 'int.()'"),
    ("self.s.matches(1)", "1:15: found no matching overload for 'matches' applied to 'string.(int)'"),
    ("Object{} == 1", "1:7: undeclared reference to 'Object' (in container '')"),
];

#[tokio::test]
async fn expressions_have_the_results_of_a_real_server() {
    for batch in TRUE.chunks(BATCH) {
        let errors = errors(batch).await;
        assert_eq!(errors, Vec::<String>::new(), "{batch:#?}");
    }
    let errors = errors(FALSE).await;
    let expected = (0..FALSE.len()).map(|index| format!("Invalid value: <{index}>"));
    assert_eq!(errors, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn failing_expressions_have_the_errors_of_a_real_server() {
    for batch in FAILING.chunks(BATCH) {
        let expressions: Vec<&str> = batch.iter().map(|(expression, _)| *expression).collect();
        let errors = errors(&expressions).await;
        for (index, (expression, expected)) in batch.iter().enumerate() {
            let expected = format!("Invalid value: \"object\": {expected}<{index}>");
            assert!(
                errors.contains(&expected),
                "{expression}: {expected} in {errors:#?}"
            );
        }
    }
}

#[tokio::test]
async fn ill_typed_expressions_are_rejected() {
    let api = Api::start().await;
    for batch in ILL_TYPED.chunks(BATCH) {
        let rules: Vec<Value> = batch
            .iter()
            .map(|(rule, _)| json!({"rule": rule}))
            .collect();
        let definition = api.crd().spec_schema(spec(&rules)).definition().clone();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let refused = api.create(path, &definition).await;
        let refused = refused.expect_failure(422, "Invalid");
        let causes = refused.json["details"]["causes"].as_array().unwrap();
        for (index, (expression, expected)) in batch.iter().enumerate() {
            let rule = format!("x-kubernetes-validations[{index}].rule");
            let expected = format!("compilation failed: ERROR: <input>:{expected}\n");
            let found = causes.iter().any(|cause| {
                let (field, message) = (cause["field"].as_str(), cause["message"].as_str());
                field.is_some_and(|field| field.ends_with(&rule))
                    && message.is_some_and(|message| message.contains(&expected))
            });
            assert!(found, "{expression}: {expected} in {causes:#?}");
        }
    }
}
