//! Metrics of the process, read from `/proc`. Absent on systems without it.

use std::fs;

/// Clock ticks per second in `/proc`. Linux reports 100 on all architectures that the Rust standard
/// library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// Statistics of the process. Unreadable values are absent.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Process {
    pub(super) cpu_seconds: Option<f64>,
    pub(super) start_seconds: Option<f64>,
    pub(super) resident_bytes: Option<f64>,
    pub(super) virtual_bytes: Option<f64>,
    pub(super) threads: Option<f64>,
    pub(super) open_fds: Option<f64>,
    pub(super) max_fds: Option<f64>,
}

impl Process {
    /// Reads the current values.
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut process = Self::parse(
            &text("/proc/self/stat"),
            &text("/proc/self/status"),
            &text("/proc/stat"),
            &text("/proc/self/limits"),
        );
        let open = fs::read_dir("/proc/self/fd").ok();
        // One of them is the opened directory.
        let open = open.map(|files| files.count().saturating_sub(1));
        process.open_fds = open.and_then(|count| u32::try_from(count).ok().map(f64::from));
        process
    }

    fn parse(stat: &str, status: &str, system: &str, limits: &str) -> Self {
        // The name of the program is in parentheses and can contain any character.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks = |position: usize| number(fields.get(position)?);
        let user_and_system = ticks(11).zip(ticks(12));
        let booted = line(system, "btime ").and_then(number);
        let kilobytes = |name| {
            let value = line(status, name)?.trim().strip_suffix(" kB")?;
            Some(number(value.trim())? * 1024.0)
        };
        Self {
            cpu_seconds: user_and_system.map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            start_seconds: booted
                .zip(ticks(19))
                .map(|(booted, ticks)| booted + ticks / TICKS_PER_SECOND),
            resident_bytes: kilobytes("VmRSS:"),
            virtual_bytes: kilobytes("VmSize:"),
            threads: line(status, "Threads:").and_then(|value| number(value.trim())),
            open_fds: None,
            max_fds: line(limits, "Max open files").and_then(|values| {
                let soft = values.split_whitespace().next()?;
                number(soft)
            }),
        }
    }
}

/// Returns the rest of the line that starts with `start`.
fn line<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(start))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 5 0 1000 1 2";
        let status = "Name:\ta\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\nThreads:\t5\n";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   4096   files\n";
        let process = Process::parse(stat, status, "cpu 1\nbtime 1700000000\n", limits);
        let expected = Process {
            cpu_seconds: Some(2.0),
            start_seconds: Some(1_700_000_010.0),
            resident_bytes: Some(524_288.0),
            virtual_bytes: Some(2_097_152.0),
            threads: Some(5.0),
            open_fds: None,
            max_fds: Some(1024.0),
        };
        assert_eq!(process, expected);
    }

    #[test]
    fn missing_values_are_absent() {
        assert_eq!(Process::parse("", "", "", ""), Process::default());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn values_of_this_process_are_read() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 0.0));
        assert!(process.open_fds.is_some_and(|count| count > 0.0));
        assert!(process.start_seconds.is_some());
    }
}
