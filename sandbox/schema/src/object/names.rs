//! Syntax of object names.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;

/// The message about RFC 1123 subdomains.
pub(crate) const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// The message about RFC 1035 labels.
pub(crate) const LABEL_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn compiled(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

static LABEL: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static LABEL_1035: LazyLock<Option<Regex>> =
    LazyLock::new(|| compiled(r"^[a-z]([-a-z0-9]*[a-z0-9])?$"));
static SUBDOMAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compiled(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
});
fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

pub fn subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_long(253));
    }
    if !fits(&SUBDOMAIN, name) {
        problems.push(SUBDOMAIN_RULE.to_owned());
    }
    problems
}

pub fn label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if fits(&LABEL, name) {
        return problems;
    }
    if fits(&SUBDOMAIN, name) {
        problems.push("must not contain dots".to_owned());
    } else {
        problems.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

pub fn label_1035(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !fits(&LABEL_1035, name) {
        problems.push(LABEL_1035_RULE.to_owned());
    }
    problems
}

/// Returns the reasons why a name cannot be a segment of a path.
pub fn path_segment(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name == "." || name == ".." {
        problems.push(format!("may not be '{name}'"));
    }
    for part in ['/', '%'] {
        if name.contains(part) {
            problems.push(format!("may not contain '{part}'"));
        }
    }
    problems
}

/// Returns the reasons why a name is not an IP address in its canonical form.
pub fn address(name: &str) -> Vec<String> {
    let Ok(address) = name.parse::<IpAddr>() else {
        let parts = || name.split('.').map(str::parse::<u8>);
        if parts().count() == 4 && parts().all(|part| part.is_ok()) {
            return vec!["must not have leading 0s".to_owned()];
        }
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    let canonical = address.to_string();
    if canonical == name {
        Vec::new()
    } else {
        vec![format!("must be in canonical form ({canonical:?})")]
    }
}

/// Returns the error of a string that is not a DNS label, as in CRDs.
pub(crate) fn label_problem(text: &str) -> Option<String> {
    joined(&label_1035(text))
}

/// Returns the error of a string that is not a DNS subdomain, as in CRDs.
pub(crate) fn subdomain_problem(text: &str) -> Option<String> {
    joined(&subdomain(text))
}

/// Returns the error of a string that is not the name of a kind.
pub(crate) fn kind_name_problem(text: &str) -> Option<String> {
    let problem = label_problem(&text.to_lowercase())?;
    Some(format!(
        "may have mixed case, but should otherwise match: {problem}"
    ))
}

fn joined(problems: &[String]) -> Option<String> {
    (!problems.is_empty()).then(|| problems.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated_by_kind() {
        for good in ["a", "a.b", "a-1.b", "1"] {
            assert!(subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", "a/b", &"a".repeat(254)] {
            assert!(!subdomain(bad).is_empty(), "{bad}");
        }
        assert!(!label("a.b").is_empty());
        assert!(!label_1035("1a").is_empty());
        assert!(path_segment("system:node").is_empty());
        assert!(!path_segment("a/b").is_empty());
        assert!(address("fe80::42:1").is_empty());
        assert!(address("10.0.0.1").is_empty());
        for bad in ["a", "10.0.0", "FE80::1", "::ffff:1.2.3.4:5"] {
            assert!(!address(bad).is_empty(), "{bad}");
        }
    }
}
