//! Formats of encodings, identifiers and colours.

/// Returns `true` for standard Base64 with padding, except for the empty string.
pub(super) fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len().saturating_sub(body.len());
    !body.is_empty()
        && padding <= 2
        && text.len().is_multiple_of(4)
        && body
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'))
}

/// Returns `true` for a UUID, with or without dashes, optionally of one version only.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (index, length) in [8_usize, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, tail)) = rest.split_at_checked(length) else {
            return false;
        };
        if !group.chars().all(|c| c.is_ascii_hexdigit()) {
            return false;
        }
        let first = group.chars().next();
        match (index, version) {
            (2, Some(_)) if first != version => return false,
            (3, Some('4' | '5')) if !first.is_some_and(|c| "89abAB".contains(c)) => return false,
            _ => {}
        }
        rest = tail;
    }
    rest.is_empty()
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.chars().all(|c| c.is_ascii_hexdigit())
}

/// Returns `true` for `rgb(1, 2, 3)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text
        .strip_prefix("rgb(")
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return false;
    };
    let parts: Vec<&str> = inside
        .split(',')
        .map(|part| part.trim_matches(is_space))
        .collect();
    parts.len() == 3
        && parts.iter().all(|part| {
            let plain = !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
            plain && (*part == "0" || !part.starts_with('0')) && part.parse::<u8>().is_ok()
        })
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0C')
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let Some(digits) = isbn_digits(text, 10) else {
        return false;
    };
    let sum: u32 = (1..)
        .zip(&digits)
        .map(|(weight, digit): (u32, _)| weight * digit)
        .sum();
    sum.is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let Some(digits) = isbn_digits(text, 13) else {
        return false;
    };
    let weighted = [1, 3]
        .into_iter()
        .cycle()
        .zip(&digits)
        .map(|(weight, digit)| weight * digit);
    weighted.sum::<u32>().is_multiple_of(10)
}

/// Returns the digits of an ISBN of this length; `X` is ten in short ones.
fn isbn_digits(text: &str, length: usize) -> Option<Vec<u32>> {
    let text: Vec<char> = text
        .chars()
        .filter(|c| !is_space(*c) && *c != '-')
        .collect();
    if text.len() != length {
        return None;
    }
    let digit = |(index, c): (usize, &char)| match c {
        'X' if length == 10 && index == 9 => Some(10),
        c => c.to_digit(10),
    };
    text.iter().enumerate().map(digit).collect()
}

/// Returns `true` for a card number of a known issuer with a valid check digit. Other characters
/// than digits are skipped.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let prefix = |length: usize| {
        digits
            .get(..length)
            .and_then(|p| p.parse::<u32>().ok())
            .unwrap_or(0)
    };
    let known = match digits.len() {
        13 => prefix(1) == 4,
        14 => matches!(prefix(3), 300..=305) || matches!(prefix(2), 36 | 38),
        15 => matches!(prefix(2), 34 | 37) || matches!(prefix(4), 2131 | 1800),
        16 => {
            matches!(prefix(1), 4)
                || matches!(prefix(2), 51..=55 | 65 | 35)
                || matches!(prefix(4), 6011)
        }
        _ => false,
    };
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|c| c.to_digit(10))
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    known && sum.is_multiple_of(10)
}

/// Returns `true` for `123-45-6789`, with dashes or spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    text.len() == 11
        && text.char_indices().all(|(index, c)| match index {
            3 | 6 => matches!(c, '-' | ' '),
            _ => c.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_good_and_bad() {
        assert!(is_base64("aGVsbG8=") && is_base64("aGVs"));
        assert!(
            !is_base64("") && !is_base64("aGVsbG8") && !is_base64("a===") && !is_base64("-_-_")
        );
        let uuid = "7ab9ee07-fe4a-4d47-a9a3-39bd73bbc5d1";
        assert!(is_uuid(uuid, None) && is_uuid(uuid, Some('4')) && !is_uuid(uuid, Some('3')));
        assert!(is_uuid(&uuid.replace('-', ""), None) && !is_uuid("7ab9", None));
        assert!(is_hex_color("#fff") && is_hex_color("00AAbb") && !is_hex_color("#ffff"));
        assert!(is_rgb_color("rgb(0, 12,255)") && !is_rgb_color("rgb(0,1,256)"));
        assert!(!is_rgb_color("rgb(00,1,2)"));
        assert!(is_isbn10("0321751043") && !is_isbn10("0321751044"));
        assert!(is_isbn13("978-0321751041") && !is_isbn13("978-0321751042"));
        assert!(is_credit_card("4111-1111-1111-1111") && !is_credit_card("4111-1111-1111-1112"));
        assert!(is_ssn("111-22-3333") && !is_ssn("111223333") && !is_ssn("11-122-3333"));
    }
}
