//! Large stacks for recursive parsers: a stack overflow would abort the process.

use std::thread;

/// The size of the stack, in bytes. Memory is reserved, and committed on use.
const SIZE: usize = 64 << 20;

/// Runs a function on a large stack. A panic becomes an error.
pub fn on_large_stack<T: Send>(
    run: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(SIZE);
        let thread = builder
            .spawn_scoped(scope, run)
            .map_err(|error| format!("cannot be processed: {error}"))?;
        thread
            .join()
            .map_err(|_| "cannot be processed".to_owned())?
    })
}
