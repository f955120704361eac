//! JUnit XML, for CI systems.

use std::fmt::Write as _;

use super::text::lines_of;
use super::title;
use crate::outcome::Outcome;

/// Returns an outcome as a JUnit test suite: a failed test per finding, and one that passes if all
/// plans were run without one.
pub fn junit(outcome: &Outcome) -> String {
    let failures = outcome.findings.len();
    let errors = outcome.failed.len();
    let tests = failures + errors + 1;
    let time = outcome.elapsed.as_secs_f64();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"kopf explore\" \
         tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{time:.3}\">\n    \
         <testcase classname=\"kopf.explore\" name=\"{} of {} plans\"/>\n",
        outcome.done, outcome.plans
    );
    for failed in &outcome.failed {
        // Writing to a string cannot fail.
        let _ = write!(
            xml,
            "    <testcase classname=\"kopf.explore.{}\" name=\"{}\">\n      \
             <error message=\"{}\"/>\n    </testcase>\n",
            failed.deviation.family(),
            escaped(&failed.deviation.to_string()),
            escaped(&failed.why),
        );
    }
    for finding in &outcome.findings {
        let family = finding
            .deviation
            .as_ref()
            .map_or("none", |deviation| deviation.family().name());
        let summary = finding.complaints.first();
        let summary = summary.map_or("", |complaint| complaint.summary.as_str());
        let text: Vec<String> = lines_of(finding)
            .into_iter()
            .map(|line| line.text)
            .collect();
        // Writing to a string cannot fail.
        let _ = write!(
            xml,
            "    <testcase classname=\"kopf.explore.{family}\" name=\"{}\">\n      \
             <failure message=\"{}\">{}</failure>\n    </testcase>\n",
            escaped(&title(finding)),
            escaped(summary),
            escaped(&text.join("\n")),
        );
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// Escapes text for XML and HTML. Control characters are not allowed in XML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("<a b=\"&\">\u{1b}"),
            "&lt;a b=&quot;&amp;&quot;&gt;\u{fffd}"
        );
    }

    #[test]
    fn empty_outcome_is_a_passing_suite() {
        let xml = junit(&Outcome::default());
        assert!(xml.contains("failures=\"0\""));
        assert!(xml.ends_with("</testsuites>\n"));
    }
}
