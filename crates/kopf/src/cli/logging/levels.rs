//! Which records are written: by their level, and by who made them.

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterFn, filter_fn};

/// How much is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::cli) enum Verbosity {
    /// Only what can be a problem.
    Quiet,
    /// What happens.
    #[default]
    Normal,
    /// Also how it happens.
    Verbose,
    /// Also how it happens in the libraries below.
    Debug,
}

/// The crates below us, sorted: who runs an operator is not interested in their work, only in their
/// complaints. All others are ours or the author's.
const LIBRARIES: &[&str] = &[
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_timeout",
    "hyper_util",
    "jiff",
    "kopf_sandbox",
    "kube",
    "kube_client",
    "kube_core",
    "mio",
    "rustls",
    "tokio",
    "tokio_rustls",
    "tokio_util",
    "tower",
    "tower_http",
    "want",
];

/// The same for all records of one place in the code, so that it is asked once for each.
///
/// Traces are never written: in those of some libraries there are headers with credentials.
pub(super) fn filter(verbosity: Verbosity) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let own = match verbosity {
        Verbosity::Quiet => Level::WARN,
        Verbosity::Normal => Level::INFO,
        Verbosity::Verbose | Verbosity::Debug => Level::DEBUG,
    };
    let libraries = match verbosity {
        Verbosity::Debug => Level::DEBUG,
        _ => Level::WARN,
    };
    let enabled = move |metadata: &Metadata<'_>| {
        let limit = if is_library(metadata.target()) {
            libraries
        } else {
            own
        };
        *metadata.level() <= limit
    };
    filter_fn(enabled).with_max_level_hint(LevelFilter::from_level(own.max(libraries)))
}

fn is_library(target: &str) -> bool {
    let root = target.split("::").next().unwrap_or(target);
    LIBRARIES.binary_search(&root).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(LIBRARIES.is_sorted());
    }

    #[test]
    fn libraries_are_known_by_whole_names() {
        assert!(is_library("hyper"));
        assert!(is_library("hyper::client::conn"));
        assert!(!is_library("hyperspace"));
        assert!(!is_library("kopf.objects"));
        assert!(!is_library("kopf_engine::operator"));
    }
}
