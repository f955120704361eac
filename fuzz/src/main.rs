//! `smoke TARGET SECONDS`: runs the corpus of a target and random mutations of it, without coverage.
//!
//! For machines without a nightly toolchain. The seed is printed and can be given as a third argument.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kopf_fuzz::Target;

/// Maximum size of inputs, in bytes.
const MOST_BYTES: usize = 4096;

/// The command line.
struct Arguments {
    target: Target,
    seconds: u64,
    seed: u64,
}

impl Arguments {
    fn parse(arguments: &[String]) -> Option<Self> {
        let ([target, seconds] | [target, seconds, _]) = arguments else {
            return None;
        };
        let seed = match arguments.get(2) {
            Some(seed) => seed.parse().ok()?,
            None => u64::from(std::process::id()),
        };
        Some(Self {
            target: target.parse().ok()?,
            seconds: seconds.parse().ok()?,
            seed,
        })
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(Arguments {
        target,
        seconds,
        seed,
    }) = Arguments::parse(&arguments)
    else {
        let names = Target::ALL.map(Target::name).join("|");
        eprintln!("usage: smoke {names} SECONDS [SEED]");
        return ExitCode::from(2);
    };
    println!("{}: seed {seed}, {seconds} seconds", target.name());
    smoke(target, Duration::from_secs(seconds), seed);
    ExitCode::SUCCESS
}

fn smoke(target: Target, time: Duration, seed: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name());
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    if let Ok(entries) = std::fs::read_dir(&folder) {
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        inputs.extend(files.iter().filter_map(|file| std::fs::read(file).ok()));
    }
    let (start, mut random, mut count) = (Instant::now(), Random(seed), 0_u64);
    for input in &inputs {
        target.run(input);
        count += 1;
    }
    if inputs.is_empty() {
        inputs.push(Vec::new());
    }
    let last = Last::default();
    while start.elapsed() < time {
        let mut input = inputs[random.below(inputs.len())].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &inputs, &mut random);
        }
        input.truncate(MOST_BYTES);
        last.keep(&input);
        target.run(&input);
        count += 1;
    }
    last.forget();
    println!("{}: {count} inputs, no failure", target.name());
}

/// The current input: written to a file when the thread panics.
#[derive(Default)]
struct Last(std::cell::RefCell<Vec<u8>>);

impl Last {
    fn keep(&self, input: &[u8]) {
        *self.0.borrow_mut() = input.to_vec();
    }

    fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        let input = self.0.borrow();
        if std::thread::panicking() && !input.is_empty() {
            let file = "fuzz-failure.bin";
            match std::fs::write(file, &*input) {
                Ok(()) => eprintln!("the input is in {file}"),
                Err(error) => eprintln!("cannot write {file}: {error}; the input: {input:?}"),
            }
        }
    }
}

fn mutate(input: &mut Vec<u8>, inputs: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(6) {
        0 if !input.is_empty() => {
            let at = random.below(input.len());
            input[at] ^= 1_u8 << random.below(8);
        }
        1 => input.insert(at, random.byte()),
        2 if !input.is_empty() => {
            let end = (at + 1 + random.below(8)).min(input.len());
            input.drain(at.min(end)..end);
        }
        3 => {
            // A piece of another input.
            let other = &inputs[random.below(inputs.len())];
            let from = random.below(other.len() + 1);
            let to = (from + random.below(32)).min(other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        4 => {
            const PIECES: [&str; 14] = [
                "null",
                "{}",
                "[]",
                "\"\"",
                "-1",
                "1e400",
                "99999999999999999999",
                "[[[[",
                "\u{feff}",
                "\\u0000",
                "$patch",
                "!= in (",
                " && ",
                "self.",
            ];
            let piece = PIECES[random.below(PIECES.len())];
            input.splice(at..at, piece.bytes());
        }
        _ => {
            // Repetition finds quadratic behaviour.
            let end = (at + random.below(16)).min(input.len());
            let piece = input[at.min(end)..end].repeat(1 + random.below(20));
            input.splice(at..at, piece);
        }
    }
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
