//! Panics of users' functions, caught where they are called: a mistake in one of them is its own
//! failure and nobody else's.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A user's function has panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has panicked: {message}")]
pub struct Panicked {
    /// What was said.
    pub message: String,
}

/// Calls a function. What it has changed before it panicked stays as it is.
pub fn caught<T>(function: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| Panicked {
        message: describe(&*panic),
    })
}

/// What was said when panicking.
pub fn describe(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "without a message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors_that_say_what_was_said() {
        assert_eq!(caught(|| 5), Ok(5));
        let text = |function: fn()| caught(function).unwrap_err().to_string();
        assert_eq!(text(|| panic!("oops")), "it has panicked: oops");
        assert_eq!(text(|| panic!("oops {}", 5)), "it has panicked: oops 5");
        assert_eq!(
            text(|| std::panic::panic_any(5)),
            "it has panicked: without a message"
        );
    }
}
