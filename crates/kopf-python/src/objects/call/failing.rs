//! Failures of calls, as the bridge reports them.

use std::time::Duration;

use kopf_core::outcome::{Attachment, HandlerError};
use pyo3::prelude::*;

use crate::front::job::Exception;

/// Converts a number of seconds. Negative numbers are zero.
pub(super) fn delay(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

/// Returns the error of this kind. Unknown kinds are exceptions.
pub(super) fn error(
    kind: &str,
    message: String,
    delay: Option<Duration>,
    code: Option<u16>,
    exception: Option<Py<PyAny>>,
) -> HandlerError {
    match kind {
        "temporary" => HandlerError::temporary(message, delay),
        "permanent" => HandlerError::permanent(message),
        "denied" => HandlerError::denied(message, code),
        "unfinished" => HandlerError::Unfinished { delay },
        "cancelled" => HandlerError::Cancelled,
        _ => match exception {
            Some(exception) => {
                let attachment = Attachment::new(Exception(exception));
                HandlerError::exception(message, None, attachment)
            }
            None => HandlerError::arbitrary(message),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::attached;

    #[test]
    fn failures_have_the_kind_that_the_bridge_names() {
        let made = |kind: &str| error(kind, "text".to_owned(), Some(delay(2.0)), Some(403), None);
        for kind in ["temporary", "permanent", "denied", "arbitrary"] {
            assert_eq!(made(kind).to_string(), "text", "{kind}");
        }
        assert!(matches!(made("cancelled"), HandlerError::Cancelled));
        let HandlerError::Unfinished { delay } = made("unfinished") else {
            panic!("not unfinished")
        };
        assert_eq!(delay, Some(Duration::from_secs(2)));
    }

    #[test]
    fn exceptions_are_kept_for_their_records() {
        attached(|py| {
            let raised = py.eval(c"ValueError('text')", None, None)?.unbind();
            let kept = error(
                "",
                "text".to_owned(),
                None,
                None,
                Some(raised.clone_ref(py)),
            );
            assert_eq!(kept.to_string(), "text");
            let HandlerError::Arbitrary { attachment, .. } = kept else {
                panic!("not an exception")
            };
            let exception = Exception::of(py, &attachment.unwrap()).unwrap();
            assert!(exception.is(&raised));
            Ok(())
        });
    }

    #[test]
    fn negative_delays_are_zero_and_endless_ones_are_limited() {
        assert_eq!(delay(-1.0), Duration::ZERO);
        assert_eq!(delay(f64::NAN), Duration::ZERO);
        assert_eq!(delay(f64::INFINITY), Duration::MAX);
    }
}
