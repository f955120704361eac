//! Panics of users' functions, caught at the call and converted to failures of the function.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The panic of a user's function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has panicked: {message}")]
pub struct Panicked {
    /// The panic message.
    pub message: String,
}

/// Calls a function. Its changes before a panic are kept.
pub fn caught<T>(function: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| Panicked {
        message: describe(&*panic),
    })
}

/// Returns the panic message.
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
    fn panics_become_errors_with_the_message() {
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
