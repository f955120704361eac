//! An operator with a test: see `tests/testing.rs` beside it, which runs it on a sandbox in the
//! test's own process, with time that passes at once.
//!
//! ```console
//! cargo test --package kopf-examples --test testing
//! ```

use kopf_examples::greeter;

fn main() -> std::process::ExitCode {
    kopf::main_with(greeter::operator())
}
