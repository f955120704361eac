//! Delays between attempts.

use std::time::Duration;

use kopf_core::settings::Backoffs;
use pyo3::prelude::*;

use crate::front::reading::duration;

/// Maximum number of delays taken from an iterable, which may be infinite.
const MAX_DELAYS: usize = 1000;

/// Converts a number or an iterable of numbers to delays between attempts.
pub(crate) fn backoffs(value: &Bound<'_, PyAny>) -> PyResult<Backoffs> {
    let delays = delays(value)?;
    Ok(if delays.len() < MAX_DELAYS {
        Backoffs::finite(delays)
    } else {
        Backoffs::repeating(delays)
    })
}

/// Converts a number or an iterable of numbers. At most [`MAX_DELAYS`] items are used.
pub(crate) fn delays(value: &Bound<'_, PyAny>) -> PyResult<Vec<Duration>> {
    let Ok(items) = value.try_iter() else {
        return Ok(vec![duration(value)?]);
    };
    let delays = items.take(MAX_DELAYS).map(|item| duration(&item?));
    delays.collect()
}
