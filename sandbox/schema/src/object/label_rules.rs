//! Syntax of label keys and values, with the messages of the real server.

use super::names::SUBDOMAIN_RULE;

const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
    used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const NAME_LENGTH: usize = 63;
const PREFIX_LENGTH: usize = 253;

/// Returns the errors of a label key (a qualified name); empty if it is valid.
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {KEY_RULE} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > PREFIX_LENGTH {
                    errors.push(format!(
                        "prefix part must be no more than {PREFIX_LENGTH} bytes"
                    ));
                }
                if !is_subdomain(prefix) {
                    errors.push(format!("prefix part {SUBDOMAIN_RULE}"));
                }
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_LENGTH {
        errors.push(format!(
            "name part must be no more than {NAME_LENGTH} bytes"
        ));
    }
    if !is_name(name) {
        errors.push(format!("name part {KEY_RULE}"));
    }
    errors
}

/// Returns the errors of a label value; empty if it is valid.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > NAME_LENGTH {
        errors.push(format!("must be no more than {NAME_LENGTH} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(VALUE_RULE.to_owned());
    }
    errors
}

fn is_name(name: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    has_alphanumeric_ends(name.as_bytes()) && name.bytes().all(inner)
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(|label| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        has_alphanumeric_ends(label.as_bytes()) && label.bytes().all(inner)
    })
}

fn has_alphanumeric_ends(bytes: &[u8]) -> bool {
    let good = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    good(bytes.first()) && good(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_keys_and_values_have_no_errors() {
        for key in ["a", "app.kubernetes.io/name", "9x", "a_B-c.d", "x/0"] {
            assert!(label_key_errors(key).is_empty(), "{key}");
        }
        for value in ["", "a", "A.b_c-9"] {
            assert!(label_value_errors(value).is_empty(), "{value}");
        }
    }

    #[test]
    fn invalid_keys_and_values_have_messages() {
        for key in ["", "-a", "a-", "a b", "/a", "a/", "A/b", "a..b/c", "é"] {
            assert!(!label_key_errors(key).is_empty(), "{key}");
        }
        assert_eq!(label_key_errors("a/b/c").len(), 1);
        assert_eq!(label_key_errors("").len(), 2);
        let long = "a".repeat(64);
        assert_eq!(
            label_key_errors(&long),
            ["name part must be no more than 63 bytes"]
        );
        assert_eq!(label_value_errors(&long), ["must be no more than 63 bytes"]);
        assert!(
            label_value_errors("a ")
                .concat()
                .starts_with("a valid label must be")
        );
    }
}
