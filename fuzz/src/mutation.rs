//! Mutations of inputs.

/// Maximum size of inputs in bytes, the same as `-max_len` of libFuzzer.
const MOST_BYTES: usize = 4096;
/// Maximum number of mutated inputs that are mutated further. They are chosen at random, because there is no coverage.
const MOST_DESCENDANTS: usize = 64;

/// An endless sequence of mutated inputs.
pub(crate) struct Mutations {
    inputs: Vec<Vec<u8>>,
    descendants: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    random: Random,
}

impl Mutations {
    /// Returns the mutations of some inputs. The same seed gives the same sequence.
    pub(crate) fn new(mut inputs: Vec<Vec<u8>>, words: Vec<Vec<u8>>, seed: u64) -> Self {
        if inputs.is_empty() {
            inputs.push(Vec::new());
        }
        Self {
            inputs,
            descendants: Vec::new(),
            words,
            random: Random(seed),
        }
    }

    /// Returns the original inputs.
    pub(crate) fn inputs(&self) -> &[Vec<u8>] {
        &self.inputs
    }

    /// Returns the next mutated input.
    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        // One input in four is mutated further, so mutations accumulate.
        let further = !self.descendants.is_empty() && self.random.below(4) == 0;
        let from = if further {
            &self.descendants
        } else {
            &self.inputs
        };
        let mut input = from[self.random.below(from.len())].clone();
        for _ in 0..=self.random.below(4) {
            self.mutate(&mut input);
        }
        input.truncate(MOST_BYTES);
        if self.random.below(8) == 0 {
            self.keep(input.clone());
        }
        input
    }

    fn keep(&mut self, input: Vec<u8>) {
        if self.descendants.len() < MOST_DESCENDANTS {
            self.descendants.push(input);
        } else {
            let at = self.random.below(MOST_DESCENDANTS);
            self.descendants[at] = input;
        }
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        let at = random.below(input.len() + 1);
        match random.below(8) {
            0 if !input.is_empty() => {
                let at = random.below(input.len());
                input[at] ^= 1_u8 << random.below(8);
            }
            1 => input.insert(at, random.byte()),
            2 => {
                let end = (at + 1 + random.below(8)).min(input.len());
                input.drain(at..end);
            }
            3 => {
                let other = &self.inputs[random.below(self.inputs.len())];
                let from = random.below(other.len() + 1);
                let to = (from + random.below(32)).min(other.len());
                input.splice(at..at, other[from..to].iter().copied());
            }
            4 => {
                // Replaces the rest by the end of another input.
                let other = &self.inputs[random.below(self.inputs.len())];
                let from = random.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            5 | 6 if !self.words.is_empty() => {
                let word = &self.words[random.below(self.words.len())];
                // Half of the words overwrite bytes, the others are inserted.
                let over = random.below(2) * word.len();
                let end = (at + over).min(input.len());
                input.splice(at..end, word.iter().copied());
            }
            _ => {
                // Repetition triggers quadratic behaviour and deep nesting.
                let end = (at + random.below(16)).min(input.len());
                let piece = input[at..end].repeat(1 + random.below(20));
                input.splice(at..at, piece);
            }
        }
    }
}

/// Parses a line of a dictionary: a quoted word with the escapes `\\`, `\"` and `\xAB`. Returns `None` if it is
/// malformed.
pub(crate) fn word(line: &str) -> Option<Vec<u8>> {
    let quoted = line.trim().strip_prefix('"')?.strip_suffix('"')?;
    let mut word = Vec::new();
    let mut rest = quoted.bytes();
    while let Some(byte) = rest.next() {
        word.push(match byte {
            b'"' => return None,
            b'\\' => match rest.next()? {
                escaped @ (b'\\' | b'"') => escaped,
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                _ => return None,
            },
            other => other,
        });
    }
    Some(word)
}

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
