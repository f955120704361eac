//! Exceptions of callbacks on their way through the engine to the log records that report them.
//!
//! The engine reports a failed callback by the text of its error. A [`Raised`] error stores its
//! exception for the thread whenever it is displayed, and the next warning or error of that thread
//! with this text takes it.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use kopf_core::failure::sources;
use kopf_core::outcome::Attachment;
use pyo3::prelude::*;

use crate::front::job::Exception;

thread_local! {
    static DISPLAYED: RefCell<Option<Raised>> = const { RefCell::new(None) };
}

/// An exception of a callback, with its text for the engine.
#[derive(Clone)]
pub(crate) struct Raised {
    text: Arc<str>,
    exception: Attachment,
}

impl Raised {
    /// Wraps an exception. The text is its type and its message.
    pub(crate) fn new(error: PyErr) -> Self {
        let text = error.to_string();
        Self::with_text(error, text)
    }

    /// Wraps an exception with another text.
    pub(crate) fn with_text(error: PyErr, text: impl Into<Arc<str>>) -> Self {
        let exception = Python::attach(|py| error.into_value(py).into_any());
        Self::of(exception, text)
    }

    /// Wraps an exception object with this text.
    pub(crate) fn of(exception: Py<PyAny>, text: impl Into<Arc<str>>) -> Self {
        Self {
            text: text.into(),
            exception: Attachment::new(Exception(exception)),
        }
    }

    /// Returns the exception in a chain of errors.
    pub(crate) fn find<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        std::iter::once(error)
            .chain(sources(error))
            .find_map(|error| error.downcast_ref())
    }

    /// Returns the exception object.
    pub(crate) fn exception(&self) -> &Attachment {
        &self.exception
    }
}

/// Takes the exception that this thread has displayed last, if the message contains its text.
pub(crate) fn take_displayed(message: &str) -> Option<Attachment> {
    let displayed = DISPLAYED.take()?;
    message
        .contains(&*displayed.text)
        .then_some(displayed.exception)
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let former = DISPLAYED.replace(Some(self.clone()));
        drop(former);
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Raised").field(&self.text).finish()
    }
}

impl Error for Raised {}
