//! What is said in the end.

use std::io::Write as _;

use kopf_sandbox::fault::Injected;

/// Writes a line at once: what follows takes a while.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::report::line(format_args!($($text)*))
    };
}
pub(crate) use tell;

pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    // Nobody may be there to read it.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// The figures of a run, and what must not have happened.
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
        tell!("rounds           {}", self.rounds);
        tell!("kills            {}", self.kills);
        tell!("changes by users {}", self.changes);
        tell!("steps of handlers {}", self.calls);
        tell!("versions judged  {}", self.versions);
        tell!(
            "faults           {errors} errors, {resets} resets, {half_open} half-open connections, \
             {latencies} slow answers, {compactions} compactions, {cut_watches} cut watches, \
             {frozen_watches} frozen watches, {dropped_events} dropped events, \
             {delayed_events} late events"
        );
        if self.findings.is_empty() {
            tell!("findings         none");
        }
        for finding in &self.findings {
            tell!("FINDING          {finding}");
        }
    }
}
