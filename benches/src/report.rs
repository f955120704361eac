//! The table of figures.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;

/// Rows of name, figure and target.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<[String; 3]>,
}

/// The target of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Target {
    fn verdict(self, value: f64) -> String {
        match self {
            Self::AtMost(most) if value <= most => format!("at most {most}: reached"),
            Self::AtMost(most) => format!("at most {most}: MISSED"),
            Self::AtLeast(least) if value >= least => format!("at least {least}: reached"),
            Self::AtLeast(least) => format!("at least {least}: MISSED"),
            Self::None => String::new(),
        }
    }
}

impl Report {
    /// Adds a figure, and prints it to stderr immediately.
    pub(crate) fn add(&mut self, what: impl Into<String>, value: f64, unit: &str, target: Target) {
        let row = [
            what.into(),
            format!("{} {unit}", rounded(value)),
            target.verdict(value),
        ];
        print_status(format_args!("{}: {} {}", row[0], row[1], row[2]));
        self.rows.push(row);
    }

    pub(crate) fn print(&self) -> Result<()> {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let (what, value) = (width(0).unwrap_or_default(), width(1).unwrap_or_default());
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout)?;
        for [name, figure, verdict] in &self.rows {
            let line = format!("{name:what$}  {figure:>value$}  {verdict}");
            writeln!(stdout, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Prints a status message to stderr.
pub(crate) fn print_status(what: impl Display) {
    // stderr may be closed.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Returns the median in milliseconds.
pub(crate) fn median(times: Vec<Duration>) -> f64 {
    percentile(times, 50)
}

/// Returns the percentile in milliseconds, by nearest rank; NaN without times.
pub(crate) fn percentile(mut times: Vec<Duration>, percent: usize) -> f64 {
    times.sort();
    let rank = (times.len() * percent).div_ceil(100).max(1);
    let time = times.get(rank - 1);
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

/// Formats a figure with about three significant digits.
fn rounded(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_targets() {
        assert_eq!(Target::AtMost(50.0).verdict(50.0), "at most 50: reached");
        assert_eq!(Target::AtMost(50.0).verdict(50.1), "at most 50: MISSED");
        assert_eq!(Target::AtLeast(20.0).verdict(19.0), "at least 20: MISSED");
        assert_eq!(Target::None.verdict(1.0), "");
    }

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let hundred: Vec<_> = (1..=100).rev().map(Duration::from_secs).collect();
        for (percent, expected) in [
            (1, 1000.0),
            (50, 50_000.0),
            (99, 99_000.0),
            (100, 100_000.0),
        ] {
            let found = percentile(hundred.clone(), percent);
            assert!(
                (found - expected).abs() < f64::EPSILON,
                "{percent}: {found}"
            );
        }
        assert!((median(vec![Duration::from_millis(7)]) - 7.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
