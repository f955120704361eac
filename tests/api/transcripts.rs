//! Generates a test for each case of `api/transcripts`, so that cases are selected by name.
//!
//! A case is an unindented key; the runner reports a difference between this list and its own.
#![allow(clippy::print_stdout, reason = "cargo reads the output")]

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=api/transcripts");
    let mut files: Vec<_> = fs::read_dir("api/transcripts")?.collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    let mut code = String::new();
    let mut list = String::new();
    for file in files {
        let name = file.file_name().to_string_lossy().replace(".yaml", "");
        let text = fs::read_to_string(file.path())?;
        let keys = text.lines().filter_map(|line| line.strip_suffix(':'));
        let cases = keys
            .filter(|key| !key.starts_with([' ', '#', '-']) && !["before", "after"].contains(key));
        let _ = writeln!(code, "mod {name} {{");
        for case in cases {
            let call = format!("kopf_tests::transcript::run({name:?}, {case:?}).await");
            let _ = writeln!(code, "#[tokio::test] async fn {case}() {{ {call} }}");
            let _ = writeln!(list, "({name:?}, {case:?}),");
        }
        let _ = writeln!(code, "}}");
    }
    let _ = writeln!(code, "const CASES: &[(&str, &str)] = &[{list}];");
    let out = env::var_os("OUT_DIR").ok_or(io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("transcripts.rs"), code)
}
