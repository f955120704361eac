//! The report of a run.

use std::io::Write as _;

use kopf_sandbox::fault::Injected;

/// Prints a line to stdout.
macro_rules! print_line {
    ($($text:tt)*) => {
        $crate::report::line(format_args!($($text)*))
    };
}
pub(crate) use print_line;

pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    // stdout may be closed.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The figures and findings of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    pub(crate) changes: u64,
    pub(crate) calls: usize,
    pub(crate) versions: usize,
    pub(crate) faults: Injected,
    pub(crate) findings: Vec<String>,
}

impl Report {
    pub(crate) fn show(&self) {
        let Injected {
            latencies,
            errors,
            resets,
            half_open,
            compactions,
            dropped_events,
            delayed_events,
            cut_watches,
            frozen_watches,
            ..
        } = self.faults;
        print_line!("rounds           {}", self.rounds);
        print_line!("kills            {}", self.kills);
        print_line!("changes by users {}", self.changes);
        print_line!("handler steps    {}", self.calls);
        print_line!("object versions  {}", self.versions);
        print_line!(
            "faults           {errors} errors, {resets} resets, {half_open} half-open connections, \
             {latencies} slow responses, {compactions} compactions, {cut_watches} cut watches, \
             {frozen_watches} frozen watches, {dropped_events} dropped events, \
             {delayed_events} delayed events"
        );
        if self.findings.is_empty() {
            print_line!("findings         none");
        }
        for finding in &self.findings {
            print_line!("FINDING          {finding}");
        }
    }
}
