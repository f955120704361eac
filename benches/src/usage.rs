//! CPU time and memory of a process on Linux.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

/// The unit of times in `/proc/…/stat` on all supported architectures.
const TICK: Duration = Duration::from_millis(10);

/// The usage of a process, by its id.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage(u32);

impl Usage {
    pub(crate) fn of(id: u32) -> Self {
        Self(id)
    }

    /// Returns the user and system CPU time of all threads.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let stat = self.read("stat")?;
        ticks(&stat)
            .map(|ticks| TICK * ticks)
            .context("cannot parse the CPU times of the process")
    }

    /// Returns the current resident memory in megabytes.
    pub(crate) fn resident_megabytes(self) -> Result<f64> {
        self.megabytes("VmRSS:")
    }

    /// Returns the peak resident memory in megabytes.
    pub(crate) fn peak_megabytes(self) -> Result<f64> {
        self.megabytes("VmHWM:")
    }

    /// Sets the peak of the resident memory to the current one.
    pub(crate) fn forget_peak(self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0);
        std::fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
    }

    /// Waits until the process is idle for `period`. Fails after `limit`.
    pub(crate) async fn quiet(self, period: Duration, limit: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let before = self.cpu()?;
            sleep(period).await;
            if self.cpu()? <= before + TICK {
                return Ok(());
            }
            let is_late = began.elapsed() >= limit;
            anyhow::ensure!(!is_late, "the process is still busy after {limit:?}");
        }
    }

    fn megabytes(self, name: &str) -> Result<f64> {
        let status = self.read("status")?;
        let kilobytes =
            kilobytes(&status, name).with_context(|| format!("missing field {name}"))?;
        Ok(kilobytes / 1024.0)
    }

    fn read(self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.0);
        std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}: usage is measured on Linux only"))
    }
}

/// Parses the user and system time of `/proc/…/stat`. The second field is a name that can contain
/// spaces and brackets.
fn ticks(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Parses a field of `/proc/…/status`.
fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_after_any_name() {
        let stat = "7 (a b) (c) S 1 7 7 0 -1 4194304 9 8 7 6 250 50 3 2 20 0 4 0 99";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn memory_is_in_kilobytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kilobytes(status, "VmHWM:"), Some(2048.0));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
    }
}
