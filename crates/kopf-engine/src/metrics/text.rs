//! The exposition formats and their negotiation.

/// An exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Format {
    /// Returns the format for an `Accept` header. The default is the format of Prometheus, which
    /// more clients support.
    ///
    /// ```
    /// use kopf_engine::metrics::Format;
    ///
    /// let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
    /// assert_eq!(Format::negotiate(accept), Format::OpenMetrics);
    /// assert_eq!(Format::negotiate("*/*"), Format::Prometheus);
    /// ```
    pub fn negotiate(accept: &str) -> Self {
        let mut open_metrics: f64 = 0.0;
        let mut text: f64 = 0.0;
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality: f64 = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
            if media_type.eq_ignore_ascii_case(OPEN_METRICS) {
                open_metrics = quality.max(open_metrics);
            } else if media_type.eq_ignore_ascii_case("text/plain") {
                text = quality.max(text);
            }
        }
        if open_metrics > 0.0 && open_metrics >= text {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a text in OpenMetrics 1.0 to this format.
    pub(super) fn convert(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => to_prometheus(&text),
        }
    }
}

/// Converts OpenMetrics to the format of Prometheus: comments contain the names of counters with
/// their suffix, and there are no units and no end marker.
fn to_prometheus(text: &str) -> String {
    let mut converted = String::with_capacity(text.len() + text.len() / 16);
    let mut help: Option<(&str, &str)> = None;
    for line in text.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            converted.push_str(line);
            converted.push('\n');
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            // The name depends on the type, which follows.
            (Some("HELP"), Some(name), text) => help = Some((name, text.unwrap_or_default())),
            (Some("TYPE"), Some(name), Some(type_)) => {
                let suffix = if type_ == "counter" { "_total" } else { "" };
                let type_ = if type_ == "unknown" { "untyped" } else { type_ };
                if let Some((_, text)) = help.take().filter(|(helped, _)| *helped == name) {
                    converted.push_str("# HELP ");
                    for part in [name, suffix, " ", text, "\n"] {
                        converted.push_str(part);
                    }
                }
                converted.push_str("# TYPE ");
                for part in [name, suffix, " ", type_, "\n"] {
                    converted.push_str(part);
                }
            }
            _ => {}
        }
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_format_is_selected() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, expected) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("Application/OpenMetrics-Text; q=0.1", Format::OpenMetrics),
            (
                "text/plain, application/openmetrics-text;q=0.9",
                Format::Prometheus,
            ),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text;q=x", Format::Prometheus),
            ("text/html,*/*;q=0.8", Format::Prometheus),
            ("", Format::Prometheus),
        ] {
            assert_eq!(Format::negotiate(accept), expected, "{accept}");
        }
    }

    #[test]
    fn counters_have_their_suffix_in_the_format_of_prometheus() {
        let text = "# HELP a_b Some events.\n# TYPE a_b counter\na_b_total{x=\"y z\"} 1\n\
                    # HELP c Some state.\n# TYPE c gauge\n# UNIT c seconds\nc 1.5\n# EOF\n";
        let expected = "# HELP a_b_total Some events.\n# TYPE a_b_total counter\n\
                        a_b_total{x=\"y z\"} 1\n# HELP c Some state.\n# TYPE c gauge\nc 1.5\n";
        assert_eq!(Format::Prometheus.convert(text.to_owned()), expected);
        assert_eq!(Format::OpenMetrics.convert(text.to_owned()), text);
    }
}
