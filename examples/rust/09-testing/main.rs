//! An operator with a test: `tests/testing.rs` runs it on a sandbox in the same process, with
//! virtual time.
//!
//! ```console
//! cargo test --package kopf-examples --test testing
//! ```

use kopf_examples::greeter;

fn main() -> std::process::ExitCode {
    kopf::main(greeter::operator())
}
