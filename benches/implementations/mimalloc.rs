//! The benchmarked operator with another allocator.

#[path = "operator.rs"]
mod operator;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    operator::main()
}
