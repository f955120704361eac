//! Filtering of records by level and logger.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterFn, filter_fn};

use super::directives::Directives;
use crate::posting::is_library;

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
        // Lines have no spans: the record itself has its object.
        if metadata.is_span() {
            return false;
        }
        let limit = match directives.level(metadata) {
            Some(level) => level,
            None if is_library(metadata.target()) => libraries,
            None => own,
        };
        *metadata.level() <= limit
    };
    filter_fn(enabled).with_max_level_hint(max)
}
