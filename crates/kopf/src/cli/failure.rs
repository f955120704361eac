//! Failures of the program in its log.

pub(super) use kopf_core::failure::Failure;

/// Logs a failure: one line per cause, and the advice in the last line.
pub(super) fn log(failure: &Failure) {
    let details = details(failure);
    tracing::error!(target: "kopf.cli", exc_info = details, "{}", failure.what());
}

fn details(failure: &Failure) -> Option<String> {
    let causes = failure.causes().iter().flat_map(|cause| cause.lines());
    let causes = causes.map(|line| format!("  {}", line.trim_end()));
    let advice = failure.advice().map(|advice| format!("Advice: {advice}"));
    let lines: Vec<_> = causes.chain(advice).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Returns the failure of manifests that cannot be loaded.
#[cfg(feature = "sandbox")]
#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
pub(super) fn of_manifests(error: kopf_sandbox::manifests::Error) -> Failure {
    Failure::from_parts(error.what(), error.causes(), error.advice())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn details_have_a_line_per_cause() {
        let failure = Failure::new("it cannot be", &io::Error::other("the disk\nis full"));
        assert_eq!(details(&failure).unwrap(), "  the disk\n  is full");
        let failure = failure.advise("buy another one");
        assert_eq!(
            details(&failure).unwrap(),
            "  the disk\n  is full\nAdvice: buy another one"
        );
        assert_eq!(details(&Failure::plain("it cannot be")), None);
    }
}
