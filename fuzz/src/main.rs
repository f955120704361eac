//! `smoke TARGET SECONDS`: runs the corpus of a target and mutations of it, without coverage.
//!
//! For machines without a nightly toolchain. Mutations flip bits, remove and repeat parts, and insert parts of other
//! inputs or words of the target's dictionary. The seed is printed and can be given as a third argument.

mod mutation;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kopf_fuzz::Target;

use self::mutation::Mutations;

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
    let mut mutations = Mutations::new(corpus(target), dictionary(target), seed);
    let (start, mut count) = (Instant::now(), 0_u64);
    let last = Last::default();
    for input in mutations.inputs() {
        last.keep(input);
        target.run(input);
        count += 1;
    }
    while start.elapsed() < time {
        let input = mutations.next_input();
        last.keep(&input);
        target.run(&input);
        count += 1;
    }
    last.forget();
    println!("{}: {count} inputs, no failure", target.name());
}

/// Reads the corpus of a target.
fn corpus(target: Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target.name());
    let Ok(entries) = std::fs::read_dir(&folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let inputs = files.iter().filter_map(|file| std::fs::read(file).ok());
    inputs.collect()
}

/// Reads the dictionary of a target. libFuzzer reads the same files (`-dict=`).
fn dictionary(target: Target) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("dictionaries")
        .join(format!("{}.dict", target.name()));
    let text = std::fs::read_to_string(&file).expect("every target has a dictionary");
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| mutation::word(line).expect("lines of dictionaries are quoted words"))
        .collect()
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
