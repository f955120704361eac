//! Shard selectors, evaluated where the server does not do it.

use super::hash;

/// The hashed field of a shard selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

/// A parsed shard selector: ranges of hashes of one field.
///
/// ```
/// use kopf_core::sharding::Ranges;
///
/// let text = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
/// let low = Ranges::parse(text).unwrap();
/// assert!(!low.contains("a", None)); // its hash is 0xaf63dc4c8601ec8c
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges {
    field: Field,
    /// Beginnings, and ends, which are excluded and can be 2^64.
    ranges: Vec<(u128, u128)>,
}

impl Ranges {
    /// Parses `shardRange(FIELD, 'START', 'END')`, or several of them with `||`, all of the same field.
    /// Returns `None` for anything else: servers with the feature reject it, others ignore it.
    pub fn parse(selector: &str) -> Option<Self> {
        let mut parsed: Option<Self> = None;
        for part in selector.split("||") {
            let (field, range) = parse_range(part)?;
            let all = parsed.get_or_insert(Self {
                field,
                ranges: Vec::new(),
            });
            if all.field != field {
                return None;
            }
            all.ranges.push(range);
        }
        parsed
    }

    /// Returns `true` if an object is in one of the ranges.
    pub fn contains(&self, uid: &str, namespace: Option<&str>) -> bool {
        let text = match self.field {
            Field::Uid => uid,
            Field::Namespace => namespace.unwrap_or_default(),
        };
        let hash = u128::from(hash(text.as_bytes()));
        self.ranges
            .iter()
            .any(|(start, end)| (*start..*end).contains(&hash))
    }
}

fn parse_range(text: &str) -> Option<(Field, (u128, u128))> {
    let mut text = text.trim();
    while let Some(inner) = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
    {
        text = inner.trim();
    }
    let arguments = text.strip_prefix("shardRange(")?.strip_suffix(')')?;
    let mut arguments = arguments.split(',').map(str::trim);
    let field = match arguments.next()? {
        "object.metadata.uid" => Field::Uid,
        "object.metadata.namespace" => Field::Namespace,
        _ => return None,
    };
    let (start, end) = (bound(arguments.next()?)?, bound(arguments.next()?)?);
    (arguments.next().is_none() && start < end).then_some((field, (start, end)))
}

fn bound(text: &str) -> Option<u128> {
    let quoted = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    let digits = quoted('\'').or_else(|| quoted('"'))?.strip_prefix("0x")?;
    u128::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{selector, shard_of};
    use super::*;

    #[test]
    fn own_selectors_contain_exactly_the_objects_of_their_shards() {
        for count in [1, 2, 3, 12, 256] {
            for first in [0, count / 2] {
                let shards: Vec<u32> = (first..count).step_by(2).collect();
                let ranges = Ranges::parse(&selector(shards.iter().copied(), count)).unwrap();
                for number in 0..200 {
                    let uid = format!("uid-{number}");
                    let shard = shard_of(hash(uid.as_bytes()), count);
                    assert_eq!(ranges.contains(&uid, None), shards.contains(&shard));
                }
            }
        }
    }

    #[test]
    fn other_notations_and_fields_are_parsed() {
        let low = r#"( shardRange(object.metadata.namespace,"0x0", "0x8000000000000000"))"#;
        let low = Ranges::parse(low).unwrap();
        let is_low = hash(b"default") < 1 << 63;
        assert_eq!(low.contains("", Some("default")), is_low);
        assert_eq!(low.contains("", None), hash(b"") < 1 << 63);
    }

    #[test]
    fn other_texts_are_not_selectors() {
        let good = "shardRange(object.metadata.uid, '0x0', '0x8')";
        assert!(Ranges::parse(good).is_some());
        for wrong in [
            String::new(),
            "nonsense".to_owned(),
            good.replace("uid", "name"),
            good.replace("'0x8'", "8"),
            good.replace("'0x8'", "'0x0'"),
            good.replace("'0x8'", "'0x8', 'x'"),
            format!("{good} || {}", good.replace("uid", "namespace")),
            format!("{good} ||"),
        ] {
            assert_eq!(Ranges::parse(&wrong), None, "{wrong}");
        }
    }
}
