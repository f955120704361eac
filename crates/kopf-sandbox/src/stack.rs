//! Stacks for parsers that recurse: one that overflows ends the process.

use std::thread;

/// The stack of one run. It is reserved, and used as far as needed.
const SIZE: usize = 64 << 20;

/// Runs a function on a large stack of its own. A panic becomes an error.
pub(crate) fn on_large_stack<T: Send>(
    run: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(SIZE);
        let thread = builder
            .spawn_scoped(scope, run)
            .map_err(|error| format!("it cannot be processed: {error}"))?;
        thread
            .join()
            .map_err(|_| "it cannot be processed".to_owned())?
    })
}
