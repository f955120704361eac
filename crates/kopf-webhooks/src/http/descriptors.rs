//! Limit of open files of the process.

/// Divisor of the limit for connections: the rest is for the operator and its handlers.
const PART: usize = 2;

/// Returns the number of connections within the limit of open files.
pub(super) fn affordable(wanted: usize) -> usize {
    // Other systems than Linux need C calls for this. There, connections are evicted when accepting
    // fails.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let affordable = open_files(&limits).map_or(wanted, |most| wanted.min(most / PART));
    if affordable < wanted {
        tracing::debug!(
            "The webhook server accepts {affordable} connections instead of {wanted}: the process \
             can have no more than {} open files (ulimit -n).",
            affordable * PART
        );
    }
    affordable.max(1)
}

/// Returns the soft limit, if there is one.
fn open_files(limits: &str) -> Option<usize> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_linux_writes_them() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             63432                63432                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(open_files(limits), Some(1024));
        let unlimited = limits.replace("1024  ", "unlimited  ");
        assert_eq!(open_files(&unlimited), None);
        assert_eq!(open_files(""), None);
    }

    #[test]
    fn few_connections_are_always_affordable() {
        assert_eq!(affordable(0), 1);
        assert_eq!(affordable(3), 3);
        assert!(affordable(usize::MAX) > 16);
        #[cfg(target_os = "linux")]
        assert!(affordable(1 << 40) < 1 << 40, "it is not looked at");
    }
}
