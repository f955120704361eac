//! Formats of hosts, networks, mailboxes and resource names.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let member = r"a-zA-Z0-9\p{S}\p{L}";
    let single = format!(r"[{member}]((-?[{member}]{{0,62}})?)");
    let label = format!(r"[{member}](([{member}\-]{{0,61}}[{member}])?)");
    Regex::new(&format!(
        r"^({single}|({label}(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
    .expect("the pattern is a constant")
});

pub(super) fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && HOSTNAME.is_match(text)
}

/// Returns `true` for a DNS label in lower case.
pub(super) fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

/// Returns `true` for labels separated by dots.
pub(super) fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns `true` for an address with a dot, which includes IPv4-mapped IPv6 addresses.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && (loose_ipv4(text) || loose_ipv6(text))
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.contains(':') && text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let digits = !length.is_empty() && length.chars().all(|c| c.is_ascii_digit());
    let Some(length) = digits.then(|| length.parse::<u32>().ok()).flatten() else {
        return false;
    };
    (loose_ipv4(address) && length <= 32) || (loose_ipv6(address) && length <= 128)
}

/// Parses an IPv4 address with optional leading zeros, which are decimal.
fn loose_ipv4(text: &str) -> bool {
    let bare: Vec<&str> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            bare => bare,
        })
        .collect();
    bare.join(".").parse::<Ipv4Addr>().is_ok()
}

fn loose_ipv6(text: &str) -> bool {
    if text.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    // The last part can be an IPv4 address with leading zeros.
    text.rsplit_once(':').is_some_and(|(head, tail)| {
        tail.contains('.')
            && loose_ipv4(tail)
            && format!("{head}:0.0.0.0").parse::<Ipv6Addr>().is_ok()
    })
}

/// Returns `true` for 6, 8 or 20 bytes as `01:23:…`, `01-23-…` or `0123.4567.…`.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, width) = match (text.get(2..3), text.get(4..5)) {
        (Some(":"), _) => (':', 2_usize),
        (Some("-"), _) => ('-', 2),
        (_, Some(".")) => ('.', 4),
        _ => return false,
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let bytes = groups.len().saturating_mul(width) / 2;
    matches!(bytes, 6 | 8 | 20)
        && groups
            .iter()
            .all(|g| g.len() == width && g.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Returns `true` for `a@b`, `Name <a@b>` or `<a@b>`.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.strip_suffix('>') {
        None => text,
        Some(rest) => {
            let Some((name, address)) = rest.rsplit_once('<') else {
                return false;
            };
            if !is_display_name(name.trim_matches([' ', '\t'])) {
                return false;
            }
            address
        }
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() >= 2 && is_quoted(local);
    let literal = domain.starts_with('[') && domain.ends_with(']');
    let domain_fits = if literal {
        let inside = domain.trim_start_matches('[').trim_end_matches(']');
        let inside = inside.strip_prefix("IPv6:").unwrap_or(inside);
        inside.parse::<std::net::IpAddr>().is_ok()
    } else {
        is_dot_atom(domain)
    };
    (quoted || is_dot_atom(local)) && domain_fits
}

fn is_display_name(name: &str) -> bool {
    name.is_empty()
        || is_quoted(name)
        || name
            .split([' ', '\t'])
            .filter(|word| !word.is_empty())
            .all(|word| is_quoted(word) || word.chars().all(|c| is_atom_char(c) || c == '.'))
}

fn is_quoted(text: &str) -> bool {
    let inside = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let mut escaped = false;
    inside.is_some_and(|inside| {
        let sound = inside.chars().all(|c| {
            let sound = escaped || c != '"';
            escaped = !escaped && c == '\\';
            sound && !c.is_control()
        });
        sound && !escaped
    })
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.')
        .all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || "!#$%&'*+-/=?^_`{|}~".contains(c)
        || (!c.is_ascii() && !c.is_control())
}

/// Returns `true` for an absolute URI, or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_ascii_control()) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((has_scheme, rest)) = split_scheme(text) else {
        return false;
    };
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        // Opaque URIs such as `mailto:x` are not validated further.
        return has_scheme;
    }
    let authority = rest
        .strip_prefix("//")
        .filter(|_| has_scheme || !rest.starts_with("///"));
    let Some(authority) = authority else {
        return escapes_are_sound(rest);
    };
    let end = authority.find('/').unwrap_or(authority.len());
    let (authority, path) = authority.split_at(end);
    is_authority(authority) && escapes_are_sound(path)
}

/// Returns `true` and the rest if there is a scheme; `None` for a colon without a scheme.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            ':' if index == 0 => return None,
            ':' => return Some((true, text.get(index.saturating_add(1)..)?)),
            _ => return Some((false, text)),
        }
    }
    Some((false, text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", text),
    };
    let user_fits = escapes_are_sound(user)
        && user
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c));
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if !name.is_empty() => ("", port),
            _ => return false,
        },
        None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let digits = port.strip_prefix(':');
    let port_fits =
        port.is_empty() || digits.is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()));
    let name_fits =
        !name.chars().any(|c| " <>\"#?\\^`{|}[]".contains(c)) && escapes_are_sound(name);
    user_fits && name_fits && port_fits
}

/// Returns `true` if each percent sign is followed by two hexadecimal digits.
fn escapes_are_sound(text: &str) -> bool {
    text.split('%').skip(1).all(|after| {
        after
            .get(..2)
            .is_some_and(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, matcher: fn(&str) -> bool, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(matcher(text), "{name}: {text}");
        }
        for text in bad {
            assert!(!matcher(text), "{name}: {text}");
        }
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn known_good_and_bad() {
        let long = "a".repeat(64);
        check(
            "hostname",
            is_hostname,
            &["a", "example.com", "a-b.example.com"],
            &["", "a.b.", "-a", "a b", "1.2", &long],
        );
        check(
            "ipv4",
            is_ipv4,
            &["1.2.3.4", "01.002.3.4", "::ffff:1.2.3.4"],
            &["1.2.3", "1.2.3.256", "::1", "a.b.c.d", "1..2.3"],
        );
        check(
            "ipv6",
            is_ipv6,
            &["::1", "fe80::1"],
            &["1.2.3.4", "::g", "fe80::1%eth0"],
        );
        check(
            "cidr",
            is_cidr,
            &["10.0.0.0/8", "::/0", "010.0.0.0/8"],
            &[
                "10.0.0.0",
                "10.0.0.0/33",
                "10.0.0.0/",
                "10.0.0.0/+8",
                "::/129",
            ],
        );
        check(
            "mac",
            is_mac,
            &["01:02:03:04:05:06", "01-02-03-04-05-06", "0102.0304.0506"],
            &["01:02:03", "01:02:03:04:05:0g", ""],
        );
        check(
            "email",
            is_email,
            &["a@b", "First Last <a.b@c.d>", "\"a b\"@c.d", "<a@b>"],
            &["", "a", "a@", "@b", "a b@c", "a..b@c", "x <a@b"],
        );
        check(
            "uri",
            is_request_uri,
            &[
                "https://a.b/c?d=e#f",
                "/a/b",
                "mailto:a@b",
                "http://[::1]:80/",
                "http://a:80",
            ],
            &[
                "",
                "a/b",
                "a",
                "http://a b/",
                "http://a:x/",
                ":a",
                "http://a/%zz",
                "ht tp://a",
                "//[::1",
            ],
        );
        check(
            "short",
            is_short_name,
            &["a-b", "1"],
            &["", "A", "a.b", "-a", &long],
        );
        check(
            "long",
            is_long_name,
            &["a.b-c", "1"],
            &["", "a..b", "A", ".a"],
        );
    }
}
