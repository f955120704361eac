#!/usr/bin/env bash
# Measures the builds of a minimal operator outside of this tree: CPU time, number of crates, size of the program, and
# the crates that `cargo test` compiles a second time with other features. Prints rows for docs/figures.md. Other load on
# the machine affects only the CPU time.
# Usage: tests/release/build-figures.sh [--crates]; with --crates, only the figures that need no compilation
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/kopf-figures.XXXXXX")"
trap 'rm -rf "$work"' EXIT
unset CARGO_TARGET_DIR RUSTFLAGS
export CARGO_INCREMENTAL=1
TIMEFORMAT='%U %S'

project() { # NAME DEPENDENCIES
    mkdir -p "$work/$1/src"
    cp "$root/Cargo.lock" "$work/$1/" # the dependency versions of this repository
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2024"\n\n%s\n\n[workspace]\n' "$1" "$2" \
        >"$work/$1/Cargo.toml"
    cat >"$work/$1/src/main.rs" <<'RUST'
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn(Spec(spec): Spec, logger: Logger) -> kopf::Result<Value> {
    logger.info(format_args!("Creating: {spec}"));
    Ok(json!({"message": "hello world"}))
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
RUST
}

row() { printf '| %s | `%s` | %s |\n' "$1" "$2" "$3"; }

crates() { # one line per crate of the program
    cargo tree --quiet --edges normal --prefix none --format '{p}' | sed 's/ (\*)$//' | sort -u
}

features() { # EDGES: one line per crate with its features
    cargo tree --quiet --edges "$1" --prefix none --format '{p} {f}' | sed 's/ (\*)$//' | sort -u
}

seconds() { # COMMAND…: CPU time in seconds
    { time "$@" >"$work/log" 2>&1; } 2>"$work/time" || { cat "$work/log" >&2; return 1; }
    awk '{printf "%.0f s of CPU time", $1 + $2}' "$work/time"
}

project minimal "[dependencies]
kopf = { path = \"$root/crates/kopf\" }"
project tested "[dependencies]
kopf = { path = \"$root/crates/kopf\", features = [\"sandbox\"] }

[dev-dependencies]
kopf-testing = { path = \"$root/crates/kopf-testing\" }
tokio = { version = \"1\", features = [\"macros\", \"rt\", \"test-util\"] }"

cd "$work/tested"
again="$(comm -23 <(features normal,build) <(features normal,build,dev) | cut -d' ' -f1 | paste -sd' ')"
cd "$work/minimal"
row "crates" "cargo tree --edges normal" "$(crates | wc -l)"
row "crates that \`cargo test\` compiles again" "cargo test" "${again:-none}"
[ "${1:-}" != --crates ] || exit 0

cargo fetch --quiet
figure="$(seconds cargo build)"
row "first debug build" "cargo build" "$figure"
touch src/main.rs
figure="$(seconds cargo build)"
row "rebuild after a change of a handler" "touch src/main.rs && cargo build" "$figure"
figure="$(seconds cargo build --release)"
row "first release build" "cargo build --release" "$figure"
strip target/release/minimal
figure="$(stat -c %s target/release/minimal | awk '{printf "%.1f MB", $1 / 1e6}')"
row "release binary, stripped" "strip target/release/minimal" "$figure"
