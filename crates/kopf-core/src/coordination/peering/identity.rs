//! Identities of operators among their peers.

use jiff::Timestamp;
use jiff::tz::Offset;

/// The alphabet of the random part.
const LETTERS: &[u8; 35] = b"abcdefhijklmnopqrstuvwxyz0123456789";

/// Suffixes that do not distinguish machines.
const SUFFIXES: [&str; 2] = [".local", ".localdomain"];

/// Returns `user@host/20260102030405/abc`: the user, the host, the start time, and a random part.
///
/// ```
/// use kopf_core::peering::generated_identity;
/// use kopf_core::timestamp;
///
/// let now = timestamp::parse("2026-01-02T03:04:05Z")?;
/// assert_eq!(generated_identity("me", "here", now, 0), "me@here/20260102030405/aaa");
/// # Ok::<_, timestamp::Error>(())
/// ```
pub fn generated_identity(user: &str, host: &str, started: Timestamp, random: u64) -> String {
    let started = Offset::UTC.to_datetime(started);
    let mut rest = random;
    let mut letters = String::with_capacity(3);
    for _ in 0..3 {
        let base = LETTERS.len() as u64;
        let position = usize::try_from(rest % base).unwrap_or_default();
        letters.push(
            LETTERS
                .get(position)
                .map_or('a', |letter| char::from(*letter)),
        );
        rest /= base;
    }
    format!(
        "{}/{:04}{:02}{:02}{:02}{:02}{:02}/{letters}",
        manual_identity(user, host),
        started.year(),
        started.month(),
        started.day(),
        started.hour(),
        started.minute(),
        started.second(),
    )
}

/// Returns `user@host`, for commands that the same person repeats on the same machine.
pub fn manual_identity(user: &str, host: &str) -> String {
    format!("{user}@{host}")
}

/// Returns the most descriptive name of a machine: one with dots, then any; neither addresses nor
/// reverse names nor `localhost`. The first is the machine's own, and the fallback.
pub fn descriptive_host<'a>(names: &[&'a str]) -> &'a str {
    let is_telling = |name: &&&'a str| {
        let is_reverse = name.rsplit('.').next() == Some("arpa");
        !name.is_empty() && !is_reverse && name.parse::<std::net::IpAddr>().is_err()
    };
    let telling = || names.iter().filter(is_telling);
    let mut chosen: &'a str = telling()
        .find(|name| name.contains('.'))
        .or_else(|| telling().find(|name| **name != "localhost"))
        .or_else(|| names.iter().find(|name| !name.is_empty()))
        .copied()
        .unwrap_or("localhost");
    while let Some(shorter) = SUFFIXES
        .iter()
        .find_map(|suffix| chosen.strip_suffix(suffix))
        .filter(|shorter| !shorter.is_empty())
    {
        chosen = shorter;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_part_has_three_letters_of_the_alphabet() {
        for random in [0, 1, 34, 35, u64::MAX] {
            let identity = generated_identity("u", "h", Timestamp::UNIX_EPOCH, random);
            let letters = identity.rsplit('/').next().unwrap();
            assert_eq!(letters.len(), 3);
            assert!(letters.bytes().all(|letter| LETTERS.contains(&letter)));
        }
        let one = generated_identity("u", "h", Timestamp::UNIX_EPOCH, 1);
        assert_eq!(one, "u@h/19700101000000/baa");
    }

    #[test]
    fn most_descriptive_host_name_is_used() {
        for (names, expected) in [
            (&["pod-1"][..], "pod-1"),
            (&["box", "box.example.com"], "box.example.com"),
            (&["box.local", "10.0.0.1"], "box"),
            (&["box.localdomain.local"], "box"),
            (&["localhost", "1.0.0.127.in-addr.arpa", "box"], "box"),
            (&["localhost"], "localhost"),
            (&["10.0.0.1"], "10.0.0.1"),
            (&["", ".local"], ".local"),
            (&[], "localhost"),
        ] {
            assert_eq!(descriptive_host(names), expected, "{names:?}");
        }
    }
}
