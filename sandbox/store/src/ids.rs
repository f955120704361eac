//! Random identifiers: uids of objects, suffixes of generated names, uids of reviews.

use crate::sync::Mutex;

/// The alphabet of generated names, without vowels and look-alikes, as on a real server.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of identifiers. The same seed gives the same sequence. Not for secrets.
#[derive(Debug)]
pub struct Ids {
    state: Mutex<u64>,
    /// The state of audit ids: the number of requests does not affect other identifiers.
    audits: Mutex<u64>,
}

impl Ids {
    pub fn seeded(seed: u64) -> Self {
        Self {
            state: Mutex::new(seed),
            audits: Mutex::new(!seed),
        }
    }

    fn next(&self) -> u64 {
        next(&mut self.state.lock())
    }

    /// Returns a version 4 UUID.
    pub fn uid(&self) -> String {
        uuid(self.next(), self.next())
    }

    /// Returns the identifier of a request, a version 4 UUID.
    pub fn audit_id(&self) -> String {
        let mut state = self.audits.lock();
        uuid(next(&mut state), next(&mut state))
    }

    /// Returns the five characters that follow `generateName`.
    pub fn suffix(&self) -> String {
        let mut bits = self.next();
        (0..5)
            .map(|_| {
                let count = SUFFIX_ALPHABET.len() as u64;
                let at = usize::try_from(bits % count).unwrap_or_default();
                bits /= count;
                char::from(SUFFIX_ALPHABET.get(at).copied().unwrap_or(b'x'))
            })
            .collect()
    }
}

/// Returns the next 64 bits (the splitmix64 generator).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn uuid(high: u64, low: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_the_same_sequence() {
        let (one, two) = (Ids::seeded(7), Ids::seeded(7));
        assert_eq!((one.uid(), one.suffix()), (two.uid(), two.suffix()));
        assert_ne!(one.uid(), one.uid());
        assert_ne!(Ids::seeded(8).uid(), Ids::seeded(7).uid());
    }

    #[test]
    fn uids_are_version_4() {
        let uid = Ids::seeded(1).uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&uid.as_bytes()[19]), "{uid}");
    }
}
