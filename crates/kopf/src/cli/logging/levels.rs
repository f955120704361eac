//! Filtering of records by level and logger.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterFn, filter_fn};

use super::directives::Directives;

/// The verbosity of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::cli) enum Verbosity {
    /// Warnings and errors.
    Quiet,
    /// Infos as well.
    #[default]
    Normal,
    /// Debug messages of the operator as well.
    Verbose,
    /// Debug messages of libraries as well.
    Debug,
}

/// Libraries of the framework, sorted. Their INFO and DEBUG messages are noise in the log of an
/// operator.
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

/// Returns the filter. It depends only on metadata, so that its result is cached per call site.
///
/// Directives override the verbosity. TRACE records of libraries are written only if a directive
/// names the library: some of them contain headers with credentials.
pub(super) fn filter(
    verbosity: Verbosity,
    directives: Directives,
) -> FilterFn<impl Fn(&Metadata<'_>) -> bool> {
    let own = match verbosity {
        Verbosity::Quiet => LevelFilter::WARN,
        Verbosity::Normal => LevelFilter::INFO,
        Verbosity::Verbose | Verbosity::Debug => LevelFilter::DEBUG,
    };
    let libraries = match verbosity {
        Verbosity::Debug => LevelFilter::DEBUG,
        _ => LevelFilter::WARN,
    };
    let own = directives.default.unwrap_or(own);
    let libraries = match directives.default {
        Some(level) => level.min(LevelFilter::DEBUG),
        None => libraries,
    };
    let max = own.max(libraries).max(directives.max());
    let enabled = move |metadata: &Metadata<'_>| {
        let limit = match directives.level(metadata) {
            Some(level) => level,
            None if is_library(metadata.target()) => libraries,
            None => own,
        };
        *metadata.level() <= limit
    };
    filter_fn(enabled).with_max_level_hint(max)
}

fn is_library(target: &str) -> bool {
    let root = target.split("::").next().unwrap_or(target);
    LIBRARIES.binary_search(&root).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_sorted() {
        assert!(LIBRARIES.is_sorted());
    }

    #[test]
    fn libraries_are_matched_by_whole_names() {
        assert!(is_library("hyper"));
        assert!(is_library("hyper::client::conn"));
        assert!(!is_library("hyperspace"));
        assert!(!is_library("kopf.objects"));
        assert!(!is_library("kopf_engine::operator"));
    }
}
