//! Truth tables; the messages are those of the original.

use serde_json::json;

use super::*;

const BACKOFF: Duration = Duration::from_secs(60);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns an attempt after one finished attempt, 10 seconds after the first one.
fn attempt(retrying: &Retrying) -> Attempt<'_> {
    Attempt {
        label: "Handler 'fn'",
        retrying,
        default_errors: ErrorsMode::Temporary,
        default_backoff: BACKOFF,
        retries: 1,
        runtime: secs(10),
    }
}

fn decided(retrying: &Retrying, error: HandlerError) -> Outcome {
    decide(&attempt(retrying), secs(12), Err(error))
}

fn logged(outcome: &Outcome) -> (Level, String) {
    outcome.log("Handler 'fn'", HandlerKind::Create, Style::Original)
}

fn limits(timeout: Option<u64>, retries: Option<u32>) -> Retrying {
    Retrying {
        timeout: timeout.map(secs),
        retries,
        ..Retrying::default()
    }
}

fn temporary(delay: Option<u64>) -> HandlerError {
    HandlerError::temporary("boom", delay.map(secs))
}

#[test]
fn success_delivers_the_value() {
    let none = Retrying::default();
    let outcome = decide(&attempt(&none), secs(12), Ok(Some(json!({"a": 1}))));
    assert!(outcome.is_final);
    assert_eq!((&outcome.error, outcome.delay), (&None, None));
    assert_eq!(outcome.value, Some(json!({"a": 1})));
    assert_eq!(
        logged(&outcome),
        (Level::Info, "Handler 'fn' succeeded.".to_owned())
    );

    let outcome = decide(&attempt(&none), secs(12), Ok(Some(json!(null))));
    assert_eq!(outcome.value, None);
}

#[test]
fn success_counts_even_beyond_the_limits() {
    let outcome = decide(&attempt(&limits(Some(11), Some(1))), secs(12), Ok(None));
    assert_eq!(outcome.verdict, Verdict::Succeeded);
}

#[test]
fn unfinished_sub_handlers_are_a_silent_retry_without_limits() {
    for delay in [None, Some(Duration::ZERO), Some(secs(5))] {
        let error = HandlerError::Unfinished { delay };
        let outcome = decided(&limits(Some(12), Some(2)), error);
        assert_eq!((outcome.is_final, outcome.delay), (false, delay));
        assert_eq!(outcome.error.as_deref(), Some("None"));
        let text = "Handler 'fn' has unfinished sub-handlers. Will retry soon.".to_owned();
        assert_eq!(logged(&outcome), (Level::Debug, text));
    }
}

/// Timeout, retries, delay → the message of a final failure, or none for a retry. The runtime is 12
/// seconds, after one attempt.
#[test]
fn temporary_errors() {
    let cases = [
        (None, None, Some(60), None),
        (None, None, None, None),
        (None, Some(3), Some(60), None),
        (Some(73), None, Some(60), None),
        (Some(72), None, Some(60), Some("time out after 72 seconds")),
        (Some(12), None, None, Some("time out after 12 seconds")),
        (Some(13), None, None, None),
        (None, Some(2), Some(60), Some("exceed 2 retries")),
        (None, Some(2), None, Some("exceed 2 retries")),
        (
            Some(30),
            Some(2),
            Some(60),
            Some("time out after 30 seconds"),
        ),
    ];
    for (timeout, retries, delay, failure) in cases {
        let outcome = decided(&limits(timeout, retries), temporary(delay));
        let (level, text) = logged(&outcome);
        assert_eq!(level, Level::Error);
        if let Some(failure) = failure {
            let expected = format!("Handler 'fn' failed temporarily but will {failure}: boom");
            assert_eq!((outcome.is_final, outcome.delay), (true, None));
            assert_eq!(outcome.error.as_ref(), Some(&expected));
            assert_eq!(text, expected);
        } else {
            assert_eq!((outcome.is_final, outcome.delay), (false, delay.map(secs)));
            assert_eq!(outcome.error.as_deref(), Some("boom"));
            assert_eq!(text, "Handler 'fn' failed temporarily: boom");
        }
    }
}

#[test]
fn permanent_errors_are_final_in_any_mode() {
    for errors in [
        ErrorsMode::Ignored,
        ErrorsMode::Temporary,
        ErrorsMode::Permanent,
    ] {
        let retrying = Retrying {
            errors: Some(errors),
            ..Retrying::default()
        };
        let outcome = decided(&retrying, HandlerError::permanent("the end"));
        assert!(outcome.is_final);
        assert_eq!(outcome.error.as_deref(), Some("the end"));
        let text = "Handler 'fn' failed permanently: the end".to_owned();
        assert_eq!(logged(&outcome), (Level::Error, text));
    }
}

/// Mode, timeout, retries, backoff → final, delay, the error in the record, the message in the log.
#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn arbitrary_errors() {
    use ErrorsMode::{Ignored, Permanent, Temporary};
    let ignored = "failed with an exception and will ignore it: boom";
    let stopped = "failed with an exception and will stop now: boom";
    let later =
        |n: &str| format!("failed with an exception and will try again in {n} seconds: boom");
    let ahead = |limit: &str| {
        format!(
            "failed with an exception and will stop now \
             (it would {limit} on the next attempt): boom"
        )
    };
    let cases = [
        (
            Some(Ignored),
            None,
            None,
            None,
            true,
            None,
            None,
            ignored.to_owned(),
        ),
        (
            Some(Ignored),
            Some(12),
            Some(1),
            None,
            true,
            None,
            None,
            ignored.to_owned(),
        ),
        (
            Some(Permanent),
            None,
            None,
            None,
            true,
            None,
            Some("boom"),
            stopped.to_owned(),
        ),
        (
            Some(Permanent),
            Some(12),
            Some(1),
            None,
            true,
            None,
            Some("boom"),
            stopped.to_owned(),
        ),
        (
            Some(Temporary),
            None,
            None,
            None,
            false,
            Some(60),
            Some("boom"),
            later("60"),
        ),
        (
            None,
            None,
            None,
            None,
            false,
            Some(60),
            Some("boom"),
            later("60"),
        ),
        (
            None,
            None,
            None,
            Some(1),
            false,
            Some(1),
            Some("boom"),
            later("1"),
        ),
        (
            None,
            Some(73),
            Some(3),
            None,
            false,
            Some(60),
            Some("boom"),
            later("60"),
        ),
        (
            None,
            Some(72),
            None,
            None,
            true,
            None,
            None,
            ahead("time out in 72 seconds"),
        ),
        (
            None,
            Some(13),
            None,
            Some(1),
            true,
            None,
            None,
            ahead("time out in 13 seconds"),
        ),
        (
            None,
            None,
            Some(2),
            None,
            true,
            None,
            None,
            ahead("exceed 2 retries"),
        ),
        (
            None,
            Some(72),
            Some(2),
            None,
            true,
            None,
            None,
            ahead("time out in 72 seconds"),
        ),
    ];
    for (errors, timeout, retries, backoff, is_final, delay, error, text) in cases {
        let retrying = Retrying {
            errors,
            backoff: backoff.map(secs),
            ..limits(timeout, retries)
        };
        let details = Some("chain".to_owned());
        let message = "boom".to_owned();
        let outcome = decided(
            &retrying,
            HandlerError::Arbitrary {
                message,
                details,
                attachment: None,
            },
        );
        let text = format!("Handler 'fn' {text}");
        let is_ignored = errors == Some(ErrorsMode::Ignored);
        let error = error.or((!is_ignored).then_some(text.as_str()));
        assert_eq!(
            (outcome.is_final, outcome.delay),
            (is_final, delay.map(secs)),
            "{text}"
        );
        assert_eq!(outcome.error.as_deref(), error);
        assert_eq!(outcome.details.as_deref(), Some("chain"));
        assert_eq!(logged(&outcome), (Level::Error, text));
    }
}

#[test]
fn default_mode_depends_on_the_handler_type() {
    let retrying = Retrying::default();
    let attempt = Attempt {
        default_errors: ErrorsMode::Ignored,
        ..attempt(&retrying)
    };
    let outcome = decide(
        &attempt,
        secs(12),
        Err(HandlerError::arbitrary("ignored anyway")),
    );
    assert_eq!((outcome.is_final, &outcome.error), (true, &None));
}

#[test]
fn fractions_of_seconds_are_reported() {
    let retrying = Retrying {
        timeout: Some(Duration::from_millis(12_500)),
        ..Retrying::default()
    };
    let (_, text) = logged(&decided(&retrying, temporary(Some(1))));
    assert_eq!(
        text,
        "Handler 'fn' failed temporarily but will time out after 12.5 seconds: boom"
    );
}

#[test]
fn cancelled_function_has_timed_out() {
    let retrying = limits(Some(12), None);
    let outcome = decide(
        &attempt(&retrying),
        Duration::from_millis(12_001),
        Err(HandlerError::TimedOut),
    );
    assert!(outcome.is_final);
    let text = "Handler 'fn' has timed out after 0:00:12.001000.".to_owned();
    assert_eq!(outcome.error.as_ref(), Some(&text));
    assert_eq!(logged(&outcome), (Level::Error, text));
}

#[test]
fn limits_are_checked_before_the_call() {
    let cases = [
        (None, None, None),
        (Some(11), Some(2), None),
        (Some(10), None, Some("has timed out after 0:00:10.")),
        (Some(9), Some(1), Some("has timed out after 0:00:10.")),
        (None, Some(1), Some("has exceeded 1 retries.")),
        (None, Some(0), Some("has exceeded 1 retries.")),
    ];
    for (timeout, retries, expected) in cases {
        let retrying = limits(timeout, retries);
        let outcome = forbidden(&attempt(&retrying));
        let error = outcome.as_ref().and_then(|outcome| outcome.error.clone());
        assert_eq!(error, expected.map(|text| format!("Handler 'fn' {text}")));
        assert!(outcome.is_none_or(|outcome| outcome.is_final));
    }
}

#[test]
fn extreme_delays_do_not_overflow() {
    let retrying = limits(Some(100), None);
    let outcome = decided(
        &retrying,
        HandlerError::temporary("boom", Some(Duration::MAX)),
    );
    assert!(outcome.is_final);
}

#[test]
fn chains_of_errors_are_kept_for_the_log() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::fmt::Error);

    let error = HandlerError::from_error(&Outer(std::fmt::Error));
    let inner = std::fmt::Error.to_string();
    assert_eq!(error.to_string(), "outer");
    let details = Some(format!("outer\ncaused by: {inner}"));
    assert_eq!(
        error,
        HandlerError::Arbitrary {
            message: "outer".into(),
            details,
            attachment: None,
        }
    );
    let HandlerError::Arbitrary { details, .. } = HandlerError::from_error(&std::fmt::Error) else {
        panic!("another kind of error");
    };
    assert_eq!(details, None);
}

#[test]
fn errors_without_a_message_have_their_debug_output() {
    #[derive(Debug, thiserror::Error)]
    #[error("")]
    struct Silent;
    assert_eq!(HandlerError::from_error(&Silent).to_string(), "Silent");
}

#[test]
fn expected_failures_are_not_errors_in_native_style() {
    let none = Retrying::default();
    let review = HandlerKind::Admission(crate::admission::WebhookType::Validating);
    let log = |error, kind, style| decided(&none, error).log("Webhook 'fn'", kind, style);
    let temporary = || HandlerError::temporary("boom", None);
    let denied = || HandlerError::denied("no", Some(403));
    let (level, text) = log(temporary(), HandlerKind::Create, Style::Native);
    assert_eq!(
        (level, text.as_str()),
        (Level::Warning, "Webhook 'fn' failed temporarily: boom")
    );
    let (level, text) = log(denied(), review, Style::Native);
    assert_eq!(
        (level, text.as_str()),
        (Level::Info, "Webhook 'fn' denied the request with 403: no")
    );
    // Outside of reviews, a denial is a permanent failure.
    assert_eq!(
        log(denied(), HandlerKind::Create, Style::Native).0,
        Level::Error
    );
    assert_eq!(
        log(temporary(), HandlerKind::Create, Style::Original).0,
        Level::Error
    );
    assert_eq!(log(denied(), review, Style::Original).0, Level::Error);
    let cancelled = |style| Outcome::cancelled().log("x", HandlerKind::Create, style).0;
    assert_eq!(cancelled(Style::Native), Level::Debug);
    assert_eq!(cancelled(Style::Original), Level::Warning);
    let exhausted = decided(&limits(Some(12), None), temporary());
    assert_eq!(
        exhausted.log("x", HandlerKind::Create, Style::Native).0,
        Level::Error
    );
}
