//! Tests of patterns.

use super::*;

#[test]
fn patterns_match_as_on_a_real_server() {
    for (pattern, text, matches) in [
        ("^\\w$", "é", false),
        ("^\\d$", "٣", false),
        ("^\\D$", "٣", true),
        ("^[\\w-]+$", "a-b", true),
        ("^[^\\s\\d]$", "x", true),
        ("\\bx\\b", "éxé", true),
        ("^[[]x[]]$", "[x]", true),
        ("^{$", "{", true),
        ("^a{,2}$", "a{,2}", true),
        ("^a{1,2}$", "aa", true),
        ("\\Qa.b\\E", "a.b", true),
        ("\\Qa.b\\E", "axb", false),
        ("^[a&&b]+$", "a&&b", true),
        ("\\<", "<", true),
        ("^[[:alpha:]]+$", "abc", true),
        ("^[a-c-]+$", "a-c", true),
        ("^[-a]+$", "-a", true),
        ("(?i:A)", "a", true),
        ("(?P<name>a)", "a", true),
        ("a+?", "a", true),
        ("^\\p{L}+$", "é", true),
        ("^[\\p{L}-]+$", "é-", true),
        ("^[^\\P{Greek}]$", "α", true),
        ("^\\x{1F600}$", "😀", true),
        ("^[\\x{4e00}-\\x{9fa5}]$", "中", true),
        ("^\\x41+$", "AA", true),
        ("^[\\w-.]+$", "a-b.c", true),
        ("^[\\w-.]+$", "a+b", false),
        ("^[\\s-.]$", "!", false),
        ("^[\\w-_]+$", "a-b", true),
        ("^[\\w-\\.]+@([\\w-]+\\.)+[\\w-]{2,4}$", "a-b@c.org", true),
        ("^[a-z\\d]+$", "a1", true),
        ("^[^\\[\\]]$", "a", true),
        ("^[ --b]$", "a", false),
        ("^a{2$", "a{2", true),
        ("^a{01}$", "a{01}", true),
        ("^[\\012]$", "\n", true),
        ("^\\p{L}{1,255}$", "abc", true),
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
        ("^(?:[A-Za-z0-9+/]{4})*$", "abcd", true),
    ] {
        let compiled = compiled(pattern).unwrap();
        assert_eq!(compiled.is_match(text), matches, "{pattern}");
    }
}

#[test]
fn malformed_patterns_are_rejected() {
    for (pattern, problem) in [
        ("a**", "invalid nested repetition operator: `*`"),
        ("a++", "invalid nested repetition operator: `+`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(a", "missing closing ): `(a`"),
        ("[a", "missing closing ]: `[a`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("\\y", "invalid escape sequence: `\\y`"),
        ("\\1", "invalid escape sequence: `\\1`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
    ] {
        let error = compiled(pattern).unwrap_err();
        assert_eq!(error, format!("error parsing regexp: {problem}"));
    }
}
